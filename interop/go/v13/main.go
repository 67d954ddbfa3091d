// Command zap13 writes, merges and reads segments of version 13.
package main

import (
	"dvcodec/shared/segments"

	zap "github.com/blevesearch/zapx/v13"
)

func main() {
	segments.Main(segments.Format{Plugin: &zap.ZapPlugin{}, ChunkMode: &zap.DefaultChunkMode})
}
