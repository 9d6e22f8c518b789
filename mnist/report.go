package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/plot"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// A report holds the contents of table.json.
type report struct {
	protocol
	Tasks   int      `json:"tasks"` // number of planned runs
	Rows    []row    `json:"rows"`
	Results []result `json:"results"`

	damaged bool // whether a file of a run is damaged or does not belong to the table
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

// files returns a map from the names of the table's files to their contents. If the table has no HVAEs, the contents of
// its figures are nil.
func (r report) files() map[string][]byte {
	b, _ := json.MarshalIndent(r, "", " ") // cannot fail, because all numbers are finite
	files := map[string][]byte{tableFile: append(b, '\n'), figureFile: nil, budgetFile: nil}
	if slices.ContainsFunc(r.Rows, func(x row) bool { return x.K > 0 }) {
		files[figureFile], files[budgetFile] = figure(r.Rows), budget(r.Rows, r.Results)
	}
	return files
}

// write writes the files of the table. It removes figures whose contents are nil. If r.damaged is true, it changes
// nothing. If two processes write at the same time, the table may lack the latest result until the next command writes
// it.
func (t *table) write(r report) (err error) {
	for name, content := range r.files() {
		switch {
		case err != nil || r.damaged:
		case content != nil:
			err = atomicfile.WriteIn(t.root, "", name, content)
		default:
			err = unlessMissing(t.root.Remove(name))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	return nil
}

// print prints the rows, either as JSON or as a table with dashes for missing values. It ignores write errors, because
// table.json also contains the rows.
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

// figure plots the NLL of each HVAE minus the NLL of the VAE with the same seed, as a function of K, in these charts:
//
//	our results, shared step sizes    published results, shared step sizes
//	our results, varied step sizes    published results, varied step sizes
//
// Each chart has a line for each kind of tempering. Error bars are standard errors over seeds. The difference is more
// precise than the NLL, which depends more on the number of epochs than on the model. HVAEs with one step (K = 1)
// appear only in the first row of charts. The argument rows must contain at least one HVAE.
func figure(rows []row) []byte {
	var ks []float64
	var kinds []string // kinds of step sizes
	for _, r := range rows {
		if r.K > 0 {
			ks, kinds = append(ks, float64(r.K)), append(kinds, r.Eps)
		}
	}
	slices.Sort(ks)
	slices.Sort(kinds)
	if ks, kinds = slices.Compact(ks), slices.Compact(kinds); len(kinds) > 1 && kinds[0] == "" {
		kinds = kinds[1:] // rows with K = 1 are in the first charts
	}
	var charts []plot.Chart
	for i, eps := range kinds {
		own := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.K == 0 || r.Eps != eps && (r.Eps != "" || i > 0) })
		charts = append(charts,
			differenceChart("Obtained", eps, ks, own, func(r row) *summary { return r.Obtained }),
			differenceChart("Published", eps, ks, own, func(r row) *summary { return r.Published }))
	}
	return plot.Panels(2, charts...)
}

// differenceChart plots the difference from the VAE for each row r, taken from the summary of(r).
func differenceChart(title, eps string, ks []float64, rows []row, of func(row) *summary) plot.Chart {
	c := plot.Chart{Title: title, XLabel: "K", YLabel: "NLL minus the VAE's ± s.e. (nats)", XTicks: ks, Dodge: true, Width: 360, Height: 240}
	if eps != "" {
		c.Title += ", ε " + eps
	}
	c.Series = []plot.Series{{Label: "VAE", X: []float64{ks[0] - 0.5, ks[len(ks)-1] + 0.5}, Y: []float64{0, 0}, Style: plot.Dashed}}
	for _, tempering := range []string{"none", "fixed", "free", "untied"} {
		s := plot.Series{Label: strings.Replace(tempering, "none", "no", 1) + " tempering"}
		for _, r := range rows {
			if x := of(r); r.Tempering == tempering && x != nil && x.Pairs > 0 {
				s.X, s.Y, s.Error = append(s.X, float64(r.K)), append(s.Y, float64(x.ToVAE)), append(s.Error, orZero(x.ToVAEError))
			}
		}
		if s.X != nil {
			c.Series = append(c.Series, s)
		}
	}
	return c
}

// orZero returns x, or 0 if x is undefined.
func orZero(x eval.Number) float64 {
	if math.IsNaN(float64(x)) {
		return 0
	}
	return float64(x)
}

// leastELBO is the smallest validation ELBO, in nats, in the figure that the function budget draws. The ELBOs of the
// first epochs are far smaller and would compress the rest of the figure.
const leastELBO = -120

// budget plots the validation ELBO of each row against epochs (left) and against work (right). Lines are
// means over seeds, and bands are ± one standard deviation. Work is the number of multiply-adds, in units
// of an epoch of the VAE. Unlike time, it does not depend on the load of the machine.
func budget(rows []row, results []result) []byte {
	epochs := plot.Chart{Title: "At equal epochs", XLabel: "epoch", YLabel: "validation ELBO ± s.d. over seeds (nats)", LogX: true}
	work := plot.Chart{Title: "At equal work", XLabel: "work (epochs of a VAE)", YLabel: epochs.YLabel, LogX: true}
	for _, r := range rows {
		var curves [][]float64
		for _, x := range results {
			if x.Row == r.Row {
				curves = append(curves, x.curve)
			}
		}
		if curves == nil {
			continue
		}
		cost := float64(r.config.StepCost()) / float64(model.Config{Latent: r.config.Latent}.StepCost())
		s, scaled := plot.Series{Label: r.Row, Style: plot.Band}, []float64(nil)
		shortest := slices.MinFunc(curves, func(a, b []float64) int { return len(a) - len(b) })
		for i := range shortest {
			var elbos []float64
			for _, c := range curves {
				elbos = append(elbos, c[i])
			}
			if mean, sd := eval.MeanSD(elbos); mean >= leastELBO {
				s.X, s.Y, s.Error = append(s.X, float64(i+1)), append(s.Y, float64(mean)), append(s.Error, orZero(sd))
				scaled = append(scaled, cost*float64(i+1))
			}
		}
		epochs.Series = append(epochs.Series, s)
		s.X = scaled
		work.Series = append(work.Series, s)
	}
	return plot.Panels(2, epochs, work)
}
