// Command zap16 writes, merges and reads segments of version 16.
package main

import (
	"dvcodec/shared/segments"

	zap "github.com/blevesearch/zapx/v16"
)

func main() {
	segments.Main(segments.Format{Plugin: &zap.ZapPlugin{}, ChunkMode: &zap.DefaultChunkMode})
}
