// Package nested needs the API of zapx 17, the only version with nested documents.
package nested

import (
	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"
)

// Ancestors are a document and its parents, upwards.
func Ancestors(of segment.Segment, doc uint64) []uint64 {
	var found []uint64
	for _, ancestor := range of.(segment.NestedSegment).Ancestors(doc, []index.AncestorID{}) {
		found = append(found, uint64(ancestor))
	}
	return found
}
