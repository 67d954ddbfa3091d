// Command zap12 writes, merges and reads segments of version 12.
package main

import (
	"github.com/RoaringBitmap/roaring/v2"
	zap "github.com/blevesearch/zapx/v12"

	"dvcodec/shared/segments"
)

func main() {
	segments.Main(segments.Format[roaring.Bitmap]{
		Plugin: &zap.ZapPlugin{}, BitmapOf: roaring.BitmapOf, ChunkMode: &zap.DefaultChunkMode,
	})
}
