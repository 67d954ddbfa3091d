package segments

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"time"

	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"dvcodec/shared/lines"
)

// bencher keeps what a benchmark needs ready between commands: open segments, documents that are parsed and analysed.
type bencher[Bitmap any] struct {
	format    *Format[Bitmap]
	opened    map[string]segment.Segment
	documents map[string][]index.Document
	// Sum depends on every value that was read, so that no work can be left out.
	sum uint64
}

func newBencher[Bitmap any](format *Format[Bitmap]) *bencher[Bitmap] {
	return &bencher[Bitmap]{format: format, opened: map[string]segment.Segment{}, documents: map[string][]index.Document{}}
}

// bench does one task over and over and answers how much processor time one run took. It has one core, garbage collection included.
func (b *bencher[Bitmap]) bench(command []byte) (map[string]any, error) {
	var given struct {
		Op, What, Path, Out string
		Drops               []uint32
		Times               int
		Warm                float64
	}
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	if given.Times < 1 {
		return nil, fmt.Errorf("a task is done once at least, not %d times", given.Times)
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	task, err := b.task(given.What, given.Path, given.Out, given.Drops)
	if err != nil {
		return nil, err
	}
	for start := time.Now(); time.Since(start).Seconds() < given.Warm; {
		if err := task(); err != nil {
			return nil, err
		}
	}
	runtime.GC()
	b.sum = 0
	start, err := processorTime()
	if err != nil {
		return nil, err
	}
	for i := 0; i < given.Times; i++ {
		if err := task(); err != nil {
			return nil, err
		}
	}
	end, err := processorTime()
	took := (end - start).Seconds() / float64(given.Times)
	return map[string]any{"seconds": took, "sum": b.sum / uint64(given.Times)}, err
}

// processorTime is what this process has used, which other processes of a busy machine do not change.
func processorTime() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}

func (b *bencher[Bitmap]) task(what, path, out string, drops []uint32) (func() error, error) {
	if what == "write" {
		documents, err := b.read(path)
		return func() error { return b.write(documents) }, err
	}
	opened, err := b.open(path)
	if err != nil {
		return nil, err
	}
	switch what {
	case "terms":
		return func() error { return b.terms(opened) }, nil
	case "postings", "locations":
		return func() error { return b.postings(opened, what == "locations") }, nil
	case "stored":
		return func() error { return b.stored(opened) }, nil
	case "doc_values":
		return func() error { return b.docValues(opened) }, nil
	case "merge":
		dropped := []*Bitmap{b.format.BitmapOf(drops...)}
		return func() error { return b.merge(opened, dropped, out) }, nil
	}
	return nil, fmt.Errorf("no such task: %q", what)
}

func (b *bencher[Bitmap]) read(path string) ([]index.Document, error) {
	if found, ok := b.documents[path]; ok {
		return found, nil
	}
	found, err := b.format.readDocuments(path)
	b.documents[path] = found
	return found, err
}

func (b *bencher[Bitmap]) open(path string) (segment.Segment, error) {
	if found, ok := b.opened[path]; ok {
		return found, nil
	}
	found, err := b.format.Plugin.Open(path)
	if err != nil {
		return nil, err
	}
	b.opened[path] = found
	return found, nil
}

// terms asks for every term and the number of its documents.
func (b *bencher[Bitmap]) terms(of segment.Segment) error {
	for _, field := range of.Fields() {
		dictionary, err := of.Dictionary(field)
		if err != nil {
			return err
		}
		terms := dictionary.AutomatonIterator(nil, nil, nil)
		entry, err := terms.Next()
		for ; err == nil && entry != nil; entry, err = terms.Next() {
			b.sum += uint64(len(entry.Term)) + entry.Count
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// postings asks for every posting of every term, with frequency and norm, and for every location if so asked. As in a
// search, a list is found by its term, and the objects of the last one are used again.
func (b *bencher[Bitmap]) postings(of segment.Segment, locations bool) error {
	var list segment.PostingsList
	var postings segment.PostingsIterator
	for _, field := range of.Fields() {
		dictionary, err := of.Dictionary(field)
		if err != nil {
			return err
		}
		terms := dictionary.AutomatonIterator(nil, nil, nil)
		entry, err := terms.Next()
		for ; err == nil && entry != nil; entry, err = terms.Next() {
			if list, err = dictionary.PostingsList([]byte(entry.Term), nil, list); err != nil {
				return err
			}
			postings = list.Iterator(true, true, locations, postings)
			posting, err := postings.Next()
			for ; err == nil && posting != nil; posting, err = postings.Next() {
				b.sum += posting.Number() + posting.Frequency() + uint64(posting.Norm()*1024)
				if locations {
					for _, location := range posting.Locations() {
						b.sum += location.Pos() + location.Start() + location.End() + uint64(len(location.Field()))
					}
				}
			}
			if err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stored asks for every stored value.
func (b *bencher[Bitmap]) stored(of segment.Segment) error {
	visitor := func(field string, kind byte, value []byte, positions []uint64) bool {
		b.sum += uint64(len(field)+len(value)+len(positions)) + uint64(kind)
		return true
	}
	for doc := uint64(0); doc < of.Count(); doc++ {
		if err := of.VisitStoredFields(doc, visitor); err != nil {
			return err
		}
	}
	return nil
}

// docValues asks for the doc values of every document.
func (b *bencher[Bitmap]) docValues(of segment.Segment) error {
	visitable := of.(segment.DocValueVisitable)
	fields, err := visitable.VisitableDocValueFields()
	if err != nil {
		return err
	}
	visitor := func(field string, term []byte) { b.sum += uint64(len(field) + len(term)) }
	var state segment.DocVisitState
	for doc := uint64(0); doc < of.Count(); doc++ {
		if state, err = visitable.VisitDocValues(doc, fields, visitor, state); err != nil {
			return err
		}
	}
	return nil
}

// write builds a segment of analysed documents, and puts it into memory as it would be in a file.
func (b *bencher[Bitmap]) write(documents []index.Document) error {
	built, _, err := b.format.Plugin.New(documents)
	if err != nil {
		return err
	}
	defer built.Close()
	var file bytes.Buffer
	size, err := built.(io.WriterTo).WriteTo(&file)
	b.sum += uint64(size)
	return err
}

func (b *bencher[Bitmap]) merge(of segment.Segment, drops []*Bitmap, out string) error {
	if err := remove(out); err != nil {
		return err
	}
	_, size, err := b.format.Plugin.Merge([]segment.Segment{of}, drops, out, make(chan struct{}), nil)
	b.sum += size
	return err
}
