package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gaussianCommand runs the program and returns its output and exit status.
func gaussianCommand(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = program.Run(ctx, args, &out, &err)
	return out.String(), err.String(), status
}

// decode returns the JSON objects in text.
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

var quick = []string{"-datasets", "3", "-n", "50", "-iters", "60", "-batch", "3"}

func TestInvalidFlagsPrintOneLineAndReturnStatus2(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end() // if the program accepts the flags, its computation ends at once
	for _, c := range []struct {
		args []string
		want string // part of the line
	}{
		{[]string{"-d", "0"}, `each dimension must be a whole number from 1 to 100000, not "0"`},
		{[]string{"-d", "x"}, `not "x"`},
		{[]string{"-d", "2,,3"}, `not ""`},
		{[]string{"-d", "3,2,3"}, "3 is listed twice"},
		{[]string{"-d", "999999999999999999999"}, "each dimension must be a whole number"},
		{[]string{"-d", "100001"}, "from 1 to 100000"},
		{[]string{"-methods", "foo"}, `unknown method "foo": a method must be one of hvae-k1, hvae-k10`},
		{[]string{"-methods", "vb,vb"}, "vb is listed twice"},
		{[]string{"-two-modes", "-iters", "3", "-d", "2"}, "-two-modes cannot be combined with -d, -iters"},
		{[]string{"-two-modes", "-http", "localhost:0", "-json"}, "-http cannot be combined with -json: the only flags allowed with -http are -two-modes, -seed"},
		{[]string{"-two-modes", "-http", "8080"}, "it must be HOST:PORT, such as localhost:8080"},
		{[]string{"-http", "localhost:0"}, "-http can be used only with -two-modes"},
		{[]string{"-datasets", "-1"}, "from 1 to"},
		{[]string{"-datasets", "0"}, "-datasets"},
		{[]string{"-n", "1"}, "from 2 to"},
		{[]string{"-iters", "-5"}, "-iters"},
		{[]string{"-batch", "many"}, "-batch"},
		{[]string{"-lr", "0"}, "-lr: it must be a positive finite number"},
		{[]string{"-lr", "NaN"}, "-lr"},
		{[]string{"-lr", "+Inf"}, "-lr"},
		{[]string{"-seed", "-1"}, "-seed"},
		{[]string{"-foo"}, "-foo"},
		{[]string{"50"}, `unexpected argument "50"`},
	} {
		stdout, stderr, status := gaussianCommand(ended, c.args...)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "gaussian: ") || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want status 2 and a line with %q", c.args, status, stdout, stderr, c.want)
		}
	}
}

func TestUnwritableFolderReturnsStatus1BeforeAnyWork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end() // if the program began to work, the exit status would be 130
	for _, d := range []string{"1", "1,2"} {
		stdout, stderr, status := gaussianCommand(ended, "-d", d, "-out", file)
		if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, file) || !strings.Contains(stderr, "-out") {
			t.Errorf("-d %s: status %d, stdout %q, stderr %q; want status 1 and a line with the folder", d, status, stdout, stderr)
		}
	}
	if kept, _ := os.ReadFile(file); string(kept) != "kept" {
		t.Errorf("the file contains %q, want \"kept\"", kept)
	}
}

func TestOutputDoesNotDependOnGOMAXPROCS(t *testing.T) {
	run := func(procs int) []row {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		stdout, stderr, status := gaussianCommand(t.Context(), append(quick, "-d", "2,3", "-json", "-out", t.TempDir())...)
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		rows := decode[row](t, stdout)
		for i := range rows {
			rows[i].Seconds = 0
		}
		return rows
	}
	want := run(1)
	if len(want) != 14 {
		t.Fatalf("the program printed %d rows, want 14", len(want))
	}
	for _, procs := range []int{2, 5} {
		if diff := cmp.Diff(want, run(procs), cmp.AllowUnexported(row{})); diff != "" {
			t.Errorf("the rows for GOMAXPROCS = 1 (-) and %d (+) differ:\n%s", procs, diff)
		}
	}
}

func TestDivergenceReturnsStatus1AndPrintsNoNaN(t *testing.T) {
	stdout, stderr, status := gaussianCommand(t.Context(), append(quick, "-d", "2", "-methods", "vb,hvae-k1", "-lr", "1e5")...)
	if status != 1 || strings.Contains(stdout, "NaN") || !strings.Contains(stderr, "diverged at iteration") || !strings.Contains(stderr, "log_sigma = [") {
		t.Errorf("status %d, stdout %q, stderr %q; want status 1 and an error with the iteration and the parameters", status, stdout, stderr)
	}
}

func TestInterruptReturnsStatus130AndPrintsNumberOfRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stdout, stderr, status := gaussianCommand(ctx, "-d", "5")
	if status != 130 || stdout != "" || !strings.Contains(stderr, "of 70 runs were finished") {
		t.Errorf("status %d, stdout %q, stderr %q; want status 130 and the number of finished runs", status, stdout, stderr)
	}
}

func TestInterruptAfterFirstRowWritesNoFigures(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	folder := t.TempDir()
	var stderr bytes.Buffer
	stdout := &countingWriter{then: cancel} // cancel after the first row
	status := program.Run(ctx, []string{"-methods", "vb", "-d", "1,100000", "-n", "2", "-datasets", "1", "-iters", "3000", "-json", "-out", folder}, stdout, &stderr)
	reported, existing := figuresOf(t, folder, stderr.String())
	if status != 130 || !strings.Contains(stderr.String(), "1 of 2 runs were finished; the completed rows were printed") || stdout.writes != 1 || reported != nil || existing != nil {
		t.Errorf("status %d, %d rows, stderr %q, figures %v", status, stdout.writes, stderr.String(), existing)
	}
}

func TestWriteErrorReturnsStatus1AndEndsAllRuns(t *testing.T) {
	folder := t.TempDir()
	var stderr bytes.Buffer
	stdout := &countingWriter{err: errors.New("disk full")}
	status := program.Run(t.Context(), []string{"-methods", "vb", "-d", "1,100000", "-n", "2", "-datasets", "1", "-iters", "3000", "-json", "-out", folder}, stdout, &stderr)
	_, existing := figuresOf(t, folder, stderr.String())
	if status != 1 || stderr.String() != "gaussian: cannot write results: disk full\n" || stdout.writes != 1 || existing != nil {
		t.Errorf("status %d, %d rows, stderr %q, figures %v", status, stdout.writes, stderr.String(), existing)
	}
}

// A countingWriter counts writes. Each Write calls w.then, unless it is nil, and returns w.err.
type countingWriter struct {
	writes int
	then   func()
	err    error
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.writes++
	if w.then != nil {
		w.then()
	}
	return len(p), w.err
}

func FuzzParse(f *testing.F) {
	f.Add("-d", "1,2,3")
	f.Add("-methods", "vb,hvae-k1")
	f.Add("-lr", "1e-3")
	f.Fuzz(func(t *testing.T, flag, value string) {
		o, err := parse([]string{flag, value})
		if err != nil {
			return
		}
		if len(o.dims) == 0 || len(o.methods) == 0 || o.datasets < 1 || o.config.Points < 2 || o.config.Iterations < 1 || o.config.Draws < 1 || !(o.config.Rate > 0) {
			t.Errorf("parse accepts %q %q and returns the invalid options %+v", flag, value, o)
		}
		for _, d := range o.dims {
			if d < 1 || d > maxDims {
				t.Errorf("parse accepts %q %q and returns the invalid dimension %d", flag, value, d)
			}
		}
	})
}
