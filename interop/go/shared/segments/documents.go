package segments

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	index "github.com/blevesearch/bleve_index_api"

	"dvcodec/shared/lines"
)

const (
	idField       = "_id"
	allField      = "_all"
	textType      = 't'
	compositeType = 'c'
)

// documentJSON and fieldJSON are the input of `write`; see the README.
type documentJSON struct {
	ID     *lines.Text    `json:"id,omitempty"`
	Fields []fieldJSON    `json:"fields"`
	All    bool           `json:"all,omitempty"`
	Kids   []documentJSON `json:"kids,omitempty"`
}

type fieldJSON struct {
	Name      lines.Text   `json:"name"`
	Value     lines.Text   `json:"value"`
	Value64   []byte       `json:"value64,omitempty"`
	Opt       uint64       `json:"opt"`
	Type      string       `json:"type"`
	AP        []uint64     `json:"ap"`
	Keyword   bool         `json:"keyword,omitempty"`
	TV        bool         `json:"tv,omitempty"`
	Tokens    []tokenJSON  `json:"tokens"`
	Length    *int         `json:"length,omitempty"`
	Composite bool         `json:"composite,omitempty"`
	Syn       *synonymsMap `json:"syn,omitempty"`
	Shape     *lines.Text  `json:"shape,omitempty"`
	Geo       *GeoJSON     `json:"geo,omitempty"`
}

// GeoJSON is what the geo section of version 17.2 keeps of a field of one document.
type GeoJSON struct {
	Inner  []uint64   `json:"inner"`
	Cross  []uint64   `json:"cross"`
	Scores [2]uint64  `json:"scores"`
	Box    lines.Text `json:"box"`
	Shape  lines.Text `json:"shape"`
}

// tokenJSON is [term, frequency, [location, ...] or null].
type tokenJSON struct {
	term      lines.Text
	frequency int
	locations []locationJSON
}

func (t *tokenJSON) UnmarshalJSON(data []byte) error {
	return decodeArray(data, &t.term, &t.frequency, &t.locations)
}

// locationJSON is [field or null, position, start, end, array positions or null].
type locationJSON struct {
	field                *lines.Text
	position, start, end int
	arrayPositions       []uint64
}

func (l *locationJSON) UnmarshalJSON(data []byte) error {
	return decodeArray(data, &l.field, &l.position, &l.start, &l.end, &l.arrayPositions)
}

func decodeArray(data []byte, into ...any) error {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	if len(items) != len(into) {
		return fmt.Errorf("an array of %d, not %d: %s", len(into), len(items), data)
	}
	for i, item := range items {
		if err := json.Unmarshal(item, into[i]); err != nil {
			return err
		}
	}
	return nil
}

// synonymsMap is an object of term to synonyms, in the order of the file: Go gives out ids in that order.
type synonymsMap struct{ entries []synonyms }

type synonyms struct {
	term  string
	terms []string
}

func (s *synonymsMap) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("synonyms are an object: %s", data)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		term, err := lines.DecodeKey(key.(string))
		if err != nil {
			return err
		}
		var texts []lines.Text
		if err := decoder.Decode(&texts); err != nil {
			return err
		}
		entry := synonyms{term: term}
		for _, text := range texts {
			entry.terms = append(entry.terms, string(text))
		}
		s.entries = append(s.entries, entry)
	}
	return nil
}

// field is an analysed field as zapx asks for it, also a composite one.
type field struct {
	name           string
	value          []byte
	arrayPositions []uint64
	kind           byte
	options        index.FieldIndexingOptions
	length         int
	frequencies    index.TokenFrequencies
}

