package main

import (
	"bytes"
	"cmp"
	"context"
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

// An experiment computes rows of type R. The program prints them and draws figures of them.
type experiment[R any] struct {
	// compute computes the rows in order. It passes each row to print and ends if print returns an error.
	compute func(ctx context.Context, print func(R) error) error
	// table returns the lines of the table for the last element of rows.
	table func(rows []R) string
	// figures maps the file name of each figure to a function that returns its SVG document.
	figures map[string]func(rows []R) []byte
}

// run prints the rows as soon as they are computed, or reads them from the file of -redraw. Then it writes the
// figures.
func (e experiment[R]) run(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	names := slices.Sorted(maps.Keys(e.figures))
	if err := o.prepareFolder(names, stderr); err != nil {
		return err
	}
	var rows []R
	if o.redraw != "" {
		rows, err = readRows[R](o.redraw)
	} else {
		err = e.compute(ctx, func(r R) error {
			rows = append(rows, r)
			if o.json {
				err = json.NewEncoder(stdout).Encode(r)
			} else {
				_, err = io.WriteString(stdout, e.table(rows))
			}
			if err != nil {
				return fmt.Errorf("cannot write results: %w", err)
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(o.out, name)
		if err := atomicfile.Write(path, e.figures[name](rows)); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "wrote %s\n", path)
	}
	return nil
}

// prepareFolder creates the folder for the named figures and prints its name. It returns an error if it is not
// possible to write figures, so that the program fails before training rather than after it. Without -out, it also
// returns an error if one of the figures exists.
func (o options) prepareFolder(names []string, stderr io.Writer) error {
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if _, err := os.Lstat(name); err == nil && o.out == "" {
			return fmt.Errorf("%s exists: choose a folder for the figures with -out (-out . replaces the figures in the current folder)", name)
		}
	}
	folder := filepath.Clean(o.out)
	err := os.MkdirAll(folder, 0o755)
	probe, probeErr := os.MkdirTemp(folder, ".figure-*")
	if err := cmp.Or(err, probeErr, os.Remove(probe)); err != nil {
		return fmt.Errorf("cannot write figures to the folder %s: %w; select another folder with -out", folder, err)
	}
	fmt.Fprintf(stderr, "%s will be written to the folder %s\n", strings.Join(names, ", "), folder)
	return nil
}

// readRows reads a file with a JSON object for each row, the output of -json.
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
