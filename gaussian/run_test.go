package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hvae/bench/plot"
	"hvae/gaussian/model"
)

// methodNames contains the methods of the paper, and HVAE with untied tempering.
var methodNames = strings.Fields("hvae-k1 hvae-k10 hvae-notemp-k1 hvae-notemp-k10 hvae-untied-k1 hvae-untied-k10 nf-k1 nf-k30 vb")

// almost allows relative differences of 1e-9, because the program and the tests may add numbers in different orders.
var almost = cmpopts.EquateApprox(1e-9, 0)

// Each flag must set its option, and the program must train each method on each dataset with these options.
func TestRowsAreAveragesOfRunsWithTheGivenOptions(t *testing.T) {
	folder := t.TempDir()
	o := options{dims: []int{2, 1}, methods: methodNames, datasets: 3, out: folder, json: true,
		config: model.Config{Points: 50, Iterations: 20, Draws: 3, Rate: 0.01, Seed: math.MaxUint64}}
	args := strings.Fields("-d 2,1 -datasets 3 -n 50 -iters 20 -batch 3 -lr 0.01 -seed 18446744073709551615 -json")
	args = append(args, "-methods", strings.Join(o.methods, ","), "-out", folder)
	if got, err := parse(args); err != nil || cmp.Diff(o, got, cmp.AllowUnexported(options{})) != "" {
		t.Fatalf("the options are %+v (error %v), want %+v", got, err, o)
	}
	stdout, stderr, status := gaussianCommand(t.Context(), args...)
	if status != 0 {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	rows := decode[model.Outcome](t, stdout)
	for i, got := range rows {
		all := make([]model.Outcome, o.datasets)
		for k := range all {
			var err error
			all[k], err = o.config.Train(t.Context(), o.methods[i%9], o.dims[i/9], k, func() {})
			if err != nil {
				t.Fatal(err)
			}
		}
		ignored := cmpopts.IgnoreFields(model.Outcome{}, "Seconds", "Theta")
		if diff := cmp.Diff(model.Average(all), got, almost, ignored); diff != "" || len(rows) != 2*9 {
			t.Errorf("row %d of %d (-want +got):\n%s", i, len(rows), diff)
		}
	}
	for name, want := range o.figures(rows) {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not the figure of the rows (error %v)", name, err)
		}
	}
}

// A table has a header, a row for each method, and the maximum-likelihood estimate. One dataset has no standard error.
func TestTableOfOneDataset(t *testing.T) {
	rows := []model.Outcome{{Method: "hvae-k1", Dims: 2, Datasets: 1, Err: 0.25}, {Method: "vb", Dims: 2}}
	o := options{methods: []string{"hvae-k1", "vb"}}
	want := `d = 2: datasets 1, points 0, iterations 0, draws 0, learning rate 0, seed 0
method              Δ error    σ error           sum ± s.e.         ELBO     log p(D)        gap  seconds
hvae-k1                   0          0                 0.25          0.0          0.0        0.0      0.0
vb                        0          0                    0          0.0          0.0        0.0      0.0
max. likelihood           0          0                    0                       0.0`
	got := o.table(rows[:1]) + o.table(rows)
	if diff := cmp.Diff(want, strings.TrimRight(got, " \n")); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}

// readResults returns the rows of the named file in the folder results.
func readResults[T any](t *testing.T, name string) []T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("results", name))
	if err != nil {
		t.Fatal(err)
	}
	return decode[T](t, string(b))
}

var update = flag.Bool("update", false, "draw the figures of the stored results again")

// Figure 1 is drawn from rows in reverse order, because the order of the dimensions must not matter.
func TestFiguresMatchTheResults(t *testing.T) {
	rows := readResults[model.Outcome](t, "figure1.jsonl")
	slices.Reverse(rows)
	slices.SortStableFunc(rows, func(a, b model.Outcome) int {
		return slices.Index(methodNames, a.Method) - slices.Index(methodNames, b.Method)
	})
	drawn := options{}.figures(rows)
	maps.Copy(drawn, options{gap: true}.figures(readResults[model.Outcome](t, "entropy.jsonl")))
	maps.Copy(drawn, options{twoModes: true}.figures(nil))
	drawn["iterations.svg"] = iterationsFigure(readResults[longRow](t, "iterations.jsonl"))
	for name, figure := range drawn {
		name = filepath.Join("figures", name)
		if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, figure) {
			t.Errorf("%s differs from the figure of the results (error %v); go test ./gaussian -update draws it again", name, err)
			if *update {
				os.WriteFile(name, figure, 0o644)
			}
		}
	}
}

