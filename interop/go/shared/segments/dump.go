package segments

import (
	"bufio"
	"fmt"
	"os"
	"sort"

	segment "github.com/blevesearch/scorch_segment_api/v2"

	"dvcodec/shared/lines"
)

// dump writes what zapx's reader sees of a file.
func (f *Format[Bitmap]) dump(command []byte) (map[string]any, error) {
	var given struct {
		Op, Path, Out string
		TrueCounts    bool `json:"true_counts"`
	}
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	opened, err := f.Plugin.Open(given.Path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	file, err := os.Create(given.Out)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	dumper := &dumper{lines.Writer{Writer: bufio.NewWriterSize(file, 1<<20)}, opened, &f.Extras, given.TrueCounts}
	if err := dumper.dump(); err != nil {
		return nil, err
	}
	return nil, dumper.Flush()
}

type dumper struct {
	lines.Writer
	segment    segment.Segment
	extras     *Extras
	trueCounts bool
}

func (d *dumper) dump() error {
	d.Raw(`{"count":`)
	d.Number(d.segment.Count())
	d.Raw(",\n\"fields\":")
	d.texts(d.segment.Fields())
	withValues, err := d.valueFields()
	if err != nil {
		return err
	}
	d.Raw(",\n\"dv_fields\":")
	d.texts(withValues)
	for _, part := range []struct {
		name string
		dump func() error
	}{
		{"stored", func() error { return d.documents(d.stored) }},
		{"docvalues", func() error { return d.docValues(withValues) }},
		{"dicts", d.dictionaries},
	} {
		d.Raw(",\n\"", part.name, "\":")
		if err := part.dump(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if err := d.thesauri(); err != nil {
		return fmt.Errorf("thesauri: %w", err)
	}
	d.nesting()
	if err := d.geo(); err != nil {
		return fmt.Errorf("geo: %w", err)
	}
	d.Raw("}\n")
	return nil
}

func (d *dumper) texts(texts []string) {
	d.Raw("[")
	for i, text := range texts {
		d.Item(i, "")
		d.Text(text)
	}
	d.Raw("]")
}

func (d *dumper) valueFields() ([]string, error) {
	visitable, ok := d.segment.(segment.DocValueVisitable)
	if !ok {
		return nil, fmt.Errorf("%T has no doc values", d.segment)
	}
	fields, err := visitable.VisitableDocValueFields()
	sorted := append([]string{}, fields...)
	sort.Strings(sorted)
	return sorted, err
}

// documents writes a list of what `dump` writes for each document.
func (d *dumper) documents(dump func(doc uint64) error) error {
	d.Raw("[")
	for doc := uint64(0); doc < d.segment.Count(); doc++ {
		d.Item(int(doc), "")
		d.Raw("\n")
		if err := dump(doc); err != nil {
			return fmt.Errorf("document %d: %w", doc, err)
		}
	}
	d.Raw("]")
	return nil
}

func (d *dumper) stored(doc uint64) error {
	d.Raw("[")
	item := 0
	err := d.segment.VisitStoredFields(doc, func(field string, kind byte, value []byte, positions []uint64) bool {
		d.Item(item, "")
		item++
		d.Raw("[")
		d.Text(field)
		d.Raw(",")
		d.Text(string([]byte{kind}))
		d.Raw(",")
		d.Text(string(value))
		d.Raw(",")
		d.Positions(positions)
		d.Raw("]")
		return true
	})
	d.Raw("]")
	return err
}

func (d *dumper) docValues(fields []string) error {
	visitable := d.segment.(segment.DocValueVisitable)
	var state segment.DocVisitState
	return d.documents(func(doc uint64) (err error) {
		terms := map[string][]string{}
		state, err = visitable.VisitDocValues(doc, fields, func(field string, term []byte) {
			terms[field] = append(terms[field], string(term))
		}, state)
		d.Raw("{")
		item := 0
		for _, field := range fields {
			if found, ok := terms[field]; ok {
				d.Item(item, "")
				item++
				d.Key(field)
				d.texts(found)
			}
		}
		d.Raw("}")
		return err
	})
}

func (d *dumper) dictionaries() error {
	d.Raw("{")
	for i, field := range d.segment.Fields() {
		d.Item(i, "")
		d.Raw("\n")
		d.Key(field)
		if err := d.dictionary(field); err != nil {
			return fmt.Errorf("field %q: %w", field, err)
		}
	}
	d.Raw("}")
	return nil
}

func (d *dumper) dictionary(field string) error {
	dictionary, err := d.segment.Dictionary(field)
	if err != nil {
		return err
	}
	terms := dictionary.AutomatonIterator(nil, nil, nil)
	var list segment.PostingsList
	var postings segment.PostingsIterator
	count := 0
	for ; ; count++ {
		entry, err := terms.Next()
		if err != nil {
			return err
		}
		if entry == nil {
			break
		}
		list, err = dictionary.PostingsList([]byte(entry.Term), nil, list)
		if err != nil {
			return err
		}
		d.Item(count, "[")
		d.Raw("\n[")
		d.Text(entry.Term)
		d.Raw(",")
		// The iterator's count is wrong after a term with a single hit in place of a list.
		if d.trueCounts {
			d.Number(list.Count())
		} else {
			d.Number(entry.Count)
		}
		d.Raw(",")
		postings = list.Iterator(true, true, true, postings)
		if err := d.postings(postings); err != nil {
			return fmt.Errorf("term %q: %w", entry.Term, err)
		}
		d.Raw("]")
	}
	d.End(count)
	return nil
}

func (d *dumper) postings(postings segment.PostingsIterator) error {
	count := 0
	for ; ; count++ {
		posting, err := postings.Next()
		if err != nil {
			return err
		}
		if posting == nil {
			break
		}
		d.Item(count, "[")
		d.Raw("[")
		d.Number(posting.Number())
		d.Raw(",")
		d.Number(posting.Frequency())
		d.Raw(",")
		d.Float(posting.Norm())
		d.Raw(",")
		d.locations(posting.Locations())
		d.Raw("]")
	}
	d.End(count)
	return nil
}

func (d *dumper) locations(locations []segment.Location) {
	for i, location := range locations {
		d.Item(i, "[")
		d.Raw("[")
		d.Text(location.Field())
		for _, number := range []uint64{location.Pos(), location.Start(), location.End()} {
			d.Raw(",")
			d.Number(number)
		}
		d.Raw(",")
		d.Positions(location.ArrayPositions())
		d.Raw("]")
	}
	d.End(len(locations))
}

// nesting writes each nested document's parents, nearest first, if there are any.
func (d *dumper) nesting() {
	if d.extras.Ancestors == nil {
		return
	}
	item := 0
	for doc := uint64(0); doc < d.segment.Count(); doc++ {
		found := d.extras.Ancestors(d.segment, doc)
		if len(found) < 2 {
			continue
		}
		d.Item(item, ",\n\"ancestors\":{")
		item++
		d.Key(fmt.Sprint(doc))
		d.Value(found[1:])
	}
	if item > 0 {
		d.Raw("}")
	}
}

// geo writes what the geo sections hold, if there are any.
func (d *dumper) geo() error {
	if d.extras.Geo == nil {
		return nil
	}
	found := map[string]map[uint32]GeoJSON{}
	for _, field := range d.segment.Fields() {
		documents, err := d.extras.Geo(d.segment, field)
		if err != nil {
			return fmt.Errorf("field %q: %w", field, err)
		}
		if documents != nil {
			found[field] = documents
		}
	}
	if len(found) > 0 {
		d.Raw(",\n\"geo\":")
		d.Value(found)
	}
	return nil
}
