//go:build !first_api

package segments

import (
	"fmt"

	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"
)

const hasShapes = true

func (s *shapeField) GeoShape() (index.GeoJSON, error) { return nil, nil }

func (d *document) VisitSynonymFields(visitor index.SynonymFieldVisitor) {
	for _, field := range d.fields {
		if synonym, ok := field.(*synonymField); ok {
			visitor(synonym)
		}
	}
}

// thesauri writes the thesauri of a version that has them.
func (d *dumper) thesauri() error {
	holder, ok := d.segment.(segment.ThesaurusSegment)
	if !ok {
		return nil
	}
	d.Raw(",\n\"thesauri\":{")
	item := 0
	for _, field := range d.segment.Fields() {
		thesaurus, err := holder.Thesaurus(field)
		if err != nil {
			return fmt.Errorf("%q: %w", field, err)
		}
		terms := thesaurus.AutomatonIterator(nil, nil, nil)
		count := 0
		for ; ; count++ {
			entry, err := terms.Next()
			if err != nil {
				return err
			}
			if entry == nil {
				break
			}
			if count == 0 {
				d.Item(item, "")
				item++
				d.Key(field)
			}
			d.Item(count, "{")
			d.Key(entry.Term)
			if err := d.synonyms(thesaurus, entry.Term); err != nil {
				return fmt.Errorf("%q: %w", entry.Term, err)
			}
		}
		if count > 0 {
			d.Raw("}")
		}
	}
	d.Raw("}")
	return nil
}

func (d *dumper) synonyms(thesaurus segment.Thesaurus, term string) error {
	list, err := thesaurus.SynonymsList([]byte(term), nil, nil)
	if err != nil {
		return err
	}
	synonyms := list.Iterator(nil)
	d.Raw("[")
	for item := 0; ; item++ {
		synonym, err := synonyms.Next()
		if err != nil {
			return err
		}
		if synonym == nil {
			break
		}
		d.Item(item, "")
		d.Raw("[")
		d.Text(synonym.Term())
		d.Raw(",")
		d.Number(uint64(synonym.Number()))
		d.Raw("]")
	}
	d.Raw("]")
	return nil
}