func (f *field) Name() string                                     { return f.name }
func (f *field) Value() []byte                                    { return f.value }
func (f *field) ArrayPositions() []uint64                         { return f.arrayPositions }
func (f *field) EncodedFieldType() byte                           { return f.kind }
func (f *field) Analyze()                                         {}
func (f *field) Options() index.FieldIndexingOptions              { return f.options }
func (f *field) AnalyzedLength() int                              { return f.length }
func (f *field) AnalyzedTokenFrequencies() index.TokenFrequencies { return f.frequencies }
func (f *field) NumPlainTextBytes() uint64                        { return uint64(len(f.value)) }
func (f *field) Compose(string, int, index.TokenFrequencies)      {}

type synonymField struct {
	field
	entries []synonyms
}

func (s *synonymField) IterateSynonyms(visitor func(term string, synonyms []string)) {
	for _, entry := range s.entries {
		visitor(entry.term, entry.terms)
	}
}

// shapeField has something more in its doc values.
type shapeField struct {
	field
	shape string
}

func (s *shapeField) EncodedShape() []byte { return []byte(s.shape) }

type geoField struct {
	field
	geo *GeoJSON
}

func (g *geoField) InnerCells() []uint64       { return g.geo.Inner }
func (g *geoField) CrossCells() []uint64       { return g.geo.Cross }
func (g *geoField) EncodedBoundingBox() []byte { return []byte(g.geo.Box) }
func (g *geoField) EncodedShape() []byte       { return []byte(g.geo.Shape) }
func (g *geoField) Scores() (inner, cross uint64) {
	return g.geo.Scores[0], g.geo.Scores[1]
}

// document is what zapx asks for; from version 16 on it is looked at for synonyms too, from 17 on for nested documents.
type document struct {
	id         string
	fields     []index.Field
	composites []*field
	kids       []index.Document
}

func (d *document) ID() string                { return d.id }
func (d *document) Size() int                 { return 0 }
func (d *document) HasComposite() bool        { return len(d.composites) > 0 }
func (d *document) NumPlainTextBytes() uint64 { return 0 }
func (d *document) StoredFieldsBytes() uint64 { return 0 }
func (d *document) AddIDField()               {}
func (d *document) Indexed() bool             { return true }

func (d *document) VisitFields(visitor index.FieldVisitor) {
	for _, field := range d.fields {
		visitor(field)
	}
}

func (d *document) VisitComposite(visitor index.CompositeFieldVisitor) {
	for _, field := range d.composites {
		visitor(field)
	}
}

func (d *document) VisitNestedDocuments(visitor func(index.Document)) {
	for _, kid := range d.kids {
		visitor(kid)
	}
}

// readDocuments reads a file of documents, refusing what this version would silently leave out.
func (f *Format[Bitmap]) readDocuments(path string) ([]index.Document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var parsed []documentJSON
	if err := lines.Decode(data, &parsed); err != nil {
		return nil, err
	}
	return f.documents(parsed)
}

func (f *Format[Bitmap]) documents(parsed []documentJSON) ([]index.Document, error) {
	built := make([]index.Document, len(parsed))
	for i := range parsed {
		document, err := f.document(&parsed[i])
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		built[i] = document
	}
	return built, nil
}

func (f *Format[Bitmap]) document(given *documentJSON) (*document, error) {
	if len(given.Kids) > 0 && f.Ancestors == nil {
		return nil, fmt.Errorf("this version has no nested documents")
	}
	built := &document{}
	if given.ID != nil {
		built.id = string(*given.ID)
		id := fieldJSON{Name: idField, Value: *given.ID, Opt: uint64(index.IndexField | index.StoreField), Keyword: true}
		built.fields = append(built.fields, id.build())
	}
	all := &field{
		name: allField, kind: compositeType, options: index.IndexField | index.IncludeTermVectors,
		frequencies: index.TokenFrequencies{},
	}
	for i := range given.Fields {
		parsed := &given.Fields[i]
		if err := f.check(parsed); err != nil {
			return nil, fmt.Errorf("field %q: %w", parsed.Name, err)
		}
		field := parsed.build()
		if field.name == idField {
			built.id = string(field.value)
		}
		switch {
		case parsed.Composite:
			built.composites = append(built.composites, field)
			continue
		case parsed.Syn != nil:
			built.fields = append(built.fields, &synonymField{*field, parsed.Syn.entries})
			continue
		case parsed.Geo != nil:
			built.fields = append(built.fields, &geoField{*field, parsed.Geo})
			continue
		case parsed.Shape != nil:
			built.fields = append(built.fields, &shapeField{*field, string(*parsed.Shape)})
		default:
			built.fields = append(built.fields, field)
		}
		if field.name != idField {
			all.add(field)
		}
	}
	if given.All {
		built.composites = append(built.composites, all)
	}
	kids, err := f.documents(given.Kids)
	built.kids = kids
	return built, err
}

