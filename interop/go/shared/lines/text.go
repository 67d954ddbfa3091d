package lines

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// keyMark stands before the base64 of an object key that is not UTF-8 (or that begins like this itself).
const keyMark = "b64:"

// Text is a string of any bytes: in JSON a string, or {"b64": "..."} when it is not UTF-8.
type Text string

func (t *Text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var coded struct{ B64 []byte }
		if err := Decode(data, &coded); err != nil {
			return err
		}
		*t = Text(coded.B64)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"b64": []byte(t)})
}

// DecodeKey is the opposite of Writer.Key.
func DecodeKey(key string) (string, error) {
	if !strings.HasPrefix(key, keyMark) {
		return key, nil
	}
	bytes, err := base64.StdEncoding.DecodeString(key[len(keyMark):])
	return string(bytes), err
}

// Writer writes JSON piece by piece, so that a large segment is never in memory as a whole; errors show at Flush.
type Writer struct{ *bufio.Writer }

func (w Writer) Raw(pieces ...string) {
	for _, piece := range pieces {
		w.WriteString(piece)
	}
}

func (w Writer) Value(value any) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	w.Write(data)
}

func (w Writer) Text(text string) { w.Value(Text(text)) }

func (w Writer) Number(number uint64) { w.Raw(strconv.FormatUint(number, 10)) }

func (w Writer) Key(key string) {
	if !utf8.ValidString(key) || strings.HasPrefix(key, keyMark) {
		key = keyMark + base64.StdEncoding.EncodeToString([]byte(key))
	}
	w.Value(key)
	w.Raw(":")
}

func (w Writer) Positions(positions []uint64) {
	for i, position := range positions {
		w.Item(i, "[")
		w.Number(position)
	}
	w.End(len(positions))
}

// Item writes what stands before an item: a comma, or for the first one `opening`.
func (w Writer) Item(number int, opening string) {
	if number > 0 {
		opening = ","
	}
	w.Raw(opening)
}

// End closes a list of `count` items; one without any is null, as in Go's own JSON.
func (w Writer) End(count int) {
	if count > 0 {
		w.Raw("]")
	} else {
		w.Raw("null")
	}
}

func (w Writer) Float(number float64) { w.Value(fmt.Sprint(number)) }
