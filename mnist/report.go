package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"hvae/bench/atomicfile"
	"hvae/mnist/eval"
)

// A report holds the contents of table.json.
type report struct {
	protocol
	Tasks   int      `json:"tasks"` // number of planned runs
	Rows    []row    `json:"rows"`
	Results []result `json:"results"`

	damaged bool // whether the result of a run cannot be used
}

// report returns a report on all finished runs.
func (t *table) report() report {
	r := report{protocol: t.protocol, Tasks: len(t.tasks)}
	for _, k := range t.tasks {
		_, x, err := t.read(k)
		r.damaged = r.damaged || err != nil
		if x != nil {
			r.Results = append(r.Results, *x)
		}
	}
	r.Rows = makeRows(t.tasks, r.Results)
	return r
}

// The files of a table. tableFile contains the report.
const (
	tableFile  = "table.json"
	figureFile = "table1.svg"
	budgetFile = "budget.svg"
)

// files returns a map from the names of the table's files to their contents. A table without HVAEs has no
// figures, so their contents are nil.
func (r report) files() map[string][]byte {
	b, _ := json.MarshalIndent(r, "", " ") // cannot fail, because all numbers are finite
	files := map[string][]byte{tableFile: append(b, '\n'), figureFile: nil, budgetFile: nil}
	if slices.ContainsFunc(r.Rows, func(x row) bool { return x.K > 0 }) {
		files[figureFile], files[budgetFile] = figure(r.Rows), budget(r.Rows, r.Results)
	}
	return files
}

// write writes the files of the table and removes figures of earlier rows. It writes nothing if the result of a
// run is damaged. If two processes write at the same time, the table may lack the last result; the next
// command writes it again.
func (t *table) write(r report) (err error) {
	for name, content := range r.files() {
		switch {
		case err != nil || r.damaged:
		case content != nil:
			err = atomicfile.WriteIn(t.root, "", name, content)
		default:
			if err = t.root.Remove(name); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	return nil
}

// print prints the rows, with dashes for missing values, or as JSON. It ignores errors, because table.json
// contains the rows.
func (r report) print(w io.Writer, asJSON bool) {
	if asJSON {
		for _, x := range r.Rows {
			json.NewEncoder(w).Encode(x)
		}
		return
	}
	text := func(format string, x eval.Number) string {
		if math.IsNaN(float64(x)) {
			return "–"
		}
		return fmt.Sprintf(format, eval.HalfAway(x))
	}
	cells := func(s *summary) []any {
		if s == nil {
			return []any{"–", "–", "–", "–", "–", "–", "–"}
		}
		difference := text("%+.2f", s.ToVAE)
		if s.Pairs > 1 {
			difference += text(" ± %.2f", s.ToVAEError)
		}
		return []any{text("%.2f", s.NLL), text("%.2f", s.EvaluationSD), text("%.2f", s.SeedSD), difference, text("%.2f", s.ELBO), fmt.Sprintf("%.0f", s.Epochs), fmt.Sprint(s.Seeds)}
	}
	evaluations := "one evaluation"
	if r.Runs > 1 {
		evaluations = fmt.Sprintf("%d evaluations", r.Runs)
	}
	fmt.Fprintf(w, "\nNLL and ELBO in nats, published and obtained. %d of %d runs are finished. Each has %s on %d images of %s with %d samples per image.\n%-22s %-58s   obtained\n",
		len(r.Results), r.Tasks, evaluations, r.Images, r.Data, r.Samples, "", "published")
	line := func(name string, published, obtained []any) {
		const layout = "%-22s %7s %6s %6s %13s %8s %6s %5s   %7s %6s %6s %13s %8s %6s %5s\n"
		fmt.Fprintf(w, layout, slices.Concat([]any{name}, published, obtained)...)
	}
	head := []any{"NLL", "± eval", "± seed", "minus VAE", "ELBO", "epochs", "seeds"}
	line("", head, head)
	for _, row := range r.Rows {
		line(row.Row, cells(row.Published), cells(row.Obtained))
	}
}
