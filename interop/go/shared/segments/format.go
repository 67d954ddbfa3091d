// Package segments is the part of the programs that does not depend on the version of the segments: documents from JSON, what a reader
// sees to JSON. It is compiled against the API that a program's version of zapx selects.
package segments

import (
	"fmt"
	"os"

	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"dvcodec/shared/lines"
)

// Plugin is what all versions of zapx have in common. Bitmap is that of the version of roaring that they use.
type Plugin[Bitmap any] interface {
	New(results []index.Document) (segment.Segment, uint64, error)
	Open(path string) (segment.Segment, error)
	Merge(segments []segment.Segment, drops []*Bitmap, path string, closeCh chan struct{},
		reporter segment.StatsReporter) ([][]uint64, uint64, error)
	Version() uint32
}

// Format is one version of zapx.
type Format[Bitmap any] struct {
	Plugin Plugin[Bitmap]
	// BitmapOf makes a bitmap of document numbers.
	BitmapOf func(docs ...uint32) *Bitmap
	// ChunkMode is zapx's variable of the chunk mode for everything that is written.
	ChunkMode *uint32
	Extras
}

// Extras are what only some versions have; nil in the others.
type Extras struct {
	// Ancestors are a document and its parents, upwards.
	Ancestors func(of segment.Segment, doc uint64) []uint64
	// Geo is what the geo section keeps of a field, by document number.
	Geo func(of segment.Segment, field string) (map[uint32]GeoJSON, error)
}

// Main is the whole of a program for one version.
func Main[Bitmap any](format Format[Bitmap]) {
	lines.Serve(map[string]lines.Operation{
		"write": format.write, "merge": format.merge, "dump": format.dump, "bench": newBencher(&format).bench,
	})
}

// withChunkMode runs with another chunk mode than the version's own, if one is given.
func (f *Format[Bitmap]) withChunkMode(mode *uint32, do func() error) error {
	if mode != nil {
		before := *f.ChunkMode
		defer func() { *f.ChunkMode = before }()
		*f.ChunkMode = *mode
	}
	return do()
}

func (f *Format[Bitmap]) write(command []byte) (map[string]any, error) {
	var given struct {
		Op, Docs, Out string
		ChunkMode     *uint32 `json:"chunk_mode"`
	}
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	documents, err := f.readDocuments(given.Docs)
	if err != nil {
		return nil, err
	}
	return nil, f.withChunkMode(given.ChunkMode, func() error {
		built, _, err := f.Plugin.New(documents)
		if err != nil {
			return err
		}
		defer built.Close()
		return Persist(built, given.Out)
	})
}

// Persist writes a segment that is in memory to a file.
func Persist(built segment.Segment, path string) error {
	if err := remove(path); err != nil {
		return err
	}
	unpersisted, ok := built.(segment.UnpersistedSegment)
	if !ok {
		return fmt.Errorf("%T cannot be persisted", built)
	}
	return unpersisted.Persist(path)
}

// remove makes room: zapx opens its output without truncating it.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (f *Format[Bitmap]) merge(command []byte) (map[string]any, error) {
	var given struct {
		Op     string
		Inputs []struct {
			Path  string
			Drops *[]uint32
		}
		Out       string
		ChunkMode *uint32 `json:"chunk_mode"`
	}
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	var inputs []segment.Segment
	defer func() {
		for _, input := range inputs {
			input.Close()
		}
	}()
	var drops []*Bitmap
	for _, input := range given.Inputs {
		opened, err := f.Plugin.Open(input.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", input.Path, err)
		}
		inputs = append(inputs, opened)
		var dropped *Bitmap
		if input.Drops != nil {
			dropped = f.BitmapOf(*input.Drops...)
		}
		drops = append(drops, dropped)
	}
	if err := remove(given.Out); err != nil {
		return nil, err
	}
	var numbers [][]uint64
	err := f.withChunkMode(given.ChunkMode, func() (err error) {
		numbers, _, err = f.Plugin.Merge(inputs, drops, given.Out, make(chan struct{}), nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return map[string]any{"numbers": newNumbers(numbers)}, nil
}

// newNumbers are the new document numbers by segment and old number, null for a dropped one.
func newNumbers(numbers [][]uint64) [][]*uint64 {
	found := make([][]*uint64, len(numbers))
	for i, segment := range numbers {
		found[i] = make([]*uint64, len(segment))
		for j := range segment {
			if segment[j] != ^uint64(0) {
				found[i][j] = &segment[j]
			}
		}
	}
	return found
}
