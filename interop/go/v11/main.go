// Command zap11 writes, merges and reads segments of version 11.
package main

import (
	_ "unsafe" // for linkname

	"github.com/RoaringBitmap/roaring/v2"
	zap "github.com/blevesearch/zapx/v11"

	"dvcodec/shared/segments"
)

// In this version the variable is not exported.
//
//go:linkname chunkFactor github.com/blevesearch/zapx/v11.defaultChunkFactor
var chunkFactor uint32

func main() {
	segments.Main(segments.Format[roaring.Bitmap]{
		Plugin: &zap.ZapPlugin{}, BitmapOf: roaring.BitmapOf, ChunkMode: &chunkFactor,
	})
}
