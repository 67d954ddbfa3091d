// Command zap11 writes, merges and reads segments of version 11.
package main

import (
	_ "unsafe" // for linkname

	"dvcodec/shared/segments"

	zap "github.com/blevesearch/zapx/v11"
)

// In this version the variable is not exported.
//
//go:linkname chunkFactor github.com/blevesearch/zapx/v11.defaultChunkFactor
var chunkFactor uint32

func main() {
	segments.Main(segments.Format{Plugin: &zap.ZapPlugin{}, ChunkMode: &chunkFactor})
}
