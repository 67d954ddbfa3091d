// Command zap15 writes, merges and reads segments of version 15.
package main

import (
	"dvcodec/shared/segments"

	zap "github.com/blevesearch/zapx/v15"
)

func main() {
	segments.Main(segments.Format{Plugin: &zap.ZapPlugin{}, ChunkMode: &zap.DefaultChunkMode})
}
