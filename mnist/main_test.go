package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/run"
)

// The files of a run and of a table.
const (
	modelFile      = "model.safetensors"
	stateFile      = "state.safetensors"
	metricsFile    = "metrics.jsonl"
	curveFile      = "curve.svg"
	samplesFile    = "samples.png"
	evaluationFile = "evaluation.json"
	lockFile       = ".lock"
	tableFile      = "table.json"
	figureFile     = "table1.svg"
)

// TestMain runs the program instead of the tests if MNIST_TEST_COMMAND is set, so that tests can
// kill it.
func TestMain(m *testing.M) {
	if os.Getenv("MNIST_TEST_COMMAND") != "" {
		if d, err := time.ParseDuration(os.Getenv("MNIST_TEST_SAVE_EVERY")); err == nil {
			run.SaveEvery = d
		}
		main()
	}
	status, err := 1, makeFew()
	if err == nil {
		status = m.Run()
	}
	if err := errors.Join(err, os.RemoveAll(few)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// few is a folder of synthetic digits, 120 for training, 24 for validation and 6 for testing.
// Most tests need no more.
var few string

func makeFew() error {
	set, err := data.Load(context.Background(), data.Synthetic, "", nil)
	if err == nil {
		few, err = os.MkdirTemp("", "mnist")
	}
	if err == nil {
		err = writeImages(few, set.Train.Pixels[:144*784], set.Test.Pixels[:6*784])
	}
	return err
}

// mnist runs the program and returns what it printed and its exit status.
func mnist(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = program.Run(ctx, args, &out, &err)
	return out.String(), err.String(), status
}

// tiny returns the arguments of a training run that takes 0.1 s.
func tiny(out string, more ...string) []string {
	return append([]string{"train", "-data", few, "-dataset", "few", "-latent", "3", "-train", "75", "-batch", "25", "-epochs", "1", "-out", out}, more...)
}

var hvaeFlags = []string{"-model", "hvae", "-K", "1", "-tempering", "free", "-vary-eps"}

// files returns the contents of a run's files without times and the lock, with hashes instead of
// tensors.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == lockFile {
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		data := ""
		if filepath.Ext(e.Name()) == ".safetensors" { // the length of the header depends on the times
			n := 8 + binary.LittleEndian.Uint64(b)
			data = fmt.Sprintf("%x", maphash.Bytes(digests, b[n:]))
			b = bytes.TrimRight(b[8:n], " ")
			if e.Name() == stateFile {
				b = digest.ReplaceAll(b, nil)
			}
		}
		all[e.Name()] = seconds.ReplaceAllString(string(b), "$1:0") + data
	}
	return all
}

var digests = maphash.MakeSeed()

// seconds matches times in JSON, also in JSON inside a JSON string.
var seconds = regexp.MustCompile(`([Ss]econds\\?"): ?[0-9.e+-]+`)

// digest matches the SHA-256 of a state, which depends on the times.
var digest = regexp.MustCompile(`"sha256":"[0-9a-f]{64}"`)

func mustTrain(t *testing.T, args ...string) {
	t.Helper()
	if _, stderr, status := mnist(t.Context(), args...); status != 0 {
		t.Fatalf("%v: status %d, %s", args, status, stderr)
	}
}

