package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hvae/gaussian/model"
)

// almost treats numbers with a relative difference of at most 1e-9 as equal, because the program may
// add numbers in another order.
var almost = cmpopts.EquateApprox(1e-9, 0)

// base is a small experiment with three methods. Only hvae-k1 learns an inverse temperature β₀.
var base = options{dims: []int{2}, methods: []string{"hvae-k1", "nf-k1", "vb"}, datasets: 3, config: model.Config{Points: 50, Iterations: 20, Draws: 3, Rate: 0.01, Seed: 3}}

// args returns the options as command-line arguments.
func (o options) args() []string {
	dims := strings.Trim(strings.ReplaceAll(fmt.Sprint(o.dims), " ", ","), "[]")
	return strings.Fields(fmt.Sprintf("-d %s -methods %s -datasets %d -n %d -iters %d -batch %d -lr %v -seed %d",
		dims, strings.Join(o.methods, ","), o.datasets, o.config.Points, o.config.Iterations, o.config.Draws, o.config.Rate, o.config.Seed))
}

// expected returns the rows that the program must print.
func (o options) expected(t *testing.T) (rows []model.Outcome) {
	t.Helper()
	for _, d := range o.dims {
		for _, m := range o.methods {
			var all []model.Outcome
			for k := range o.datasets {
				outcome, err := o.config.Train(t.Context(), model.Run{Method: m, Dims: d, Dataset: k}, func(int) {})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, outcome)
			}
			rows = append(rows, model.Average(all))
		}
	}
	return rows
}

func TestEachFlagChangesTheExperiment(t *testing.T) {
	for name, change := range map[string]func(*options){
		"no flag":     func(*options) {},
		"-d":          func(o *options) { o.dims = []int{1} },
		"-methods":    func(o *options) { o.methods = []string{"vb", "hvae-notemp-k1"} },
		"-datasets":   func(o *options) { o.datasets = 1 },
		"-n":          func(o *options) { o.config.Points = 51 },
		"-iters":      func(o *options) { o.config.Iterations = 21 },
		"-batch":      func(o *options) { o.config.Draws = 4 },
		"-lr":         func(o *options) { o.config.Rate = 0.011 },
		"-seed":       func(o *options) { o.config.Seed = math.MaxUint64 },
		"-d 2,1":      func(o *options) { o.dims, o.methods = []int{2, 1}, []string{"vb"} },
		"all methods": func(o *options) { o.methods, o.datasets = model.MethodNames(), 2 },
	} {
		o := base
		change(&o)
		args, folder := o.args(), t.TempDir()
		if len(o.dims) > 1 {
			args = append(args, "-out", folder)
		}
		start := time.Now()
		stdout, stderr, status := gaussianCommand(t.Context(), append(args, "-json")...)
		if status != 0 {
			t.Fatalf("%s: status %d, stderr %q", name, status, stderr)
		}
		elapsed := time.Since(start).Seconds()
		var want strings.Builder
		for _, r := range o.expected(t) {
			json.NewEncoder(&want).Encode(r)
		}
		rows, expected := decode[map[string]any](t, stdout), decode[map[string]any](t, want.String())
		for i, r := range rows {
			if s, ok := r["seconds"].(float64); !ok || !(s > 0 && s < 64*elapsed) { // a sum over at most 64 cores
				t.Errorf("%s: a row took %v seconds", name, r["seconds"])
			}
			delete(r, "seconds")
			delete(expected[i], "seconds")
		}
		if diff := cmp.Diff(expected, rows, almost); diff != "" {
			t.Errorf("after a change of %s, the rows differ (-want +got):\n%s", name, diff)
		}
		if len(o.dims) > 1 {
			want := map[string][]byte{}
			for name, draw := range figure1 {
				want[name] = draw(decode[model.Outcome](t, stdout))
			}
			if diff := cmp.Diff(want, files(t, folder)); diff != "" {
				t.Errorf("%s: figures (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestREADMEsShowTheResults checks the numbers of the table.
func TestTableOfOneDataset(t *testing.T) {
	o := base
	o.datasets, o.config.Draws = 1, 1
	stdout, _, _ := gaussianCommand(t.Context(), o.args()...)
	lines := strings.Split(stdout, "\n")
	if want := "d = 2: 1 dataset of 50 points, 20 iterations of 1 draw, learning rate 0.01, seed 3"; lines[0] != want || len(lines) != 2+3+1+2 {
		t.Errorf("the first of %d lines is %q, want 8 lines and %q", len(lines), lines[0], want)
	}
	for _, line := range lines[1:6] {
		if len([]rune(line)) != len([]rune(lines[1])) || strings.Contains(line, "±") != (line == lines[1]) {
			t.Errorf("the line %q is not as wide as the header, or shows a standard error of one dataset", line)
		}
	}
}

// Redrawing the figures from the output of -json must give the same figures.
func TestRedrawGivesTheSameFigures(t *testing.T) {
	drawn, again := t.TempDir(), t.TempDir()
	stdout, stderr, status := gaussianCommand(t.Context(), append(quick, "-d", "3,1", "-json", "-out", drawn)...)
	if status != 0 {
		t.Fatal(stderr)
	}
	results := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(results, []byte(stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := gaussianCommand(t.Context(), "-redraw", results, "-out", again); status != 0 {
		t.Fatal(stderr)
	}
	if diff := cmp.Diff(files(t, drawn), files(t, again)); diff != "" {
		t.Errorf("the figures differ (-drawn after training +redrawn):\n%s", diff)
	}
	for content, want := range map[string]string{"": "row 1: EOF", stdout + "{": "row 15: unexpected EOF", `{"eps": 0.1}`: `row 1: json: unknown field "eps"`, `{"d": "x"}`: "row 1: json: cannot"} {
		os.WriteFile(results, []byte(content), 0o644)
		folder := t.TempDir()
		_, stderr, status := gaussianCommand(t.Context(), "-redraw", results, "-out", folder)
		if status != 1 || !strings.Contains(stderr, results+", "+want) || len(files(t, folder)) > 0 {
			t.Errorf("-redraw of a file with %.20q: status %d, stderr %q, files %v; want status 1, a line with %q and no files", content, status, stderr, names(files(t, folder)), want)
		}
	}
}
