// Command vellum writes and reads vellum's finite state transducers.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/blevesearch/vellum"

	"dvcodec/shared/lines"
)

// pair is a line [key, value] of a file.
type pair struct {
	key   lines.Text
	value uint64
}

func (p *pair) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&p.key, &p.value})
}

func write(command []byte) (map[string]any, error) {
	var given struct{ Op, Pairs, Out string }
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	in, err := os.Open(given.Pairs)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := os.Create(given.Out)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	builder, err := vellum.New(out, nil)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bufio.NewReader(in))
	for {
		var next pair
		if err := decoder.Decode(&next); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if err := builder.Insert([]byte(next.key), next.value); err != nil {
			return nil, fmt.Errorf("key %q: %w", next.key, err)
		}
	}
	return nil, builder.Close()
}

func read(command []byte) (map[string]any, error) {
	given := struct {
		Op, Path, Out string
		Limit         *int // a few hundred bytes can spell more keys than fit a disk
	}{}
	if err := lines.Decode(command, &given); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(given.Path)
	if err != nil {
		return nil, err
	}
	transducer, err := vellum.Load(data)
	if err != nil {
		return nil, err
	}
	file, err := os.Create(given.Out)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := lines.Writer{Writer: bufio.NewWriter(file)}
	iterator, err := transducer.Iterator(nil, nil)
	count := 0
	for ; err == nil && (given.Limit == nil || count < *given.Limit); err = iterator.Next() {
		key, value := iterator.Current()
		out.Raw("[")
		out.Text(string(key))
		out.Raw(",")
		out.Number(value)
		out.Raw("]\n")
		count++
	}
	if err != nil && err != vellum.ErrIteratorDone {
		return nil, err
	}
	return map[string]any{"count": count, "stated": transducer.Len()}, out.Flush()
}

func main() {
	lines.Serve(map[string]lines.Operation{"vellum": write, "vellum-read": read})
}
