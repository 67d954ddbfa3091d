// Command zap17_1 writes, merges and reads segments of version 17.
package main

import (
	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"
	zap "github.com/blevesearch/zapx/v17"

	"dvcodec/shared/segments"
)

func ancestors(of segment.Segment, doc uint64) []uint64 {
	var found []uint64
	for _, ancestor := range of.(segment.NestedSegment).Ancestors(doc, []index.AncestorID{}) {
		found = append(found, uint64(ancestor))
	}
	return found
}

func main() {
	segments.Main(segments.Format{Plugin: &zap.ZapPlugin{}, ChunkMode: &zap.DefaultChunkMode, Ancestors: ancestors})
}
