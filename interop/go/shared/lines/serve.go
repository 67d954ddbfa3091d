// Package lines is what all programs have in common: commands on standard input, and JSON of strings that need not be UTF-8.
package lines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// Operation answers one command; what it returns goes into the answer.
type Operation func(command []byte) (map[string]any, error)

// Serve answers commands, one JSON object a line, until standard input ends.
func Serve(operations map[string]Operation) {
	// A reader that is led beyond its mapped file panics like one beyond a slice.
	debug.SetPanicOnFault(true)
	if _, ok := operations["versions"]; !ok {
		operations["versions"] = versions
	}
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			answer(operations, line, out)
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func answer(operations map[string]Operation, command []byte, out *bufio.Writer) {
	reply, err := run(operations, command)
	if err != nil {
		reply = map[string]any{"error": err.Error()}
	} else {
		if reply == nil {
			reply = map[string]any{}
		}
		reply["ok"] = true
	}
	if err := json.NewEncoder(out).Encode(reply); err != nil {
		panic(err)
	}
	if err := out.Flush(); err != nil {
		panic(err)
	}
}

func run(operations map[string]Operation, command []byte) (reply map[string]any, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			reply, err = nil, fmt.Errorf("panic: %v", reason)
		}
	}()
	var head struct{ Op string }
	if err := json.Unmarshal(command, &head); err != nil {
		return nil, err
	}
	operation, ok := operations[head.Op]
	if !ok {
		return nil, fmt.Errorf("no such op: %q", head.Op)
	}
	return operation(command)
}

// Decode reads a command's arguments; one that is not known is an error.
func Decode(command []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(command))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// versions answers with the modules that the program is built of.
func versions([]byte) (map[string]any, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, fmt.Errorf("built without module information")
	}
	modules := map[string]string{}
	for _, module := range info.Deps {
		modules[module.Path] = module.Version
	}
	return map[string]any{"go": info.GoVersion, "modules": modules}, nil
}
