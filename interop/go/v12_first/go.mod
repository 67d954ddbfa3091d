module dvcodec/zap12_first

go 1.25.0

require (
	dvcodec/shared v0.0.0
	github.com/RoaringBitmap/roaring v0.4.23
	github.com/blevesearch/zapx/v12 v12.2.0
)

require (
	github.com/blevesearch/bleve_index_api v1.2.8 // indirect
	github.com/blevesearch/mmap-go v1.0.2 // indirect
	github.com/blevesearch/scorch_segment_api/v2 v2.3.10 // indirect
	github.com/blevesearch/vellum v1.0.3 // indirect
	github.com/glycerine/go-unsnap-stream v0.0.0-20181221182339-f9677308dec2 // indirect
	github.com/golang/snappy v0.0.1 // indirect
	github.com/mschoch/smat v0.2.0 // indirect
	github.com/philhofer/fwd v1.0.0 // indirect
	github.com/tinylib/msgp v1.1.0 // indirect
	github.com/willf/bitset v1.1.10 // indirect
	golang.org/x/sys v0.0.0-20190813064441-fde4db37ae7a // indirect
)

// The API of this release: its bitmaps are of the first version of roaring.
replace (
	dvcodec/shared => ../shared
	github.com/blevesearch/bleve_index_api => github.com/blevesearch/bleve_index_api v1.0.0
	github.com/blevesearch/scorch_segment_api/v2 => github.com/blevesearch/scorch_segment_api/v2 v2.0.1
)