func TestBadInputIsOneClearLine(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("not a model"), 0o644); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(dir, "run")
	mustTrain(t, tiny(model, "-epochs", "1")...)
	checkpoint := filepath.Join(model, modelFile)
	stamps := func() map[string]time.Time {
		all := map[string]time.Time{}
		entries, err := os.ReadDir(model)
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				all[e.Name()] = info.ModTime()
			}
		}
		if err != nil || len(all) == 0 {
			t.Fatalf("the run has %d files, %v", len(all), err)
		}
		return all
	}
	before := stamps()
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"tain"}, 2, `unknown command "tain"`},
		{[]string{"train"}, 2, "-out is missing"},
		{[]string{"train", "-foo"}, 2, "-foo"},
		{[]string{"train", "now", "-out", dir}, 2, `stray argument "now"`},
		{tiny(dir, "-model", "gan"), 2, `unknown model "gan"`},
		{tiny(dir, "-model", "hvae", "-K", "2", "-tempering", "hot"), 2, `unknown tempering "hot"`},
		{tiny(dir, "-model", "hvae", "-K", "-1"), 2, `"-1" for flag -K`},
		{tiny(dir, "-model", "hvae"), 2, "-model hvae needs -K"},
		{tiny(dir, "-model", "hvae", "-K", "0"), 2, "-model hvae needs -K"},
		{[]string{"train", "-data", "synthetic", "-dataset", "own", "-out", dir}, 2, "-data synthetic is not the dataset own"},
		{tiny(dir, "-seed", "-1"), 2, "a seed is a whole number from 0"},
		{[]string{"train", "-data", "Synthetic", "-out", dir}, 1, "did you mean synthetic"},
		{[]string{"train", "-data", filepath.Join(dir, "typo"), "-out", dir}, 1, "there is no folder"},
		{[]string{"train", "-data", dir, "-dataset", "MNIST", "-out", dir}, 2, "did you mean mnist"},
		{tiny(dir, "-K", "3"), 2, "need the model hvae"},
		{tiny(dir, "-tempering", "free"), 2, "need the model hvae"},
		{tiny(dir, "-batch", "76"), 2, "only 75 images"},
		{tiny(dir, "-train", "121"), 2, "there are 120 training images"},
		{tiny(dir, "-K", "1.5"), 2, "from 0 to 10000 "},
		{tiny(dir, "-lr", "-1"), 2, "positive"},
		{tiny(dir, "-epochs", "0"), 2, "from 1"},
		{tiny(dir, "-resume"), 1, "nothing to resume: " + filepath.Join(dir, stateFile) + ": no such file"},
		{tiny(file), 1, "cannot create the folder " + file + ": not a directory; choose another"},
		{tiny(model, "-epochs", "1"), 1, "already contains a run"},
		{tiny(model, "-resume", "-batch", "10"), 1, "started with batch = 25, not 10"},
		{tiny(model, "-resume", "-seed", "2"), 1, "started with seed = 1, not 2"},
		{append(tiny(model, "-resume"), hvaeFlags...), 1, "was started with"},
		{[]string{"train", "-data", file, "-out", filepath.Join(dir, "x")}, 1, file},
		{[]string{"eval"}, 2, "-checkpoint is missing"},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", "Synthetic"}, 1, "did you mean synthetic"},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", filepath.Join(dir, "typo")}, 1, "there is no folder " + filepath.Join(dir, "typo")},
		{[]string{"eval", "-checkpoint", checkpoint, "-dataset", "own"}, 2, "requires -data"},
		{[]string{"eval", "-checkpoint", checkpoint, "-dataset", "a b"}, 2, "a name has"},
		{[]string{"eval", "-checkpoint", checkpoint, "-seed", "-1"}, 2, "a seed is a whole number from 0"},
		{[]string{"eval", "-checkpoint", model, "-data", "synthetic"}, 2, "name the file of a model, such as " + checkpoint},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", "s.jpg"}, 2, "must end in .png"},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", "-"}, 2, "cannot be written to standard output"},
		{[]string{"reconstruct", "-checkpoint", checkpoint, "-data", "synthetic", "-o", "s"}, 2, "must end in .png"},
		{[]string{"eval", "-checkpoint", os.DevNull, "-data", "synthetic"}, 1, "not a file"},
		{[]string{"eval", "-checkpoint", file, "-data", "synthetic"}, 1, file + " cannot be read: it is not a safetensors file"},
		{[]string{"eval", "-checkpoint", "nofile"}, 1, "mnist eval: nofile: no such file or directory"},
		{[]string{"eval", "-checkpoint", filepath.Join(model, stateFile), "-data", "synthetic"}, 1, `format is "hvae-mnist-state/2"`},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", few, "-dataset", "few", "-limit", "7"}, 2, "has 6 images"},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", "synthetic", "-split", "train"}, 2, `"train"`},
		{[]string{"eval", "-checkpoint", checkpoint, "-samples", "0"}, 2, "-samples"},
		{[]string{"sample", "-checkpoint", checkpoint}, 2, "-o is missing"},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", filepath.Join(file, "x.png")}, 1, "cannot write"},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", "x.png", "-n", "10001"}, 2, "from 1 to 10000"},
		{[]string{"reconstruct", "-checkpoint", filepath.Join(dir, "none"), "-o", "x.png"}, 1, "no such file"},
	} {
		stdout, stderr, status := mnist(t.Context(), c.args...)
		if status != c.status || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "mnist") || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want status %d and a line with %q", c.args, status, stdout, stderr, c.status, c.want)
		}
		if after := stamps(); !maps.Equal(after, before) {
			t.Errorf("%v wrote into the run's folder: before %v, now %v", c.args, before, after)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"help"}, {"help", "eval"}, {"train", "-h"}, {"eval", "-h"}, {"sample", "-h"}, {"reconstruct", "-h"}} {
		stdout, stderr, status := mnist(t.Context(), args...)
		if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "Usage: ") {
			t.Errorf("%v: status %d, stderr %q, stdout %q", args, status, stderr, stdout)
		}
	}
}

