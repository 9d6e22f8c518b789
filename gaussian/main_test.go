package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/command"
	"hvae/gaussian/model"
)

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
		"-datasets 0":           "invalid value 0 for flag -datasets: it must be from 1 to 100000000",
		"-n 1":                  "from 2 to 100000000",
		"-batch 100000001":      "-batch",
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

func TestDefaultsAreThoseOfThePaper(t *testing.T) {
	want := options{
		dims: []int{50}, methods: strings.Fields("hvae-k1 hvae-k10 hvae-notemp-k1 hvae-notemp-k10 nf-k1 nf-k30 vb"), datasets: 10,
		config: model.Config{Points: 10_000, Iterations: 30_000, Draws: 10, Rate: 1e-3, Seed: 1},
	}
	if got, err := parse(nil); cmp.Diff(want, got, cmp.AllowUnexported(options{})) != "" || err != nil {
		t.Errorf("the default options are %+v (error %v), want %+v", got, err, want)
	}
}

// A writer calls itself for each write.
type writer func(p []byte) error

func (w writer) Write(p []byte) (int, error) { return len(p), w(p) }

// The program must create the folder of the figures before any work. It must end at once and write no figures if it
// cannot create the folder, cannot print the first row, or is interrupted after it has printed this row.
func TestNoFiguresAfterAnInterruptOrAnError(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
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
		{t.Context(), long + "a/b", full, 1, "gaussian: disk full\n"},
		{t.Context(), "-two-modes -out a/b", full, 1, "gaussian: disk full\n"},
		{ctx, long + "a/b", func([]byte) error { interrupt(); return nil }, 130, "gaussian: context canceled\n"},
		{ctx, "-two-modes -out a/b", full, 130, "gaussian: context canceled\n"}, // interrupted before the first row
	} {
		var stderr bytes.Buffer
		status := command.Run(c.ctx, "gaussian", run, strings.Fields(c.args), c.stdout, &stderr)
		if status != c.status || !strings.HasPrefix(stderr.String(), c.stderr) {
			t.Errorf("%s: status %d, stderr %q; want status %d, %q", c.args, status, stderr.String(), c.status, c.stderr)
		}
	}
	if figures, err := os.ReadDir("a/b"); len(figures) > 0 || err != nil {
		t.Errorf("the folder contains %v (error %v), want no figures", figures, err)
	}
}
