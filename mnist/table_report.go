package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"hvae/bench/atomicfile"
	"hvae/bench/filelock"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// The files of a table.
const (
	tableFile  = "table.json"
	figureFile = "table1.svg"
	budgetFile = "budget.svg"
)

// A summary is what the runs of a row came to, over their seeds.
type summary struct {
	Seeds  int     `json:"seeds"`
	Epochs float64 `json:"epochs"` // mean
	ELBO   float64 `json:"elbo"`   // mean over seeds, nats
	NLL    float64 `json:"nll"`
	// Standard deviations of NLL. Over evaluations of a run: the root of the mean of the
	// runs' variances. Null where there is only one.
	EvaluationSD *float64 `json:"nll_sd_evaluations"`
	SeedSD       *float64 `json:"nll_sd_seeds"`
	// NLL less that of the VAE with the same seed: mean over the seeds that both have, and
	// its standard error. Null for the VAE itself, and where there are none.
	ToVAE      *float64 `json:"to_vae"`
	ToVAEError *float64 `json:"to_vae_se"`
	Pairs      int      `json:"pairs"`
}

// summarise summarises the runs of a row; nil if there are none.
func summarise(row string, all []result) *summary {
	var runs []result
	vae := map[uint64]float64{}
	for _, r := range all {
		if r.Row == row {
			runs = append(runs, r)
		}
		if r.Row == "vae" {
			vae[r.Seed] = r.NLL
		}
	}
	if runs == nil {
		return nil
	}
	s := &summary{Seeds: len(runs)}
	n := float64(len(runs))
	var nlls, differences []float64
	variance, spread := 0.0, true
	for _, r := range runs {
		s.Epochs += float64(r.Epochs) / n
		s.ELBO += r.ELBO / n
		nlls = append(nlls, r.NLL)
		if r.NLLSD == nil {
			spread = false
		} else {
			variance += *r.NLLSD * *r.NLLSD / n
		}
		if v, ok := vae[r.Seed]; ok && row != "vae" {
			differences = append(differences, r.NLL-v)
		}
	}
	s.NLL, s.SeedSD = eval.MeanSD(nlls)
	if spread {
		sd := math.Sqrt(variance)
		s.EvaluationSD = &sd
	}
	if s.Pairs = len(differences); s.Pairs > 0 {
		mean, se := eval.MeanSE(differences)
		s.ToVAE, s.ToVAEError = &mean, se
	}
	return s
}

// A tableRow is a row of the table, published and obtained.
type tableRow struct {
	Row       string   `json:"row"`
	K         int      `json:"K"`
	Tempering string   `json:"tempering"`
	Eps       string   `json:"eps"` // shared or varied; empty for K < 2
	Published *summary `json:"published"`
	Obtained  *summary `json:"obtained"`

	config model.Config
}

// tableRows returns the rows of the tasks, in their order.
func (t *table) tableRows(obtained []result) (rows []tableRow) {
	for _, k := range t.tasks {
		if slices.ContainsFunc(rows, func(r tableRow) bool { return r.Row == k.row }) {
			continue
		}
		r := tableRow{Row: k.row, K: k.config.K, Tempering: k.config.Tempering, config: k.config}
		if r.K > 1 {
			r.Eps = map[bool]string{false: "shared", true: "varied"}[k.config.VaryEps]
		}
		r.Published, r.Obtained = summarise(k.row, published()), summarise(k.row, obtained)
		rows = append(rows, r)
	}
	return rows
}

// A report is what table.json holds.
type report struct {
	Data     string     `json:"data"`
	Epochs   int        `json:"max_epochs"`
	Patience int        `json:"patience"`
	Train    int        `json:"train"` // 0 for all images
	Images   int        `json:"images"`
	Samples  int        `json:"samples"`
	Runs     int        `json:"runs"`
	Tasks    int        `json:"tasks"` // runs that there are to be
	Rows     []tableRow `json:"rows"`
	Results  []result   `json:"results"`
}

// lock makes the table's own files this process's. Others have them for a moment, after
// each of their runs.
func (t *table) lock() (l *filelock.Lock, err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		l, err = filelock.Take(filepath.Join(t.out, lockFile))
		if !errors.Is(err, filelock.ErrInUse) {
			return l, err
		}
	}
	return nil, fmt.Errorf("cannot write the table: %s is %w", t.out, err)
}

// report returns what the runs have come to.
func (t *table) report() report {
	r := report{
		Data: t.set.Name, Epochs: t.epochs, Patience: t.patience, Train: t.train, Images: t.limit, Samples: t.samples, Runs: t.runs,
		Tasks: len(t.tasks), Results: t.results(),
	}
	r.Rows = t.tableRows(r.Results)
	return r
}

// files returns the table's files by their names.
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

// write writes the table's files, unless the ones in the folder have results that r lacks.
func (t *table) write(r report) error {
	old, err := readReport(filepath.Join(t.out, tableFile))
	if err != nil {
		return err
	}
	for _, x := range old.Results {
		if !slices.ContainsFunc(r.Results, func(y result) bool { return y.Run == x.Run }) {
			if !t.noted {
				fmt.Fprintf(t.stderr, "note: %s and %s stay as they are, as they have the results of %s, which are not in this table\n", filepath.Join(t.out, tableFile), figureFile, x.Run)
			}
			t.noted = true
			return nil
		}
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	for file, content := range files {
		name := filepath.Join(t.out, file)
		if err := errors.Join(atomicfile.Clean(name), atomicfile.Write(name, content)); err != nil {
			return err
		}
	}
	return nil
}

// tell writes the table's files and prints the table, as JSON the run that has been done.
func (t *table) tell(did task) error {
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
	if t.asJSON {
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
	if _, err := t.stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("cannot write results: %w", err)
	}
	return nil
}

// printTable prints the rows. What is not known is a dash.
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