func TestAResumedRunKeepsItsBits(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"vae": nil, "hvae": hvaeFlags} {
		whole, parts := t.TempDir(), t.TempDir()
		mustTrain(t, tiny(whole, append(flags, "-epochs", "3")...)...)
		mustTrain(t, tiny(parts, append(flags, "-epochs", "1")...)...)
		mustTrain(t, tiny(parts, append(flags, "-epochs", "3", "-resume")...)...)
		if diff := cmp.Diff(files(t, whole), files(t, parts)); diff != "" {
			t.Errorf("%s: three epochs and one and two differ", name)
		}
	}
}

// An interruption is a context that ends after a number of calls of Err.
type interruption struct {
	context.Context
	after int
}

func (i *interruption) Err() error {
	if i.after--; i.after < 0 {
		return context.Canceled
	}
	return nil
}

func TestAnInterruptedRunKeepsItsBits(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	mustTrain(t, tiny(whole, "-epochs", "2")...)
	want := files(t, whole)
	status := 130
	after := 0 // the context is asked twice, before and after, for each batch and part of the validation
	for ; status != 0; after += 3 {
		parts := t.TempDir()
		var stderr string
		_, stderr, status = mnist(&interruption{t.Context(), after}, tiny(parts, "-epochs", "2")...)
		if status != 0 {
			if status != 130 || !strings.Contains(stderr, "state is saved in "+parts) || !strings.Contains(stderr, "-resume") {
				t.Fatalf("status %d, stderr %q", status, stderr)
			}
			if p := savedPosition(t, parts); !strings.Contains(stderr, fmt.Sprintf("after batch %d of epoch %d;", p.Batch, p.Epoch)) {
				t.Errorf("saved is batch %d of epoch %d, said is %q", p.Batch, p.Epoch, stderr)
			}
			mustTrain(t, tiny(parts, "-epochs", "2", "-resume")...)
		}
		if diff := cmp.Diff(want, files(t, parts)); diff != "" {
			t.Errorf("interrupted at point %d, a run ends differently", after)
		}
	}
	// Two epochs of three batches, and their validations.
	if points := after - 3; points < 2*(3+1) {
		t.Errorf("a run could be interrupted at %d points only", points)
	}
}

func TestAKilledRunKeepsItsBits(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	mustTrain(t, tiny(whole, "-epochs", "3")...)
	begin := func() (parts string) {
		parts = t.TempDir()
		left := filepath.Join(parts, "."+stateFile+"-123.tmp") // as of a kill in the middle of a write
		if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
		return parts
	}
	parts, kills := begin(), 0
	rng := rand.New(rand.NewPCG(1, 1))
	for patience := 20 * time.Millisecond; ; patience += patience / 3 { // until the slowest machine finishes
		args := tiny(parts, "-epochs", "3")
		if _, err := os.Stat(filepath.Join(parts, stateFile)); err == nil {
			args = append(args, "-resume")
		}
		c := exec.Command(os.Args[0], args...)
		c.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1", "MNIST_TEST_SAVE_EVERY=1ns")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(2*rng.Float64()*float64(patience)), func() { c.Process.Kill() })
		err := c.Wait()
		if alive := timer.Stop(); alive && err != nil {
			t.Fatalf("after %d kills: %v", kills, err)
		}
		if err != nil {
			kills++
			continue
		}
		if kills == 0 { // the wait was too long to kill the program
			parts, patience = begin(), patience/4
			continue
		}
		if diff := cmp.Diff(files(t, whole), files(t, parts)); diff != "" {
			t.Errorf("after %d kills the run ends differently", kills)
		}
		return
	}
}

