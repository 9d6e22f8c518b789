package table

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"hvae/bench/atomicfile"
	"hvae/bench/filelock"
	"hvae/mnist/eval"
	"hvae/mnist/run"
)

// A report holds the contents of table.json.
type report struct {
	Data     string   `json:"data"`
	Epochs   int      `json:"max_epochs"`
	Patience int      `json:"patience"`
	Train    int      `json:"train"` // 0 for all images
	Images   int      `json:"images"`
	Samples  int      `json:"samples"`
	Runs     int      `json:"runs"`  // number of evaluations of each run
	Tasks    int      `json:"tasks"` // number of planned runs
	Rows     []row    `json:"rows"`
	Results  []result `json:"results"`

	refused bool // whether status returned an error for a run
}

// report returns a report on all finished runs. It omits runs for which status returns an error.
func (t *Table) report() report {
	r := report{
		Data: t.set.Name, Epochs: t.MaxEpochs, Patience: t.Patience, Train: t.Train,
		Images: t.Limit, Samples: t.Samples, Runs: t.Runs, Tasks: len(t.tasks),
	}
	for _, k := range t.tasks {
		s, err := t.status(k)
		r.refused = r.refused || err != nil
		if err == nil && s.result != nil {
			r.Results = append(r.Results, *s.result)
		}
	}
	r.Rows = makeRows(t.tasks, r.Results)
	return r
}

// files returns a map from the names of the table's files to their contents. A table without HVAEs has no
// figures.
func (r report) files() (map[string][]byte, error) {
	b, err := json.MarshalIndent(r, "", " ")
	files := map[string][]byte{"table.json": append(b, '\n')}
	if slices.ContainsFunc(r.Rows, func(x row) bool { return x.K > 0 }) {
		files["table1.svg"], files["budget.svg"] = figure(r.Rows), budget(r.Rows, r.Results)
	}
	return files, err
}

// update writes the table's files, unless status returns an error for a run. If print is true, update also
// prints the table, or its rows as JSON if t.JSON is true.
func (t *Table) update(print bool) error {
	// Wait up to a minute if another process is writing the table.
	name, end := filepath.Join(t.Out, run.LockFile), time.Now().Add(time.Minute)
	lock, err := filelock.Take(name)
	for errors.Is(err, filelock.ErrInUse) && time.Now().Before(end) {
		lock, err = filelock.Take(name)
	}
	if err != nil {
		return fmt.Errorf("cannot write the table in %s: %w", t.Out, err)
	}
	defer lock.Release()
	r := t.report()
	files, err := r.files()
	for file, content := range files {
		if name := filepath.Join(t.Out, file); err == nil && !r.refused {
			err = cmp.Or(atomicfile.Clean(name), atomicfile.Write(name, content))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	var out bytes.Buffer
	if print && !t.JSON {
		printTable(&out, r)
	} else if print {
		for _, x := range r.Rows {
			json.NewEncoder(&out).Encode(x) // cannot fail, because table.json contains x
		}
	}
	_, err = t.Stdout.Write(out.Bytes())
	return err
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
func (t *Table) printResult(r *result) error {
	if t.JSON {
		return json.NewEncoder(t.Stdout).Encode(r)
	}
	_, err := fmt.Fprintf(t.Stdout, "%s  epochs %d  ELBO %s  NLL %s\n", r.Run, r.Epochs, eval.PlusMinus(2, r.ELBO, r.ELBOSD), eval.PlusMinus(2, r.NLL, r.NLLSD))
	return err
}
