// Command zap17_1_2 writes, merges and reads segments of version 17.
package main

import (
	"github.com/RoaringBitmap/roaring/v2"
	zap "github.com/blevesearch/zapx/v17"

	"dvcodec/shared/nested"
	"dvcodec/shared/segments"
)

func main() {
	segments.Main(segments.Format[roaring.Bitmap]{
		Plugin: &zap.ZapPlugin{}, BitmapOf: roaring.BitmapOf, ChunkMode: &zap.DefaultChunkMode, Extras: segments.Extras{Ancestors: nested.Ancestors},
	})
}
