package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/gaussian/model"
)

// A figure returns an SVG document for the rows of the table.
type figure func(rows []model.Outcome) []byte

// figures returns the figures to draw. The keys are file names.
func (o options) figures() map[string]figure {
	switch {
	case o.twoModes:
		return map[string]figure{"trajectory.svg": drawPaths}
	case o.gap:
		return map[string]figure{"gap.svg": gapChart}
	case len(o.dims) > 1 || o.redraw != "" || o.out != "":
		return figure1
	}
	return nil
}

// run prints the rows of the table as soon as they are known, and then draws the figures. With -redraw, it reads the
// rows from a file and prints nothing. It checks the folder of the figures before any other work.
func (o options) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	figures := o.figures()
	names, folder := slices.Sorted(maps.Keys(figures)), filepath.Clean(o.out)
	if len(names) > 0 {
		if err := o.prepare(folder, names); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "%s will be written to the folder %s\n", strings.Join(names, ", "), folder)
	}
	var rows []model.Outcome
	switch {
	case o.twoModes:
		err = o.drawModes(ctx, stdout)
	case o.redraw != "":
		rows, err = readRows(o.redraw)
	default:
		rows, err = o.train(ctx, stdout, stderr)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: the completed rows were printed; no files were written", err)
	case err != nil:
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

// prepare creates a folder. It returns an error if the named files cannot be created in the folder. Without -out, it
// also returns an error if one of the files exists.
func (o options) prepare(folder string, names []string) error {
	err := os.MkdirAll(folder, 0o755)
	probe, probeErr := os.MkdirTemp(folder, ".figure-*")
	if err = cmp.Or(err, probeErr, os.Remove(probe)); err != nil {
		return fmt.Errorf("cannot write figures to the folder %s: %w; select another folder with -out", folder, err)
	}
	for _, name := range names {
		if _, err := os.Lstat(name); err == nil && o.out == "" {
			return fmt.Errorf("%s exists: choose a folder for the figures with -out (-out . replaces the figures in the current folder)", name)
		}
	}
	return nil
}

// print prints a row as a JSON object or as the given text.
func (o options) print(w io.Writer, row any, text string) (err error) {
	if o.json {
		err = json.NewEncoder(w).Encode(row)
	} else {
		_, err = io.WriteString(w, text)
	}
	if err != nil {
		return fmt.Errorf("cannot write results: %w", err)
	}
	return nil
}

// readRows reads a file that was written with -json and contains one JSON object for each row.
func readRows(name string) (rows []model.Outcome, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the results: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	for decoder.More() || len(rows) == 0 {
		var r model.Outcome
		if err := decoder.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s, row %d: %w; the file must be the output of -json without -two-modes", name, len(rows)+1, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}
