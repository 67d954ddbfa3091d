// Command zap17 writes, merges and reads segments of version 17.
package main

import (
	"github.com/RoaringBitmap/roaring/v2"
	segment "github.com/blevesearch/scorch_segment_api/v2"
	zap "github.com/blevesearch/zapx/v17"

	"dvcodec/shared/lines"
	"dvcodec/shared/nested"
	"dvcodec/shared/segments"
)

func geo(of segment.Segment, field string) (map[uint32]segments.GeoJSON, error) {
	data, err := of.(segment.GeoShapeV2Segment).GeoShapeV2Data(field, nil)
	if err != nil || data == nil {
		return nil, err
	}
	defer data.Close()
	inner, cross := data.DocScores()
	parts := make([]segments.GeoJSON, data.NumDocs())
	for id := range parts {
		box, err := data.BoundingBox(uint32(id))
		if err != nil {
			return nil, err
		}
		shape, err := data.Shape(uint32(id))
		if err != nil {
			return nil, err
		}
		parts[id] = segments.GeoJSON{
			Scores: [2]uint64{inner[id], cross[id]}, Box: lines.Text(box), Shape: lines.Text(shape),
		}
	}
	for i, cell := range data.InnerCells() {
		part := &parts[data.InnerDocIDs()[i]]
		part.Inner = append(part.Inner, cell)
	}
	for i, cell := range data.CrossCells() {
		part := &parts[data.CrossDocIDs()[i]]
		part.Cross = append(part.Cross, cell)
	}
	found := map[uint32]segments.GeoJSON{}
	for id, doc := range data.DocNums() {
		found[doc] = parts[id]
	}
	return found, nil
}

func main() {
	segments.Main(segments.Format[roaring.Bitmap]{
		Plugin: &zap.ZapPlugin{}, BitmapOf: roaring.BitmapOf, ChunkMode: &zap.DefaultChunkMode,
		Extras: segments.Extras{Ancestors: nested.Ancestors, Geo: geo},
	})
}
