package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

	"hvae/bench/command"
	"hvae/bench/document"
	"hvae/gaussian/model"
)

// noError ends the test if err is not nil.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gaussianCommand runs the program and returns its output and exit status.
func gaussianCommand(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = command.Run(ctx, "gaussian", run, args, &out, &err)
	return out.String(), err.String(), status
}

func TestInvalidFlagsPrintOneLineAndReturnStatus2(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()                                      // if the program accepts the flags, its computation ends at once
	for args, want := range map[string]string{ // part of the error message
		"-d 0":                  "from 1 to 100000",
		"-d 2,,3":               `"2,,3"`,
		"-d 2,100001":           `"2,100001"`,
		"-methods vb,foo":       `unknown method "foo"`,
		"-gap":                  "-gap has no effect without -out",
		"-two-modes -d 2":       "-d has no effect with -two-modes",
		"-http :0 -json":        "-json has no effect with -http",
		"-two-modes -http 8080": "it must be HOST:PORT, such as localhost:8080",
		"-datasets 0":           "invalid value 0 for flag -datasets: it must be from 1 to 1000000",
		"-n 1":                  "from 2 to 100000000",
		"-batch 10001":          "-batch",
		"-lr 0":                 "invalid value 0 for flag -lr: it must be a positive finite number",
		"-lr NaN":               "a positive finite number",
	} {
		stdout, stderr, status := gaussianCommand(ended, strings.Fields(args)...)
		isLine := strings.HasPrefix(stderr, "gaussian: ") && strings.Count(stderr, "\n") == 1
		if status != 2 || stdout != "" || !isLine || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want status 2 and a line with %q", args, status, stdout, stderr, want)
		}
	}
}

func TestUsage(t *testing.T) {
	usage, _, _ := gaussianCommand(t.Context(), "-h")
	document.File(t, "testdata/usage.txt", []byte(usage))
}

// A writer is an io.Writer that calls a function for each write.
type writer func(p []byte) error

func (w writer) Write(p []byte) (int, error) { return len(p), w(p) }

// Before doing anything else, the program must create the folder for the figures. It must end at once and write no
// figures if it cannot write figures to this folder, if it cannot print the first row, or if it is interrupted after
// printing this row.
func TestNoFiguresAfterAnInterruptOrAnError(t *testing.T) {
	t.Chdir(t.TempDir())
	noError(t, errors.Join(os.WriteFile("file", nil, 0o644), os.MkdirAll("c/figure1a.svg", 0o755),
		os.WriteFile("c/gap.svg", nil, 0o444)))
	full := writer(func([]byte) error { return errors.New("disk full") })
	ctx, interrupt := context.WithCancel(t.Context())
	const long = "-d 1,100000 -methods vb -n 2 -datasets 1 -iters 3000 -json -out "
	for _, c := range []struct {
		ctx    context.Context
		args   string
		stdout writer
		status int
		stderr string
	}{
		{t.Context(), long + "file", full, 1, "gaussian: cannot write figures to the folder file: "},
		{t.Context(), long + "c", full, 1, "gaussian: cannot write c/figure1a.svg: it is not a regular file\n"},
		{t.Context(), "-gap " + long + "c", full, 1, "gaussian: cannot write c/gap.svg: it is write-protected\n"},
		{t.Context(), "-h", full, 1, "gaussian: disk full\n"},
		{t.Context(), long + "a/b", full, 1, "gaussian: disk full\n"},
		{t.Context(), "-two-modes -out a/b", full, 1, "gaussian: disk full\n"},
		{ctx, long + "a/b", func([]byte) error { interrupt(); return nil }, 130, "gaussian: context canceled\n"},
		{ctx, "-two-modes -out a/b", full, 130, "gaussian: context canceled\n"}, // interrupted earlier
		{ctx, "-datasets 1000000 -out a/b", full, 130, "gaussian: context canceled\n"},
	} {
		var stderr bytes.Buffer
		status := command.Run(c.ctx, "gaussian", run, strings.Fields(c.args), c.stdout, &stderr)
		text := stderr.String()[max(0, strings.Index(stderr.String(), "gaussian: ")):] // without the progress of a slow machine
		if status != c.status || !strings.HasPrefix(text, c.stderr) {
			t.Errorf("%s: status %d, stderr %q; want status %d, %q", c.args, status, text, c.status, c.stderr)
		}
	}
	if figures, err := os.ReadDir("a/b"); len(figures) > 0 || err != nil {
		t.Errorf("the folder contains %v (error %v), want no figures", figures, err)
	}
}

// decode parses a sequence of JSON objects.
func decode[T any](t *testing.T, text []byte) (values []T) {
	t.Helper()
	for dec := json.NewDecoder(bytes.NewReader(text)); dec.More(); {
		var v T
		noError(t, dec.Decode(&v))
		values = append(values, v)
	}
	return values
}

// read returns the contents of a file in this folder.
func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	noError(t, err)
	return b
}

