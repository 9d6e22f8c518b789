package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hvae/linalg"
)

// For invalid input, the program prints one line to stderr and changes no file of an existing run.
func TestInvalidInputIsReportedOnOneLine(t *testing.T) {
	dir := t.TempDir()
	file, model := filepath.Join(dir, "file"), filepath.Join(dir, "run")
	write(t, []byte("not a model"), file)
	mustRun(t, tiny(model)...)
	checkpoint := filepath.Join(model, modelFile)
	times := func() map[string]time.Time {
		all := map[string]time.Time{}
		entries, err := os.ReadDir(model)
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				all[e.Name()] = info.ModTime()
			}
		}
		if err != nil || len(all) == 0 {
			t.Fatalf("the folder of the run contains %d files, %v", len(all), err)
		}
		return all
	}
	before := times()
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"tain"}, 2, `unknown command "tain"`},
		{[]string{"train"}, 2, "-out is missing"},
		{[]string{"train", "-foo"}, 2, "-foo"},
		{[]string{"train", "now", "-out", dir}, 2, `unexpected argument "now"`},
		{tiny(dir, "-model", "gan"), 2, `unknown model "gan"`},
		{tiny(dir, "-model", "hvae", "-K", "2", "-tempering", "hot"), 2, `unknown tempering "hot"`},
		{tiny(dir, "-model", "hvae", "-K", "-1"), 2, `"-1" for flag -K`},
		{tiny(dir, "-seed", "-1"), 2, "for flag -seed"},
		{[]string{"train", "-data", "Synthetic", "-out", dir}, 1, "use -data synthetic"},
		{[]string{"train", "-data", filepath.Join(dir, "typo"), "-out", dir}, 1, "there is no folder"},
		{tiny(dir, "-K", "3"), 2, "the model must be hvae"},
		{tiny(dir, "-tempering", "free"), 2, "the model must be hvae"},
		{tiny(dir, "-train", "121"), 2, "there are 120 training images"},
		{tiny(dir, "-K", "1.5"), 2, "for flag -K"},
		{tiny(dir, "-lr", "-1"), 2, "positive"},
		{tiny(dir, "-epochs", "0"), 2, "from 1"},
		{tiny(dir, "-resume"), 1, "nothing to resume: " + filepath.Join(dir, stateFile) + ": no such file"},
		{tiny(file), 1, "cannot create the folder " + file + ": not a directory; choose another"},
		{tiny(model), 1, "already contains a run"},
		{tiny(model, "-resume", "-batch", "10", "-seed", "2"), 1, "started with batch = 25, not 10; seed = 1, not 2"},
		{append(tiny(model, "-resume"), hvaeFlags...), 1, "was started with"},
		{[]string{"train", "-data", file, "-out", filepath.Join(dir, "x")}, 1, file},
		{[]string{"eval"}, 2, "-checkpoint is missing"},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", "Synthetic"}, 1, "use -data synthetic"},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", filepath.Join(dir, "typo")}, 1, "there is no folder " + filepath.Join(dir, "typo")},
		{[]string{"eval", "-checkpoint", checkpoint, "-seed", "-1"}, 2, "for flag -seed"},
		{[]string{"eval", "-checkpoint", model, "-data", "synthetic"}, 1, model + " is a folder, not a file"},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", "s.jpg"}, 2, "must end in .png"},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", "-"}, 2, "must end in .png"},
		{[]string{"reconstruct", "-checkpoint", checkpoint, "-data", "synthetic", "-o", "s"}, 2, "must end in .png"},
		{[]string{"eval", "-checkpoint", os.DevNull, "-data", "synthetic"}, 1, "not a file"},
		{[]string{"eval", "-checkpoint", file, "-data", "synthetic"}, 1, file + " cannot be read: it is not a safetensors file"},
		{[]string{"eval", "-checkpoint", "nofile"}, 1, "mnist eval: nofile: no such file or directory"},
		{[]string{"eval", "-checkpoint", filepath.Join(model, stateFile), "-data", "synthetic"}, 1, `format is "hvae-mnist-state/2"`},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", few, "-limit", "7"}, 2, "there are 6 test images"},
		{[]string{"eval", "-checkpoint", checkpoint, "-samples", "0"}, 2, "-samples"},
		{[]string{"sample", "-checkpoint", checkpoint}, 2, "-o is missing"},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", filepath.Join(file, "x.png")}, 1, filepath.Join(file, "x.png") + ": "},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", "x.png", "-n", "10001"}, 2, "from 1 to 10000"},
		{[]string{"reconstruct", "-checkpoint", filepath.Join(dir, "none"), "-o", "x.png"}, 1, "no such file"},
	} {
		stdout, stderr, status := mnist(t.Context(), c.args...)
		if status != c.status || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "mnist") || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want status %d and a line with %q", c.args, status, stdout, stderr, c.status, c.want)
		}
		if after := times(); !maps.Equal(after, before) {
			t.Errorf("%v changed the folder of the run: its files had the times %v, now %v", c.args, before, after)
		}
	}
}

