package segments

import (
	"encoding/json"
	"sort"

	index "github.com/blevesearch/bleve_index_api"

	"dvcodec/shared/lines"
)

// Describe is the opposite of reading documents: an analysed document in the explicit form.
func Describe(document index.Document) any {
	described := documentJSON{}
	document.VisitComposite(func(field index.CompositeField) {
		composite := describe(field)
		composite.Composite = true
		described.Fields = append(described.Fields, composite)
	})
	document.VisitFields(func(field index.Field) {
		described.Fields = append(described.Fields, describe(field))
	})
	if holder, ok := document.(interface{ VisitNestedDocuments(func(index.Document)) }); ok {
		holder.VisitNestedDocuments(func(kid index.Document) {
			described.Kids = append(described.Kids, Describe(kid).(documentJSON))
		})
	}
	return described
}

func describe(field index.Field) fieldJSON {
	length := field.AnalyzedLength()
	described := fieldJSON{
		Name: lines.Text(field.Name()), Value: lines.Text(field.Value()), Opt: uint64(field.Options()),
		Type: string(rune(field.EncodedFieldType())), AP: field.ArrayPositions(), Length: &length, Tokens: []tokenJSON{},
	}
	for term, frequency := range field.AnalyzedTokenFrequencies() {
		token := tokenJSON{term: lines.Text(term), frequency: frequency.Frequency()}
		for _, location := range frequency.Locations {
			source := lines.Text(location.Field)
			token.locations = append(token.locations, locationJSON{
				&source, location.Position, location.Start, location.End, location.ArrayPositions,
			})
		}
		described.Tokens = append(described.Tokens, token)
	}
	sort.Slice(described.Tokens, func(i, j int) bool { return described.Tokens[i].term < described.Tokens[j].term })
	return described
}

func (t tokenJSON) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{t.term, t.frequency, t.locations})
}

func (l locationJSON) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{l.field, l.position, l.start, l.end, l.arrayPositions})
}
