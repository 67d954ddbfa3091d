// Command zap14_first writes, merges and reads segments of version 14.
package main

import (
	"github.com/RoaringBitmap/roaring"
	zap "github.com/blevesearch/zapx/v14"

	"dvcodec/shared/segments"
)

func main() {
	segments.Main(segments.Format[roaring.Bitmap]{
		Plugin: &zap.ZapPlugin{}, BitmapOf: roaring.BitmapOf, ChunkMode: &zap.DefaultChunkMode,
	})
}