// The test reads the defaults from the help, because runs with defaults such as 2,000 epochs take too long.
func TestFlagsHaveTheirDefaults(t *testing.T) {
	for command, want := range map[string]map[string]string{
		"train":  {"model": `"vae"`, "tempering": `"none"`, "latent": "64", "epochs": "2000", "patience": "100", "batch": "100", "lr": "0.001", "seed": "1"},
		"eval":   {"samples": "1000", "runs": "3", "seed": "1"},
		"sample": {"n": "64", "seed": "1"}, "reconstruct": {"n": "24", "seed": "1"},
	} {
		help, _, _ := mnist(t.Context(), command, "-h")
		got := map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^  -(\S+).*\n(?:    \t.*\n)*?    \t.*\(default (\S+)\)$`).FindAllStringSubmatch(help, -1) {
			if _, ok := want[m[1]]; ok {
				got[m[1]] = m[2]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
}

// The run is interrupted at different points and resumed. Its files must equal the files of an
// uninterrupted run.
func TestAnInterruptedRunIsBitIdentical(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	mustRun(t, tiny(whole, "-epochs", "2")...)
	after, finished := 0, false // the context ends after this number of calls to Err; each batch calls Err at least twice
	for ; !finished; after += 3 {
		parts := t.TempDir()
		var stderr string
		if stderr, finished = interrupted(t, after, tiny(parts, "-epochs", "2")...); !finished {
			_, p := saved(t, parts)
			want := fmt.Sprintf(" after batch %d of epoch %d; the state is saved in %s; continue with -resume\n", p.Batch, p.Epoch, parts)
			if !strings.HasSuffix(stderr, want) {
				t.Fatalf("stderr %q, want %q", stderr, want)
			}
			mustRun(t, tiny(parts, "-epochs", "2", "-resume")...)
		}
		sameFiles(t, fmt.Sprintf("interrupted after %d calls of Err", after), whole, parts)
	}
	if calls := after - 3; calls < 2*2*3 { // two epochs of three batches
		t.Errorf("the run calls Err %d times, want at least 12", calls)
	}
}

func TestAKilledRunIsBitIdentical(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	mustRun(t, tiny(whole, "-epochs", "3")...)
	begin := func() (parts string) {
		parts = t.TempDir()
		write(t, []byte("half"), parts, "."+stateFile+"-123.tmp") // as if killed during a write
		return parts
	}
	parts, kills := begin(), 0
	rng := rand.New(rand.NewPCG(1, 1))
	for patience := 20 * time.Millisecond; ; patience += patience / 3 { // until the run finishes on the slowest machine
		args := tiny(parts, "-epochs", "3")
		if exists(parts, stateFile) {
			args = append(args, "-resume")
		}
		c := process(args...)
		c.Env = append(c.Env, "MNIST_TEST_SAVE_EVERY=1ns")
		start(t, c)
		timer := time.AfterFunc(time.Duration(2*rng.Float64()*float64(patience)), func() { c.Process.Kill() })
		err := c.Wait()
		if alive := timer.Stop(); alive && err != nil {
			t.Fatalf("after %d kills: %v", kills, err)
		}
		if err != nil {
			kills++
			continue
		}
		if kills == 0 { // the process ended before the kill
			parts, patience = begin(), patience/4
			continue
		}
		sameFiles(t, fmt.Sprintf("after %d kills", kills), whole, parts)
		return
	}
}

func TestFilesDoNotDependOnCoresOrVectorKernels(t *testing.T) {
	t.Parallel()
	train := func(procs, simd string, more ...string) string {
		folder := t.TempDir()
		c := process(tiny(folder, more...)...)
		c.Env = append(c.Env, "GOMAXPROCS="+procs, "HVAE_SIMD="+simd)
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
		sameFiles(t, fmt.Sprintf("GOMAXPROCS=%s HVAE_SIMD=%s", c[0], c[1]), want, train(c[0], c[1], hvaeFlags...))
	}
	// Plain Go kernels use package math instead of float32 polynomials and do not fuse multiplications and
	// additions. The ELBOs of plain and vector kernels therefore agree only up to the float32 rounding of
	// sums over pixels.
	vectors, plain := metricsOf(t, train("2", ""))[0], metricsOf(t, train("2", "none"))[0]
	for _, key := range []string{"train_elbo", "val_elbo"} {
		if !near(plain[key], vectors[key]) {
			t.Errorf("%s is %v with plain kernels and %v with vector kernels", key, plain[key], vectors[key])
		}
	}
}

func TestAFailedWriteLosesNothing(t *testing.T) {
	dir, whole := t.TempDir(), t.TempDir()
	mustRun(t, tiny(dir)...)
	mustRun(t, tiny(whole, "-epochs", "2")...)
	remove(t, dir, metricsFile)
	if err := os.Mkdir(filepath.Join(dir, metricsFile), 0o755); err != nil { // a file cannot replace a folder
		t.Fatal(err)
	}
	mustFail(t, 1, tiny(dir, "-epochs", "2", "-resume"), metricsFile+" is a folder")
	remove(t, dir, metricsFile)
	mustRun(t, tiny(dir, "-epochs", "2", "-resume")...)
	sameFiles(t, "resumed after a failed write", whole, dir)
}

func TestNoGoroutinesLeak(t *testing.T) {
	// others returns the stacks of all goroutines except the workers of linalg.For, which never end.
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
	for range 3 {
		dir := t.TempDir()
		mustRun(t, tiny(dir, hvaeFlags...)...)
		interrupted(t, 0, resume(dir, "-epochs", "2")...)
		mustRun(t, "eval", "-checkpoint", filepath.Join(dir, modelFile), "-data", "synthetic", "-limit", "2", "-samples", "50", "-runs", "1")
	}
	for wait := 0; len(others()) > before; wait++ {
		if wait == 10_000 {
			t.Fatalf("%d goroutines before, now\n%s", before, strings.Join(others(), "\n\n"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}
