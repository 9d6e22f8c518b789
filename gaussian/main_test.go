package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"hvae/bench/command"
	"hvae/gaussian/model"
)

// gaussianCommand runs the program and returns its output and exit status.
func gaussianCommand(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = command.Run(ctx, "gaussian", run, args, &out, &err)
	return out.String(), err.String(), status
}

// decode parses a sequence of JSON objects.
func decode[T any](t *testing.T, text string) (values []T) {
	t.Helper()
	for dec := json.NewDecoder(strings.NewReader(text)); dec.More(); {
		var v T
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	return values
}

func TestInvalidFlagsPrintOneLineAndReturnStatus2(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()                                      // if the program accepts the flags, its computation ends at once
	for args, want := range map[string]string{ // part of the error message
		"-d 0":                   "from 1 to 100000",
		"-d 2,,3,100001":         `"2,,3,100001"`,
		"-methods vb,foo":        `unknown method "foo"`,
		"-gap":                   "-gap has no effect without -out",
		"-two-modes -d 2":        "-d has no effect with -two-modes",
		"-two-modes -gap -out x": "-gap has no effect with -two-modes",
		"-http :0 -json":         "-json has no effect with -http",
		"-two-modes -http 8080":  "it must be HOST:PORT, such as localhost:8080",
		"-datasets 0":            "invalid value 0 for flag -datasets: it must be from 1 to 100000000",
		"-n 1":                   "from 2 to 100000000",
		"-batch 100000001":       "-batch",
		"-lr 0":                  "invalid value 0 for flag -lr: it must be a positive finite number",
		"-lr NaN":                "a positive finite number",
		"-seed -1":               "-seed",
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
	if got, err := parse(nil); gocmp.Diff(want, got, gocmp.AllowUnexported(options{})) != "" || err != nil {
		t.Errorf("the default options are %+v (error %v), want %+v", got, err, want)
	}
}

// If the figures cannot be written, the program must report this error before it does any work.
func TestFolderIsCreatedBeforeAnyWork(t *testing.T) {
	t.Chdir(t.TempDir())
	ended, end := context.WithCancel(t.Context())
	end() // if the program begins to work, the exit status is 130
	_, stderr, status := gaussianCommand(ended, "-two-modes", "-out", "new/folder")
	if s, err := os.Stat("new/folder"); status != 130 || err != nil || !s.IsDir() {
		t.Errorf("status %d, stderr %q, error %v; want status 130 and a new folder", status, stderr, err)
	}
	if err := os.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, stderr, status = gaussianCommand(ended, "-out", "file")
	if status != 1 || !strings.HasPrefix(stderr, "gaussian: cannot write figures to the folder file: ") {
		t.Errorf("-out file: status %d, stderr %q; want status 1 and an error about the folder", status, stderr)
	}
}

func TestOutputDoesNotDependOnGOMAXPROCS(t *testing.T) {
	var want string
	for _, procs := range []int{1, 2, 5} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		args := strings.Fields("-datasets 3 -n 50 -iters 60 -batch 3 -d 2,3 -json")
		stdout, stderr, status := gaussianCommand(t.Context(), args...)
		got := regexp.MustCompile(`,"seconds":.*}`).ReplaceAllString(stdout, "}")
		if want = cmp.Or(want, got); status != 0 || got != want || strings.Count(got, "\n") != 2*7 {
			t.Errorf("status %d, stderr %q; with GOMAXPROCS = %d, the rows differ (-want +got):\n%s", status, stderr, procs, gocmp.Diff(want, got))
		}
	}
}

// A writer calls itself for each write.
type writer func(p []byte) error

func (w writer) Write(p []byte) (int, error) { return len(p), w(p) }

// If the program cannot print the first row, or is interrupted after printing it, it must end at once and write no figures.
func TestNoFiguresAfterAnInterruptOrAWriteError(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	for _, c := range []struct {
		ctx    context.Context
		stdout writer
		status int
		stderr string
	}{
		{t.Context(), func([]byte) error { return errors.New("disk full") }, 1, "gaussian: disk full\n"},
		{ctx, func([]byte) error { interrupt(); return nil }, 130, "gaussian: context canceled\n"},
	} {
		for _, args := range []string{"-d 1,100000 -methods vb -n 2 -datasets 1 -iters 3000", "-two-modes"} {
			folder, stderr := t.TempDir(), &bytes.Buffer{}
			status := command.Run(c.ctx, "gaussian", run, append(strings.Fields(args), "-json", "-out", folder), c.stdout, stderr)
			files, err := os.ReadDir(folder)
			if status != c.status || stderr.String() != c.stderr || len(files) > 0 || err != nil {
				t.Errorf("%s: status %d, stderr %q, files %v; want status %d, %q", args, status, stderr, files, c.status, c.stderr)
			}
		}
	}
}