func (f *Format[Bitmap]) check(given *fieldJSON) error {
	switch {
	case len(given.Type) > 1:
		return fmt.Errorf("a type is one letter")
	case given.Syn != nil && f.Plugin.Version() < 16:
		return fmt.Errorf("this version has no synonyms")
	case given.Shape != nil && !hasShapes:
		return fmt.Errorf("this version has no shapes")
	case given.Geo != nil && f.Geo == nil:
		return fmt.Errorf("this version has no geo section")
	}
	return nil
}

func (f *fieldJSON) build() *field {
	built := &field{
		name: string(f.Name), value: []byte(f.Value), arrayPositions: f.AP, kind: textType,
		options: index.FieldIndexingOptions(f.Opt), frequencies: index.TokenFrequencies{},
	}
	if f.Value64 != nil {
		built.value = f.Value64
	}
	if f.Composite {
		built.kind = compositeType
	}
	if f.Type != "" {
		built.kind = f.Type[0]
	}
	switch {
	case f.Tokens != nil:
		built.take(f.Tokens)
	case f.Syn == nil && f.Geo == nil && !f.Composite && built.options.IsIndexed():
		built.tokenise(f.Keyword, f.TV)
	}
	if f.Length != nil {
		built.length = *f.Length
	}
	return built
}

// tokenise splits on single spaces. As in bleve, a field that skips frequencies has length 0.
func (f *field) tokenise(keyword, locations bool) {
	tokens := []string{string(f.value)}
	if !keyword {
		tokens = strings.Split(string(f.value), " ")
	}
	if !f.options.SkipFreqNorm() {
		f.length = len(tokens)
	}
	start := 0
	for i, token := range tokens {
		end := start + len(token)
		found := f.term(token)
		if !f.options.SkipFreqNorm() {
			found.SetFrequency(found.Frequency() + 1)
		}
		if locations {
			found.Locations = append(found.Locations, &index.TokenLocation{
				ArrayPositions: f.arrayPositions, Start: start, End: end, Position: i + 1,
			})
		}
		start = end + 1
	}
}

func (f *field) take(tokens []tokenJSON) {
	for _, token := range tokens {
		found := f.term(string(token.term))
		found.SetFrequency(found.Frequency() + token.frequency)
		f.length += token.frequency
		for _, location := range token.locations {
			built := &index.TokenLocation{
				ArrayPositions: location.arrayPositions, Start: location.start, End: location.end, Position: location.position,
			}
			if location.field != nil {
				built.Field = string(*location.field)
			}
			found.Locations = append(found.Locations, built)
		}
	}
}

func (f *field) term(term string) *index.TokenFreq {
	found, ok := f.frequencies[term]
	if !ok {
		found = &index.TokenFreq{Term: []byte(term)}
		f.frequencies[term] = found
	}
	return found
}

// add makes `part` a part of this composite field, as bleve does, but leaves the part's own locations alone.
func (f *field) add(part *field) {
	f.length += part.length
	for term, other := range part.frequencies {
		found := f.term(term)
		found.SetFrequency(found.Frequency() + other.Frequency())
		for _, location := range other.Locations {
			moved := *location
			moved.Field = part.name
			found.Locations = append(found.Locations, &moved)
		}
	}
}
