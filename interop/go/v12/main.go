// Command zap12 writes, merges and reads segments of version 12.
package main

import (
	"dvcodec/shared/segments"

	zap "github.com/blevesearch/zapx/v12"
)

func main() {
	segments.Main(segments.Format{Plugin: &zap.ZapPlugin{}, ChunkMode: &zap.DefaultChunkMode})
}
