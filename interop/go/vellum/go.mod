module dvcodec/vellum

go 1.25.0

require (
	dvcodec/shared v0.0.0
	github.com/blevesearch/vellum v1.2.1
)

require (
	github.com/bits-and-blooms/bitset v1.24.2 // indirect
	github.com/blevesearch/mmap-go v1.2.0 // indirect
	golang.org/x/sys v0.40.0 // indirect
)

replace dvcodec/shared => ../shared
