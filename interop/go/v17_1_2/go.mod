module dvcodec/zap17_1_2

go 1.25.0

require (
	dvcodec/shared v0.0.0
	github.com/RoaringBitmap/roaring/v2 v2.14.5
	github.com/blevesearch/zapx/v17 v17.1.2
)

require (
	github.com/bits-and-blooms/bitset v1.24.2 // indirect
	github.com/blevesearch/bleve_index_api v1.3.11 // indirect
	github.com/blevesearch/go-faiss v1.1.0 // indirect
	github.com/blevesearch/mmap-go v1.2.0 // indirect
	github.com/blevesearch/scorch_segment_api/v2 v2.4.7 // indirect
	github.com/blevesearch/vellum v1.2.0 // indirect
	github.com/golang/snappy v1.0.0 // indirect
	github.com/mschoch/smat v0.2.0 // indirect
	golang.org/x/sys v0.40.0 // indirect
)

replace dvcodec/shared => ../shared