// A longRow is the outcome of a method after a number of iterations.
type longRow struct {
	model.Outcome
	Iterations int
}

// missing returns log p(D) at maximum likelihood minus log p(D) at the estimate.
func (r longRow) missing() float64 { return r.MLEEvidence - r.LogEvidence }

// iterationsFigure returns a chart of the missing evidence against the number of iterations for each dimension.
func iterationsFigure(rows []longRow) []byte {
	charts := make([]plot.Chart, 2)
	for i, d := range []int{60, 301} {
		charts[i] = plot.Chart{Title: fmt.Sprintf("Missing evidence, d = %d", d), LogX: true, LogY: true}
		charts[i].XLabel, charts[i].YLabel = "iterations", "nats"
		for _, r := range rows {
			if r.Dims == d {
				addPoint(&charts[i], r.Method, plot.Line, float64(r.Iterations), r.missing())
			}
		}
	}
	return plot.Panels(2, charts...)
}

// The tables of longer runs and of chained datasets in README.md must agree with the stored results.
func TestREADMEShowsLongerAndChainedRuns(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	contains := func(line string) {
		t.Helper()
		if !strings.Contains(string(b), "\n"+line+"\n") {
			t.Errorf("README.md lacks the line\n%s", line)
		}
	}
	cells, best := map[string]string{}, map[string]string{} // by the first two columns
	for _, r := range readResults[longRow](t, "iterations.jsonl") {
		name := fmt.Sprintf("| %d | `%s` |", r.Dims, r.Method)
		cells[name] += fmt.Sprintf(" %.4g (%.2g) |", r.Err, r.missing())
		best[name] = fmt.Sprintf(" %.4g |", r.MLEDeltaErr+r.MLESigmaErr)
	}
	for name, values := range cells {
		contains(name + values + strings.Repeat(" |", 4-strings.Count(values, "|")) + best[name])
	}
	type chained struct {
		Method               string
		FreshErr, ChainedErr float64
	}
	rows := map[string]string{}
	for _, r := range readResults[chained](t, "chained.jsonl") {
		rows[r.Method] += fmt.Sprintf(" %.4g → %.4g |", r.FreshErr, r.ChainedErr)
	}
	for method, values := range rows {
		contains(fmt.Sprintf("| `%s` |%s", method, values))
	}
}

// Each block of program output in the READMEs must consist of lines that the program prints for the checked-in
// results. Running times may differ.
func TestREADMEsShowTheResults(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	for _, name := range []string{"d50.jsonl", "figure1.jsonl"} {
		rows := readResults[model.Outcome](t, name)
		for k, r := range rows {
			i := slices.IndexFunc(rows, func(other model.Outcome) bool { return other.Dims == r.Dims })
			output.WriteString(o.table(rows[i : k+1]))
		}
	}
	for i, r := range readResults[modeRow](t, "two-modes.jsonl") {
		output.WriteString(o.modesTable(r, i == 0))
	}
	// comparable replaces each sequence of spaces in a line with one space, and removes the running time of a method.
	comparable := func(line string) string {
		f := strings.Fields(line)
		if len(f) > 7 && slices.Contains(methodNames, f[0]) {
			f = f[:len(f)-1]
		}
		return strings.Join(f, " ")
	}
	printed := map[string]bool{}
	for line := range strings.Lines(output.String()) {
		printed[comparable(line)] = true
	}
	blocks := 0
	for _, name := range []string{"../README.md", "README.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```") {
			if i%2 == 0 || !strings.HasPrefix(block, "\nd = ") && !strings.HasPrefix(block, "\ntarget ") {
				continue
			}
			blocks++
			for line := range strings.Lines(block) {
				if !printed[comparable(line)] {
					t.Errorf("%s contains the line %q, which the program does not print for the results", name, line)
				}
			}
		}
	}
	if blocks < 2 {
		t.Errorf("the READMEs contain %d blocks of output, want at least 2", blocks)
	}
}