func TestFilesDoNotDependOnCoresOrSIMD(t *testing.T) {
	t.Parallel()
	train := func(procs, simd string, more ...string) string {
		folder := t.TempDir()
		c := exec.Command(os.Args[0], tiny(folder, append(more, "-epochs", "1")...)...)
		c.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1", "GOMAXPROCS="+procs, "HVAE_SIMD="+simd)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return folder
	}
	want := train("1", "", hvaeFlags...)
	narrower := ""
	if name, _ := linalg.Vectors(); name == "avx512" {
		narrower = "avx2"
	}
	for _, c := range [][2]string{{"3", ""}, {"2", narrower}} {
		if diff := cmp.Diff(files(t, want), files(t, train(c[0], c[1], hvaeFlags...))); diff != "" {
			t.Errorf("GOMAXPROCS=%s HVAE_SIMD=%s changes bytes", c[0], c[1])
		}
	}
	// Plain Go does not fuse multiplications and additions and uses other polynomials, so the
	// ELBOs agree to float32's rounding of sums over pixels. (A VAE, because plain Go is slow.)
	elbos := func(folder string) (m run.Metrics) {
		line, err := os.ReadFile(filepath.Join(folder, metricsFile))
		if err != nil || json.Unmarshal(line, &m) != nil {
			t.Fatalf("metrics %q, %v", line, err)
		}
		return m
	}
	vectors, plain := elbos(train("2", "")), elbos(train("2", "none"))
	for _, d := range []float64{vectors.TrainELBO/plain.TrainELBO - 1, vectors.ValELBO/plain.ValELBO - 1} {
		if !(math.Abs(d) <= 1e-6) {
			t.Errorf("plain Go's ELBOs %v differ from %v", plain, vectors)
		}
	}
}

func TestADivergingRunKeepsItsStateAndNamesTheOperation(t *testing.T) {
	dir := t.TempDir()
	_, stderr, status := mnist(t.Context(), tiny(dir, "-lr", "1e20", "-epochs", "3")...)
	if status != 1 || !strings.Contains(stderr, "epoch 1, batch ") || !strings.Contains(stderr, "operation ad.") && !strings.Contains(stderr, "operation conv.") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, stateFile)); err != nil {
		t.Error(err)
	}
}

func TestAFailedWriteLosesNothing(t *testing.T) {
	dir := t.TempDir()
	mustTrain(t, tiny(dir, "-epochs", "1")...)
	before := files(t, dir)
	// A folder with the name of the metrics cannot be replaced with a file.
	if err := os.Remove(filepath.Join(dir, metricsFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, metricsFile), 0o755); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := mnist(t.Context(), tiny(dir, "-epochs", "2", "-resume")...)
	if status != 1 || !strings.Contains(stderr, metricsFile) {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	if err := os.Remove(filepath.Join(dir, metricsFile)); err != nil {
		t.Fatal(err)
	}
	mustTrain(t, tiny(dir, "-epochs", "1", "-resume")...) // writes the metrics again
	after := files(t, dir)
	if diff := cmp.Diff(before[metricsFile], after[metricsFile]); diff != "" || before[modelFile] != after[modelFile] {
		t.Errorf("something was lost: %s", diff)
	}
}

func TestNoGoroutinesLeak(t *testing.T) {
	dir := t.TempDir()
	work := func(n int) {
		mustTrain(t, tiny(filepath.Join(dir, fmt.Sprint(n)), append(hvaeFlags, "-epochs", "1")...)...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		mnist(ctx, tiny(filepath.Join(dir, fmt.Sprint(n)), append(hvaeFlags, "-epochs", "2", "-resume")...)...)
		if _, stderr, status := mnist(t.Context(), "eval", "-checkpoint", filepath.Join(dir, fmt.Sprint(n), modelFile), "-data", "synthetic", "-limit", "2", "-samples", "50", "-runs", "1"); status != 0 {
			t.Fatal(stderr)
		}
	}
	// The workers of linalg.For remain, and their number varies.
	others := func() (stacks []string) {
		all := make([]byte, 1<<20)
		all = all[:runtime.Stack(all, true)]
		for g := range strings.SplitSeq(string(all), "\n\n") {
			if !strings.Contains(g, "linalg.help()") {
				stacks = append(stacks, g)
			}
		}
		return stacks
	}
	before := len(others())
	for n := range 3 {
		work(n)
	}
	for wait := 0; len(others()) > before; wait++ {
		if wait == 10_000 {
			t.Fatalf("%d goroutines before, now\n%s", before, strings.Join(others(), "\n\n"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestTrainingStopsWhenPatienceEnds(t *testing.T) {
	// With a tiny learning rate, epochs differ in validation noise only, so patience soon ends.
	dir := t.TempDir()
	stdout, _, status := mnist(t.Context(), tiny(dir, "-lr", "1e-30", "-patience", "2", "-epochs", "50")...)
	var elbo []float64
	for _, m := range metricsOf(t, dir) {
		elbo = append(elbo, m["val_elbo"])
	}
	_, best := stopped(elbo, 2)
	if epochs, _ := stopped(append(slices.Clone(elbo), 0), 2); status != 0 || len(elbo) == 50 || epochs != len(elbo) ||
		!strings.Contains(stdout, fmt.Sprintf("after epoch %d;", best)) {
		t.Errorf("status %d, stdout %s", status, stdout)
	}
}
