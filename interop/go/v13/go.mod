module dvcodec/zap13

go 1.25.0

require (
	dvcodec/shared v0.0.0
	github.com/RoaringBitmap/roaring/v2 v2.4.5
	github.com/blevesearch/zapx/v13 v13.4.3
)

require (
	github.com/bits-and-blooms/bitset v1.12.0 // indirect
	github.com/blevesearch/bleve_index_api v1.2.8 // indirect
	github.com/blevesearch/mmap-go v1.0.4 // indirect
	github.com/blevesearch/scorch_segment_api/v2 v2.3.10 // indirect
	github.com/blevesearch/vellum v1.0.10 // indirect
	github.com/golang/snappy v0.0.1 // indirect
	github.com/mschoch/smat v0.2.0 // indirect
	golang.org/x/sys v0.0.0-20220520151302-bc2c85ada10a // indirect
)

replace dvcodec/shared => ../shared
