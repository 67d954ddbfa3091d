module dvcodec/shared

go 1.21

// The oldest that zapx v11 to v15 ask for: what is used here is in all later ones too.
require (
	github.com/blevesearch/bleve_index_api v1.2.8
	github.com/blevesearch/scorch_segment_api/v2 v2.3.10
)

require (
	github.com/RoaringBitmap/roaring/v2 v2.4.5 // indirect
	github.com/bits-and-blooms/bitset v1.12.0 // indirect
	github.com/mschoch/smat v0.2.0 // indirect
)