// Each flag must set its option. Training on several datasets at once or one after another must give the same rows.
func TestRowsAndFiguresDependOnlyOnTheOptions(t *testing.T) {
	folder := t.TempDir()
	methods := strings.Fields("hvae-k1 hvae-notemp-k2 hvae-untied-k3 nf-k4 vb")
	o := options{dims: []int{2, 1}, methods: methods, datasets: 3, out: folder, json: true,
		config: model.Config{Points: 50, Iterations: 20, Draws: 3, Rate: 0.01, Seed: math.MaxUint64}}
	args := strings.Fields("-d 2,1 -datasets 3 -n 50 -iters 20 -batch 3 -lr 0.01 -seed 18446744073709551615 -json")
	args = append(args, "-methods", strings.Join(methods, ","), "-out", folder)
	if got, err := parse(args, nil); err != nil || cmp.Diff(o, got, cmp.AllowUnexported(options{})) != "" {
		t.Fatalf("the options are %+v (error %v), want %+v", got, err, o)
	}
	var want []model.Outcome
	for _, d := range o.dims {
		for _, method := range methods {
			outcomes := make([]model.Outcome, o.datasets)
			for k := range outcomes {
				var err error
				outcomes[k], err = o.config.Train(t.Context(), method, d, k, func() {})
				noError(t, err)
			}
			want = append(want, model.Average(outcomes))
		}
	}
	stdout, stderr, status := gaussianCommand(t.Context(), args...)
	got := decode[model.Outcome](t, []byte(stdout))
	diff := cmp.Diff(want, got, cmpopts.IgnoreFields(model.Outcome{}, "Seconds", "Theta"))
	if diff != "" || status != 0 {
		t.Errorf("status %d, stderr %q, rows (-want +got):\n%s", status, stderr, diff)
	}
	for name, figure := range o.figures(want) {
		if !bytes.Equal(read(t, filepath.Join(folder, name)), figure) {
			t.Errorf("%s is not the figure of the rows", name)
		}
	}
}

// The table that the program prints for the stored results is in results/d50.txt. With a single dataset, the table must
// not contain standard errors.
func TestTable(t *testing.T) {
	o, err := parse(nil, nil)
	noError(t, err)
	table := ""
	rows := decode[model.Outcome](t, read(t, "results/d50.jsonl"))
	for i := range rows {
		table += o.table(rows[:i+1])
	}
	document.File(t, "results/d50.txt", []byte(table))
	one := o.table([]model.Outcome{{Err: 0.25, ELBO: -1e160, LogEvidence: -1e160, Gap: 1e160}})
	if strings.Count(one, "±") != 1 || strings.Contains(one, "00000000") {
		t.Errorf("with one dataset and a diverged method, a row contains ± or a number with 160 digits:\n%s", one)
	}
}

// The test sorts the rows of figure 1 by descending dimension, to check that their order does not affect the figure.
func TestFiguresMatchTheResults(t *testing.T) {
	rows := decode[model.Outcome](t, read(t, "results/figure1.jsonl"))
	slices.SortStableFunc(rows, func(a, b model.Outcome) int { return b.Dims - a.Dims })
	drawn := options{}.figures(rows)
	maps.Copy(drawn, options{gap: true}.figures(decode[model.Outcome](t, read(t, "results/entropy.jsonl"))))
	maps.Copy(drawn, options{twoModes: true}.figures(nil))
	for name, figure := range drawn {
		document.File(t, filepath.Join("figures", name), figure)
	}
}

// The pages show stored results. The missing evidence is log p(D) at maximum likelihood minus log p(D) at the estimate.
// A chained run starts from the result for the previous dataset.
func TestREADMEMatchesTheResults(t *testing.T) {
	type row struct {
		model.Outcome
		Iterations           int     // in iterations.jsonl
		FreshErr, ChainedErr float64 // in chained.jsonl
	}
	stored := func(file, method, d string) (rows []row) { // of all dimensions if d is empty
		for _, r := range decode[row](t, read(t, "results/"+file+".jsonl")) {
			if r.Method == strings.Trim(method, "`") && (d == "" || d == fmt.Sprint(r.Dims)) {
				rows = append(rows, r)
			}
		}
		return rows
	}
	missing := func(r row) string { return fmt.Sprintf("%.2g", r.MLEEvidence-r.LogEvidence) }
	document.Rows(t, "README.md", "missing", 1, func(c []string) { // method, a number for each dimension
		for i, r := range stored("figure1", c[0], "") {
			c[1+i] = missing(r)
		}
		if c[0] == "limit / gap" {
			for i, r := range stored("figure1", "hvae-k1", "") {
				c[1+i] = fmt.Sprintf("%.0f %%", 100*r.TiedLimit/r.Gap)
			}
		}
	})
	document.Rows(t, "README.md", "iterations", 2, func(c []string) { // d, method, four numbers of iterations, maximum likelihood
		for _, r := range stored("iterations", c[1], c[0]) {
			i := slices.Index([]int{30_000, 100_000, 300_000, 1_000_000}, r.Iterations)
			c[2+i] = fmt.Sprintf("%.4g (%s)", r.Err, missing(r))
			c[6] = fmt.Sprintf("%.4g", r.MLEDeltaErr+r.MLESigmaErr)
		}
	})
	tied, untied := stored("entropy", "hvae-k1", "50")[0], stored("entropy", "hvae-untied-k1", "50")[0]
	document.Sentence(t, "../README.md", "explains %.0f of %.0f thousand nats", tied.TiedLimit/1000, tied.Gap/1000)
	document.Sentence(t, "../README.md", "the gap is %.0f nats (K = 1)", untied.Gap)
	vb, chained := stored("iterations", "vb", "301"), stored("chained", "vb", "51")[0]
	document.Sentence(t, "../README.md", "error from %.0f to %.0f, and maximum likelihood has %.0f",
		vb[0].Err, vb[2].Err, vb[0].MLEDeltaErr+vb[0].MLESigmaErr)
	for _, page := range []string{"README.md", "../README.md"} {
		document.Sentence(t, page, "at d = 51, VB's error falls from %.1f to %.1f", chained.FreshErr, chained.ChainedErr)
	}
}
