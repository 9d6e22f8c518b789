package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"hvae/bench/atomicfile"
	"hvae/mnist/eval"
)

// A report holds the contents of table.json.
type report struct {
	Protocol
	Tasks   int      `json:"tasks"` // number of planned runs
	Rows    []row    `json:"rows"`
	Results []result `json:"results"`

	damaged bool // whether the result of a run cannot be used
}

// report returns a report on all finished runs.
func (t *Table) report() report {
	r := report{Protocol: t.Protocol, Tasks: len(t.tasks)}
	for _, k := range t.tasks {
		x, _, err := t.result(k)
		r.damaged = r.damaged || err != nil
		if x != nil {
			r.Results = append(r.Results, *x)
		}
	}
	r.Rows = makeRows(t.tasks, r.Results)
	return r
}

// files returns a map from the names of the table's files to their contents. A table without HVAEs has no
// figures, so their contents are nil.
func (r report) files() map[string][]byte {
	b, _ := json.MarshalIndent(r, "", " ") // cannot fail, because all numbers are finite
	files := map[string][]byte{tableFile: append(b, '\n'), "table1.svg": nil, "budget.svg": nil}
	if slices.ContainsFunc(r.Rows, func(x row) bool { return x.K > 0 }) {
		files["table1.svg"], files["budget.svg"] = figure(r.Rows), budget(r.Rows, r.Results)
	}
	return files
}

// write writes the files of the table and removes figures of earlier rows. If two processes write at the same
// time, the table may lack the last result; the next command writes it again.
func (t *Table) write(r report) error {
	for name, content := range r.files() {
		var err error
		if content == nil {
			if err = t.root.Remove(name); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		} else {
			err = atomicfile.WriteIn(t.root, "", name, content)
		}
		if err != nil {
			return fmt.Errorf("cannot write the table: %w", err)
		}
	}
	return nil
}

// update writes the table's files, unless the result of a run cannot be used. If print is true, update also
// prints the table, or its rows as JSON if t.JSON is true.
func (t *Table) update(print bool) error {
	r := t.report()
	if !r.damaged {
		if err := t.write(r); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	if print && !t.JSON {
		printTable(&out, r)
	} else if print {
		for _, x := range r.Rows {
			json.NewEncoder(&out).Encode(x) // cannot fail, because table.json contains x
		}
	}
	t.Stdout.Write(out.Bytes()) // table.json contains the results if this fails
	return nil
}

// printTable prints the rows, with dashes for missing values.
func printTable(b *bytes.Buffer, r report) {
	const dash = "–"
	sd := func(x *float64) string {
		if x == nil {
			return dash
		}
		return fmt.Sprintf("%.2f", *x)
	}
	cells := func(s *summary) []any {
		if s == nil {
			return []any{dash, dash, dash, dash, dash, dash, dash}
		}
		difference := dash
		if s.ToVAE != nil {
			difference = fmt.Sprintf("%+.2f", eval.HalfAway(*s.ToVAE))
		}
		if s.ToVAEError != nil {
			difference += fmt.Sprintf(" ± %.2f", *s.ToVAEError)
		}
		return []any{eval.PlusMinus(2, s.NLL, nil), sd(s.EvaluationSD), sd(s.SeedSD), difference,
			eval.PlusMinus(2, s.ELBO, nil), fmt.Sprintf("%.0f", s.Epochs), fmt.Sprint(s.Seeds)}
	}
	line := func(name string, published, obtained []any) {
		const layout = "%-22s %7s %6s %6s %13s %8s %6s %5s   %7s %6s %6s %13s %8s %6s %5s\n"
		fmt.Fprintf(b, layout, slices.Concat([]any{name}, published, obtained)...)
	}
	evaluations := "one evaluation"
	if r.Runs > 1 {
		evaluations = fmt.Sprintf("%d evaluations", r.Runs)
	}
	fmt.Fprintf(b, "\nNLL and ELBO in nats, published and obtained. %d of %d runs are finished. Each has %s on %d images of %s with %d samples per image.\n",
		len(r.Results), r.Tasks, evaluations, r.Images, r.Data, r.Samples)
	fmt.Fprintf(b, "%-22s %-58s %s\n", "", "published", "  obtained")
	head := []any{"NLL", "± eval", "± seed", "minus VAE", "ELBO", "epochs", "seeds"}
	line("", head, head)
	for _, row := range r.Rows {
		line(row.Row, cells(row.Published), cells(row.Obtained))
	}
}

// printResult prints the result of a task as one line.
func (t *Table) printResult(r *result) {
	if t.JSON {
		json.NewEncoder(t.Stdout).Encode(r)
		return
	}
	fmt.Fprintf(t.Stdout, "%s  epochs %d  ELBO %s  NLL %s\n", r.Run, r.Epochs, eval.PlusMinus(2, r.ELBO, r.ELBOSD), eval.PlusMinus(2, r.NLL, r.NLLSD))
}
