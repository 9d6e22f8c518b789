package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hvae/gaussian/model"
)

// gaussianCommand runs the program and returns its output and exit status.
func gaussianCommand(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = program.Run(ctx, args, &out, &err)
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

var quick = []string{"-datasets", "3", "-n", "50", "-iters", "60", "-batch", "3"}

// files returns the contents of each file in a folder, keyed by file name.
func files(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			all[e.Name()] = nil
			continue
		}
		if all[e.Name()], err = os.ReadFile(filepath.Join(folder, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func names(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }

func TestInvalidFlagsPrintOneLineAndReturnStatus2(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()                                      // if the program accepts the flags, its computation ends at once
	for args, want := range map[string]string{ // part of the error message
		"-d 0":                      `each dimension must be a whole number from 1 to 100000, not "0"`,
		"-d 2,,3":                   `not ""`,
		"-d 3,2,3":                  "3 is listed twice",
		"-d 100001":                 "from 1 to 100000",
		"-methods foo":              `unknown method "foo": a method must be vb, hvae-kK`,
		"-two-modes -iters 3 -d 2":  "-two-modes cannot be combined with -d: the only flags",
		"-two-modes -http :0 -json": "-http cannot be combined with -json: the only flags allowed with -http are -two-modes, -seed",
		"-two-modes -http 8080":     "it must be HOST:PORT, such as localhost:8080",
		"-redraw x -d 2":            "-redraw cannot be combined with -d",
		"-redraw x -seed 2":         "-redraw cannot be combined with -seed",
		"-redraw x -two-modes":      "-two-modes cannot be combined with -redraw",
		"-datasets 0":               "-datasets",
		"-n 1":                      "from 2 to",
		"-iters 0":                  "-iters",
		"-batch 0":                  "-batch",
		"-lr 0":                     `invalid value "0" for flag -lr: it must be a positive finite number`,
		"-lr NaN":                   "a positive finite number",
		"-lr Inf":                   "a positive finite number",
		"-seed -1":                  "-seed",
	} {
		stdout, stderr, status := gaussianCommand(ended, strings.Fields(args)...)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "gaussian: ") || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want status 2 and a line with %q", args, status, stdout, stderr, want)
		}
	}
}

func TestDefaultsAreThoseOfThePaper(t *testing.T) {
	want := options{dims: []int{50}, methods: strings.Fields("hvae-k1 hvae-k10 hvae-notemp-k1 hvae-notemp-k10 nf-k1 nf-k30 vb"), datasets: 10, config: model.Config{Points: 10_000, Iterations: 30_000, Draws: 10, Rate: 1e-3, Seed: 1}}
	if got, err := parse(nil); gocmp.Diff(want, got, gocmp.AllowUnexported(options{})) != "" || err != nil {
		t.Errorf("the default options are %+v (error %v), want %+v", got, err, want)
	}
}

// If the figures cannot be written, the program must report this error before it does any work.
func TestFoldersAreCheckedBeforeAnyWork(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"file", "figure1b.svg", "trajectory.svg"} {
		if err := os.WriteFile(name, []byte("kept"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end() // if the program begins to work, the exit status is 130
	for _, c := range []struct {
		args   string
		status int
		stderr string
	}{
		{"-d 1,2 -out file", 1, "cannot write figures to the folder file: "},
		{"-d 1,2 -out file/new", 1, "cannot write figures to the folder file/new: "},
		{"-d 1,2", 1, "figure1b.svg exists: choose a folder for the figures with -out"},
		{"-two-modes", 1, "trajectory.svg exists: choose a folder"},
		{"-redraw file", 1, "figure1b.svg exists: choose a folder"},
		{"-d 1,2 -out .", 130, "figure1a.svg, figure1b.svg will be written to the folder .\n"},
		{"-d 1,2 -out new/folder", 130, "figure1a.svg, figure1b.svg will be written to the folder new/folder\n"},
		{"-two-modes -out new/folder", 130, "trajectory.svg will be written to the folder new/folder\n"},
	} {
		_, stderr, status := gaussianCommand(ended, strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: status %d, stderr %q; want status %d and %q", c.args, status, stderr, c.status, c.stderr)
		}
	}
	if runtime.GOOS == "linux" { // nobody can create files in the folder /proc
		if _, stderr, status := gaussianCommand(ended, "-d", "1,2", "-out", "/proc"); status != 1 || !strings.Contains(stderr, "cannot write figures to the folder /proc: ") {
			t.Errorf("a folder without write permission: status %d, stderr %q", status, stderr)
		}
	}
	kept := files(t, ".")
	if got := names(kept); !slices.Equal(got, []string{"figure1b.svg", "file", "new", "trajectory.svg"}) || string(slices.Concat(kept["file"], kept["figure1b.svg"], kept["trajectory.svg"])) != "keptkeptkept" {
		t.Errorf("the folder contains %q", kept)
	}
}

func TestOutputDoesNotDependOnGOMAXPROCS(t *testing.T) {
	var want string
	for _, procs := range []int{1, 2, 5} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		stdout, stderr, status := gaussianCommand(t.Context(), append(quick, "-d", "2,3", "-json", "-out", t.TempDir())...)
		got := regexp.MustCompile(`,"seconds":.*}`).ReplaceAllString(stdout, "}")
		if want = cmp.Or(want, got); status != 0 || got != want || strings.Count(got, "\n") != 2*7 {
			t.Errorf("status %d, stderr %q; with GOMAXPROCS = %d, the rows differ (-want +got):\n%s", status, stderr, procs, gocmp.Diff(want, got))
		}
	}
}

func TestDivergenceReturnsStatus1(t *testing.T) {
	stdout, stderr, status := gaussianCommand(t.Context(), append(quick, "-d", "2", "-methods", "vb,hvae-k1", "-lr", "1e5")...)
	if status != 1 || strings.Contains(stdout, "NaN") || !strings.Contains(stderr, "diverged after") {
		t.Errorf("status %d, stdout %q, stderr %q; want status 1 and an error with the iteration", status, stdout, stderr)
	}
}

// If the program cannot print the first row, or is interrupted after printing it, it must end all runs and write no
// figures.
func TestNoFiguresAfterAnInterruptOrAWriteError(t *testing.T) {
	for _, c := range []struct {
		args      string
		interrupt bool
		err       error
		status    int
		stderr    string
	}{
		{"-d 1,100000 -methods vb -n 2 -datasets 1 -iters 3000", false, errors.New("disk full"), 1, "gaussian: disk full\n"},
		{"-d 1,100000 -methods vb -n 2 -datasets 1 -iters 3000", true, nil, 130, "the completed rows were printed; no files were written"},
		{"-two-modes", true, nil, 130, "the completed rows were printed; no files were written"},
	} {
		folder, ctx, stdout := t.TempDir(), t.Context(), &countingWriter{err: c.err}
		if c.interrupt {
			ctx, stdout.then = context.WithCancel(ctx)
		}
		var stderr bytes.Buffer
		status := program.Run(ctx, append(strings.Fields(c.args), "-json", "-out", folder), stdout, &stderr)
		if status != c.status || !strings.Contains(stderr.String(), c.stderr) || stdout.writes != 1 || len(files(t, folder)) > 0 {
			t.Errorf("%s: status %d, %d rows, stderr %q, files %v; want status %d, one row, %q and no files", c.args, status, stdout.writes, stderr.String(), names(files(t, folder)), c.status, c.stderr)
		}
	}
}

// The program must end soon after an interrupt, even while it generates large datasets.
func TestInterruptWhileDatasetsAreDrawn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	_, stderr, status := gaussianCommand(ctx, "-n", "1000000", "-d", "100000", "-methods", "vb")
	if elapsed := time.Since(start); status != 130 || elapsed > time.Minute {
		t.Errorf("status %d after %v, stderr %q; want status 130 after at most a few dimensions", status, elapsed, stderr)
	}
}

// A countingWriter counts calls to Write. Write also calls the function in its field "then", unless the field is nil,
// and returns err.
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
	f.Add("-n", "2")
	f.Add("-http", ":0")
	f.Fuzz(func(t *testing.T, flag, value string) {
		o, err := parse([]string{flag, value})
		if err != nil {
			return
		}
		valid := len(o.methods) > 0 && o.datasets > 0 && o.config.Points > 1 && o.config.Iterations > 0 && o.config.Draws > 0
		if !valid || !(o.config.Rate > 0) || slices.Min(o.dims) < 1 || slices.Max(o.dims) > 100_000 {
			t.Errorf("parse accepts %q %q and returns the invalid options %+v", flag, value, o)
		}
	})
}
