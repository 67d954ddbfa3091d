module dvcodec/zap16_first

go 1.25.0

require (
	dvcodec/shared v0.0.0
	github.com/RoaringBitmap/roaring/v2 v2.4.5
	github.com/blevesearch/zapx/v16 v16.2.4
)

require (
	github.com/bits-and-blooms/bitset v1.22.0 // indirect
	github.com/blevesearch/bleve_index_api v1.2.8 // indirect
	github.com/blevesearch/go-faiss v1.0.25 // indirect
	github.com/blevesearch/mmap-go v1.0.4 // indirect
	github.com/blevesearch/scorch_segment_api/v2 v2.3.10 // indirect
	github.com/blevesearch/vellum v1.1.0 // indirect
	github.com/golang/snappy v0.0.4 // indirect
	github.com/mschoch/smat v0.2.0 // indirect
	golang.org/x/sys v0.13.0 // indirect
)

replace dvcodec/shared => ../shared
