// Command zap14 writes, merges and reads segments of version 14.
package main

import (
	"dvcodec/shared/segments"

	zap "github.com/blevesearch/zapx/v14"
)

func main() {
	segments.Main(segments.Format{Plugin: &zap.ZapPlugin{}, ChunkMode: &zap.DefaultChunkMode})
}
