// Command bleve indexes documents with bleve on scorch, says what they are after analysis, and searches.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/keyword"
	"github.com/blevesearch/bleve/v2/document"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"dvcodec/shared/lines"
	"dvcodec/shared/segments"
)

// entry is a document: an id, and anything that bleve takes.
type entry struct {
	ID  string         `json:"id"`
	Doc map[string]any `json:"doc"`
}

func readEntries(path string) ([]entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var entries []entry
	return entries, lines.Decode(data, &entries)
}

// newMapping is bleve's dynamic mapping (text with term vectors, numbers, booleans, times), except that `tag` is one token.
func newMapping() mapping.IndexMapping {
	tag := bleve.NewTextFieldMapping()
	tag.Analyzer = keyword.Name
	made := bleve.NewIndexMapping()
	made.DefaultMapping.AddFieldMappingsAt("tag", tag)
	return made
}

func create(command []byte) (map[string]any, error) {
	var given struct {
		Op, Docs, Path string
		Version        uint32
	}
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	entries, err := readEntries(given.Docs)
	if err != nil {
		return nil, err
	}
	config := map[string]any{"forceSegmentType": "zap", "forceSegmentVersion": int(given.Version)}
	made, err := bleve.NewUsing(given.Path, newMapping(), scorch.Name, scorch.Name, config)
	if err != nil {
		return nil, err
	}
	// One batch is one segment.
	batch := made.NewBatch()
	for _, entry := range entries {
		if err := batch.Index(entry.ID, entry.Doc); err != nil {
			return nil, errors.Join(err, made.Close())
		}
	}
	if err := errors.Join(made.Batch(batch), made.Close()); err != nil {
		return nil, err
	}
	opened, err := open(given.Path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	files, err := segmentFiles(opened)
	return map[string]any{"segments": files}, err
}

// open reads only, so that scorch neither merges nor removes files.
func open(path string) (bleve.Index, error) {
	return bleve.OpenUsing(path, map[string]any{"read_only": true})
}

// segmentFiles are the files that the index has opened, in order.
func segmentFiles(opened bleve.Index) ([]string, error) {
	advanced, err := opened.Advanced()
	if err != nil {
		return nil, err
	}
	reader, err := advanced.Reader()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	files := []string{}
	for _, part := range reader.(*scorch.IndexSnapshot).Segments() {
		persisted, ok := part.Segment().(segment.PersistedSegment)
		if !ok {
			return nil, fmt.Errorf("a segment is not on disk: %T", part.Segment())
		}
		files = append(files, persisted.Path())
	}
	return files, nil
}

func search(command []byte) (map[string]any, error) {
	// The rest of the command is a search request of bleve.
	var given struct {
		Path string
		Size *int
		Sort json.RawMessage
	}
	if err := json.Unmarshal(command, &given); err != nil {
		return nil, err
	}
	request := &bleve.SearchRequest{}
	if err := json.Unmarshal(command, request); err != nil {
		return nil, err
	}
	if given.Size == nil {
		request.Size = 10_000
	}
	opened, err := open(given.Path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	files, err := segmentFiles(opened)
	if err != nil {
		return nil, err
	}
	result, err := opened.Search(request)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(result.Hits))
	scores, fields := map[string]float64{}, map[string]any{}
	for i, hit := range result.Hits {
		ids[i] = hit.ID
		scores[hit.ID], fields[hit.ID] = hit.Score, hit.Fields
	}
	if given.Sort == nil {
		// Equal scores are in the order of the segment, which is random.
		sort.Strings(ids)
	}
	return map[string]any{
		"total": result.Total, "ids": ids, "scores": scores, "fields": fields, "facets": result.Facets, "segments": files,
	}, nil
}

// analyse writes documents as bleve hands them to a segment.
func analyse(command []byte) (map[string]any, error) {
	var given struct{ Op, Docs, Out string }
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	entries, err := readEntries(given.Docs)
	if err != nil {
		return nil, err
	}
	used := newMapping()
	described := make([]any, len(entries))
	for i, entry := range entries {
		made := document.NewDocument(entry.ID)
		if err := used.MapDocument(made, entry.Doc); err != nil {
			return nil, err
		}
		analyseDocument(made)
		described[i] = segments.Describe(made)
	}
	data, err := json.Marshal(described)
	if err != nil {
		return nil, err
	}
	return nil, os.WriteFile(given.Out, data, 0o644)
}

// analyseDocument does as scorch does with a document of a batch.
func analyseDocument(made index.Document) {
	made.AddIDField()
	made.VisitFields(func(field index.Field) {
		if !field.Options().IsIndexed() {
			return
		}
		field.Analyze()
		if field.Name() == "_id" {
			return
		}
		made.VisitComposite(func(composite index.CompositeField) {
			composite.Compose(field.Name(), field.AnalyzedLength(), field.AnalyzedTokenFrequencies())
		})
	})
}

func main() {
	lines.Serve(map[string]lines.Operation{
		"index": create, "analyse": analyse, "search": search, "life": life, "epochs": epochs,
		"check": check,
	})
}
