package table

import (
	"bytes"
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

// The files of a table.
const (
	tableFile  = "table.json"
	figureFile = "table1.svg"
	budgetFile = "budget.svg"
)

// A report is the content of table.json.
type report struct {
	Data     string   `json:"data"`
	Epochs   int      `json:"max_epochs"`
	Patience int      `json:"patience"`
	Train    int      `json:"train"` // 0 for all images
	Images   int      `json:"images"`
	Samples  int      `json:"samples"`
	Runs     int      `json:"runs"`
	Tasks    int      `json:"tasks"` // number of planned runs
	Rows     []row    `json:"rows"`
	Results  []result `json:"results"`
}

// lock locks the table's own files. It waits up to a minute, because other processes lock them
// briefly after each of their runs.
func (t *Table) lock() (l *filelock.Lock, err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		l, err = filelock.Take(filepath.Join(t.Out, run.LockFile))
		if !errors.Is(err, filelock.ErrInUse) {
			return l, err
		}
	}
	return nil, fmt.Errorf("cannot write the table: %s is %w", t.Out, err)
}

// report returns the results of all finished runs.
func (t *Table) report() report {
	r := report{
		Data: t.set.Name, Epochs: t.MaxEpochs, Patience: t.Patience, Train: t.Train, Images: t.Limit, Samples: t.Samples, Runs: t.Runs,
		Tasks: len(t.tasks), Results: t.results(),
	}
	r.Rows = makeRows(t.tasks, r.Results)
	return r
}

// files returns the contents of the table's files by name.
func (r report) files() (map[string][]byte, error) {
	b, err := json.MarshalIndent(r, "", " ")
	files := map[string][]byte{tableFile: append(b, '\n')}
	for name, svg := range map[string][]byte{figureFile: figure(r.Rows), budgetFile: budget(r.Rows, r.Results)} {
		if svg != nil {
			files[name] = svg
		}
	}
	return files, err
}

// readReport reads a table's results, none if the file does not exist.
func readReport(name string) (r report, err error) {
	b, err := run.ReadText(name)
	if b == nil || err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s is damaged, or another program wrote it: move it away", name)
	}
	return r, nil
}

// write writes the table's files, unless the existing table has results that r lacks.
func (t *Table) write(r report) error {
	old, err := readReport(filepath.Join(t.Out, tableFile))
	if err != nil {
		return err
	}
	for _, x := range old.Results {
		if !slices.ContainsFunc(r.Results, func(y result) bool { return y.Run == x.Run }) {
			if !t.kept {
				fmt.Fprintf(t.Stderr, "note: %s, %s and %s are not replaced, because they have the results of %s, which this table lacks\n", filepath.Join(t.Out, tableFile), figureFile, budgetFile, x.Run)
			}
			t.kept = true
			return nil
		}
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	for file, content := range files {
		name := filepath.Join(t.Out, file)
		if err := errors.Join(atomicfile.Clean(name), atomicfile.Write(name, content)); err != nil {
			return err
		}
	}
	return nil
}

// update writes the table's files and prints the table after a task. With JSON it prints only the
// task's result, or the rows after the zero task.
func (t *Table) update(did task) error {
	lock, err := t.lock()
	if err != nil {
		return err
	}
	defer lock.Release()
	r := t.report()
	if err := t.write(r); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	var out bytes.Buffer
	if t.JSON {
		enc := json.NewEncoder(&out)
		for _, x := range r.Results {
			if x.Run == did.String() {
				err = enc.Encode(x)
			}
		}
		if did == (task{}) {
			for _, x := range r.Rows {
				err = enc.Encode(x)
			}
		}
		if err != nil {
			return err
		}
	} else {
		printTable(&out, r)
	}
	if _, err := t.Stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("cannot write results: %w", err)
	}
	return nil
}

// printTable prints the rows, with dashes for unknown values.
func printTable(b *bytes.Buffer, r report) {
	number := func(x *float64, format string) string {
		if x == nil {
			return "–"
		}
		return fmt.Sprintf(format, *x)
	}
	difference := func(s *summary) string {
		switch {
		case s.ToVAE == nil:
			return "–"
		case s.ToVAEError == nil:
			return fmt.Sprintf("%+.2f", eval.HalfAway(*s.ToVAE))
		}
		return fmt.Sprintf("%+.2f ± %.2f", eval.HalfAway(*s.ToVAE), *s.ToVAEError)
	}
	cells := func(s *summary) []any {
		if s == nil {
			return []any{"–", "–", "–", "–", "–", "–", "–"}
		}
		return []any{eval.PlusMinus(2, s.NLL, nil), number(s.EvaluationSD, "%.2f"), number(s.SeedSD, "%.2f"), difference(s),
			eval.PlusMinus(2, s.ELBO, nil), fmt.Sprintf("%.0f", s.Epochs), fmt.Sprint(s.Seeds)}
	}
	const layout = "%-22s %7s %6s %6s %13s %8s %6s %5s   %7s %6s %6s %13s %8s %6s %5s\n"
	evaluations := "one evaluation"
	if r.Runs > 1 {
		evaluations = fmt.Sprintf("%d evaluations", r.Runs)
	}
	fmt.Fprintf(b, "\nNLL and ELBO in nats: published, and obtained on %d %s images, %d samples, %s of each run, %d of %d runs\n",
		r.Images, r.Data, r.Samples, evaluations, len(r.Results), r.Tasks)
	fmt.Fprintf(b, "%-22s %-58s %s\n", "", "published", "  obtained")
	head := []any{"NLL", "± eval", "± seed", "minus VAE", "ELBO", "epochs", "seeds"}
	fmt.Fprintf(b, layout, append(append([]any{""}, head...), head...)...)
	for _, row := range r.Rows {
		fmt.Fprintf(b, layout, append(append([]any{row.Row}, cells(row.Published)...), cells(row.Obtained)...)...)
	}
}
