package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"
	"go.etcd.io/bbolt"

	"dvcodec/shared/lines"
)

// change is a document of a batch: to be indexed, or to be deleted where there is none.
type change struct {
	ID  string         `json:"id"`
	Doc map[string]any `json:"doc"`
}

// life makes an index, or goes on with one, and runs batches, each of which is on disk before the next begins.
func life(command []byte) (map[string]any, error) {
	var given struct {
		Op, Path, Batches string
		Version           int
		Config            map[string]any
		Mapping           json.RawMessage
	}
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(given.Batches)
	if err != nil {
		return nil, err
	}
	var batches [][]change
	if err := lines.Decode(data, &batches); err != nil {
		return nil, err
	}
	config := map[string]any{"forceSegmentType": "zap", "forceSegmentVersion": given.Version}
	for name, value := range given.Config {
		config[name] = value
	}
	made, err := begin(given.Path, given.Mapping, config)
	if err != nil {
		return nil, err
	}
	for _, changes := range batches {
		if err := run(made, changes); err != nil {
			return nil, errors.Join(err, made.Close())
		}
	}
	return nil, made.Close()
}

// begin opens the index that is there (a mapping then replaces its own), or makes one.
func begin(path string, given json.RawMessage, config map[string]any) (bleve.Index, error) {
	if _, err := os.Stat(path); err == nil {
		if given != nil {
			config["updated_mapping"] = string(given)
		}
		return bleve.OpenUsing(path, config)
	}
	used := newMapping()
	if given != nil {
		other := mapping.NewIndexMapping()
		if err := json.Unmarshal(given, other); err != nil {
			return nil, err
		}
		used = other
	}
	return bleve.NewUsing(path, used, scorch.Name, scorch.Name, config)
}

func run(made bleve.Index, changes []change) error {
	batch := made.NewBatch()
	for _, change := range changes {
		if change.Doc == nil {
			batch.Delete(change.ID)
		} else if err := batch.Index(change.ID, change.Doc); err != nil {
			return err
		}
	}
	return made.Batch(batch)
}

// value is a stored value of a document.
type value struct {
	Field     string   `json:"field"`
	Type      string   `json:"type"`
	Value     []byte   `json:"value"`
	Positions []uint64 `json:"array_positions"`
}

// epochs writes what scorch says of every epoch: segments with all their documents and the deleted ones, and the live
// documents by their ids.
func epochs(command []byte) (map[string]any, error) {
	var given struct{ Op, Path, Out string }
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	opened, err := open(given.Path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	advanced, err := opened.Advanced()
	if err != nil {
		return nil, err
	}
	store := advanced.(*scorch.Scorch)
	numbers, err := store.RootBoltSnapshotEpochs()
	if err != nil {
		return nil, err
	}
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	found := make([]map[string]any, len(numbers))
	for i, number := range numbers {
		if found[i], err = epoch(store, number); err != nil {
			return nil, fmt.Errorf("epoch %d: %w", number, err)
		}
	}
	data, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	return nil, os.WriteFile(given.Out, append(data, '\n'), 0o644)
}

func epoch(store *scorch.Scorch, number uint64) (map[string]any, error) {
	snapshot, err := store.LoadSnapshot(number)
	if err != nil {
		return nil, err
	}
	defer snapshot.Close()
	count, err := snapshot.DocCount()
	if err != nil {
		return nil, err
	}
	parts := []map[string]any{}
	for _, part := range snapshot.Segments() {
		described, err := describe(part)
		if err != nil {
			return nil, err
		}
		parts = append(parts, described)
	}
	live, err := liveDocuments(snapshot)
	return map[string]any{"epoch": number, "count": count, "segments": parts, "live": live}, err
}

func describe(part *scorch.SegmentSnapshot) (map[string]any, error) {
	named, ok := part.Segment().(interface{ Path() string })
	if !ok {
		return nil, fmt.Errorf("a segment is not on disk: %T", part.Segment())
	}
	deleted := []uint32{}
	if part.Deleted() != nil {
		deleted = part.Deleted().ToArray()
	}
	documents := make([][]value, part.FullSize())
	for number := range documents {
		documents[number] = []value{}
		err := part.VisitDocument(uint64(number), func(field string, kind byte, data []byte, positions []uint64) bool {
			documents[number] = append(documents[number], newValue(field, kind, data, positions))
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return map[string]any{
		"id": part.Id(), "file": filepath.Base(named.Path()), "live": part.LiveSize(), "deleted": deleted, "documents": documents,
	}, nil
}

// liveDocuments are those that the index finds, as it returns them: nested documents are not among them.
func liveDocuments(snapshot *scorch.IndexSnapshot) (map[string][]value, error) {
	reader, err := snapshot.DocIDReaderAll()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	found := map[string][]value{}
	for {
		internal, err := reader.Next()
		if err != nil || internal == nil {
			return found, err
		}
		id, err := snapshot.ExternalID(internal)
		if err != nil {
			return nil, err
		}
		document, err := snapshot.Document(id)
		if err != nil {
			return nil, err
		}
		if document == nil {
			continue
		}
		values := []value{}
		document.VisitFields(func(field index.Field) {
			values = append(values, newValue(field.Name(), field.EncodedFieldType(), field.Value(), field.ArrayPositions()))
		})
		found[id] = values
	}
}

func newValue(field string, kind byte, data []byte, positions []uint64) value {
	return value{field, string(rune(kind)), append([]byte{}, data...), append([]uint64{}, positions...)}
}

// check lets bbolt check a file of its format: the order of keys, and that every page is in the tree or free, once.
func check(command []byte) (map[string]any, error) {
	var given struct{ Op, Path string }
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	file, err := bbolt.Open(given.Path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	found := []string{}
	err = file.View(func(transaction *bbolt.Tx) error {
		for problem := range transaction.Check() {
			found = append(found, problem.Error())
		}
		return nil
	})
	return map[string]any{"problems": found, "free": file.Stats().FreePageN}, err
}
