package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hvae/bench/atomicfile"
)

// A figure returns an SVG document for the rows of an experiment.
type figure[R any] func(rows []R) []byte

// run prints the rows of an experiment and draws its figures. The keys of figures are file names. The function compute
// calls its argument print with each row as soon as the row is known, and ends if print returns an error. The function
// table returns the text to print for the last element of rows. With -redraw, run reads the rows from a file instead of
// computing and printing them. Without -out, run never replaces a figure.
func run[R any](
	o options, stdout, stderr io.Writer,
	figures map[string]figure[R], table func(rows []R) string, compute func(print func(R) error) error,
) error {
	names, folder := slices.Sorted(maps.Keys(figures)), filepath.Clean(o.out)
	for _, name := range names {
		if _, err := os.Lstat(name); err == nil && o.out == "" {
			return fmt.Errorf("%s exists: choose a folder for the figures with -out (-out . replaces the figures in the current folder)", name)
		}
	}
	if len(names) > 0 {
		if err := prepare(folder); err != nil {
			return fmt.Errorf("cannot write figures to the folder %s: %w; select another folder with -out", folder, err)
		}
		fmt.Fprintf(stderr, "%s will be written to the folder %s\n", strings.Join(names, ", "), folder)
	}
	var rows []R
	var err error
	if o.redraw != "" {
		rows, err = readRows[R](o.redraw)
	} else {
		err = compute(func(r R) (err error) {
			rows = append(rows, r)
			if o.json {
				err = json.NewEncoder(stdout).Encode(r)
			} else {
				_, err = io.WriteString(stdout, table(rows))
			}
			if err != nil {
				err = fmt.Errorf("cannot write results: %w", err)
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(folder, name)
		if err := atomicfile.Write(path, figures[name](rows)); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "wrote %s\n", path)
	}
	return nil
}

// prepare creates a folder. It returns an error if files cannot be created in the folder, so that run fails before
// training rather than after it.
func prepare(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	probe, err := os.MkdirTemp(folder, ".figure-*")
	if err != nil {
		return err
	}
	return os.Remove(probe)
}

// readRows reads a file that was written with -json and contains one JSON object for each row.
func readRows[R any](name string) (rows []R, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the results: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	for decoder.More() || len(rows) == 0 {
		var r R
		if err := decoder.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s, row %d: %w; the file must be the output of -json, with the same -two-modes", name, len(rows)+1, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}
