package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/filelock"
	"hvae/linalg"
	"hvae/mnist/model"
	"hvae/mnist/run"
	"hvae/mnist/safetensors"
)

// refused runs the program, which must exit with status 1, print a line that contains all of want
// after any notes, and not change the folder.
func refused(t *testing.T, folder string, args []string, want ...string) {
	t.Helper()
	before := files(t, folder)
	stdout, stderr, status := mnist(t.Context(), args...)
	lines := slices.DeleteFunc(strings.SplitAfter(stderr, "\n"), func(line string) bool { return strings.HasPrefix(line, "note: ") })
	if status != 1 || stdout != "" || len(lines) != 2 || lines[1] != "" {
		t.Errorf("%v: status %d, stdout %q, stderr %q; want status 1 and one line", args, status, stdout, stderr)
	}
	for _, w := range want {
		if !strings.Contains(stderr, w) {
			t.Errorf("%v says %q, want %q in it", args, stderr, w)
		}
	}
	if diff := cmp.Diff(before, files(t, folder)); diff != "" {
		t.Errorf("%v changed the files in %s", args, folder)
	}
}

// copyFiles copies files of a run to a new folder.
func copyFiles(t *testing.T, from string, names ...string) (to string) {
	t.Helper()
	to = t.TempDir()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// metricsOf reads a run's metrics.
func metricsOf(t *testing.T, folder string) (all []map[string]float64) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, metricsFile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var m map[string]float64
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// A position is the position of a run as its state stores it.
type position struct {
	Epoch, Batch  int
	Sum, Seconds  float64
	Validated     int
	ValidationSum float64
	Metrics       []run.Metrics
	Rates         []newRate
}

type newRate struct {
	Epoch, Batch int
	Rate         float64
}

// kernels returns the kernels in use, as a state stores them.
func kernels() string {
	if name, _ := linalg.Vectors(); name == "none" {
		return "plain"
	}
	return "vector"
}

// savedPosition reads the position in a run's state.
func savedPosition(t *testing.T, folder string) (p position) {
	t.Helper()
	state, err := model.ReadState(filepath.Join(folder, stateFile))
	if err == nil {
		err = json.Unmarshal([]byte(state.Progress), &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestASecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	whole, shared := t.TempDir(), t.TempDir()
	first := exec.Command(os.Args[0], tiny(shared, "-epochs", "1000000", "-patience", "1000000")...)
	first.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		_, err := os.Stat(filepath.Join(shared, metricsFile))
		begun = err == nil
		select {
		case err := <-ended:
			t.Fatalf("the first process ended: %v", err)
		default:
		}
	}
	for _, more := range [][]string{{"-resume"}, {"-resume", "-lr", "1e-4"}} {
		stdout, stderr, status := mnist(t.Context(), tiny(shared, more...)...)
		if status != 1 || stdout != "" || stderr != "mnist train: the run in "+shared+" is in use by another process\n" {
			t.Errorf("a second process: status %d, %q, %q", status, stdout, stderr)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("the first process ended beside a second: %v", err)
	default:
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	// Its lock ended with it. The resumed run has the bits of an undisturbed run.
	epochs := []string{"-patience", "1000000", "-epochs", strconv.Itoa(len(metricsOf(t, shared)) + 2)}
	mustTrain(t, tiny(shared, append(epochs, "-resume")...)...)
	mustTrain(t, tiny(whole, epochs...)...)
	if diff := cmp.Diff(files(t, whole), files(t, shared)); diff != "" {
		t.Error("the first process's files differ from an undisturbed run's")
	}

	// A lock of any process protects the files.
	lock, err := filelock.Take(filepath.Join(shared, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shared, "."+stateFile+"-1.tmp"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, shared, tiny(shared, "-resume", "-lr", "1e-4"), "in use by another process")
	lock.Release()
}

func TestANewRunKeepsExistingFiles(t *testing.T) {
	dir := t.TempDir()
	mustTrain(t, tiny(dir, "-epochs", "1")...)
	if err := os.WriteFile(filepath.Join(dir, evaluationFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{modelFile, stateFile, metricsFile, curveFile, samplesFile, evaluationFile} {
		one := copyFiles(t, dir, name)
		want := "no state to resume from"
		if name == stateFile {
			want = "-resume"
		}
		refused(t, one, tiny(one, "-epochs", "1"), one, want)
	}
	others := t.TempDir()
	if err := os.WriteFile(filepath.Join(others, "notes.txt"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustTrain(t, tiny(others, "-epochs", "1")...)
	if b, err := os.ReadFile(filepath.Join(others, "notes.txt")); err != nil || string(b) != "mine" {
		t.Errorf("a file that is no run's is now %q, %v", b, err)
	}
}

func TestTheStateSufficesForAResume(t *testing.T) {
	dir := t.TempDir()
	// The last epochs are worse, so that the best and the last weights differ.
	mustTrain(t, tiny(dir, "-epochs", "1")...)
	mustTrain(t, tiny(dir, "-epochs", "4", "-resume", "-lr", "0.03")...)
	moved := copyFiles(t, dir, stateFile)
	stdout, stderr, status := mnist(t.Context(), "train", "-resume", "-out", moved)
	model := filepath.Join(moved, modelFile)
	if status != 0 || !strings.HasSuffix(stdout, "the model is "+model+"\n") {
		t.Fatalf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if diff := cmp.Diff(files(t, dir), files(t, moved)); diff != "" {
		t.Error("the files made from the state alone differ")
	}
	all := metricsOf(t, dir)
	best := slices.MaxFunc(all, func(a, b map[string]float64) int { return int(1e6 * (a["val_elbo"] - b["val_elbo"])) })
	if best["epoch"] == 4 || !strings.Contains(stdout, "after epoch 1;") {
		t.Errorf("the best epoch is not the first: %v, %s", all, stdout)
	}
}

func TestAResumeKeepsTheSettings(t *testing.T) {
	flags := append([]string{"-seed", "5", "-patience", "7", "-lr", "2e-3", "-recompute"}, hvaeFlags...)
	whole, parts := t.TempDir(), t.TempDir()
	mustTrain(t, tiny(whole, append(flags, "-epochs", "3")...)...)
	ended := &interruption{t.Context(), 4}
	if _, _, status := mnist(ended, tiny(parts, append(flags, "-epochs", "3")...)...); status != 130 {
		t.Fatalf("status %d", status)
	}
	mustTrain(t, "train", "-resume", "-out", parts)
	if diff := cmp.Diff(files(t, whole), files(t, parts)); diff != "" {
		t.Error("resumed by -resume alone, a run ends differently")
	}

	refused(t, parts, []string{"train", "-resume", "-out", parts, "-latent", "4", "-seed", "5", "-K", "2", "-model", "hvae", "-batch", "24", "-lr", "1e-4"},
		"K = 1, not 2", "batch = 25, not 24", "latent = 3, not 4")
	_, stderr, _ := mnist(t.Context(), "train", "-resume", "-out", parts, "-latent", "4", "-seed", "5", "-epochs", "9")
	if strings.Contains(stderr, "seed") || strings.Contains(stderr, "epochs") {
		t.Errorf("a flag that does not contradict the run is named: %s", stderr)
	}

	// Settings that may change do, and are stored.
	mustTrain(t, "train", "-resume", "-out", parts, "-epochs", "4", "-patience", "3", "-recompute=false")
	mustTrain(t, "train", "-resume", "-out", parts)
	state, err := model.ReadState(filepath.Join(parts, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	training, err := os.ReadFile(filepath.Join(few, trainFile))
	if err != nil {
		t.Fatal(err)
	}
	test, err := os.ReadFile(filepath.Join(few, testFile))
	if err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(append(training, test...)))
	want := map[string]string{"model": "hvae", "K": "1", "tempering": "free", "vary-eps": "true", "latent": "3", "epochs": "4", "patience": "3",
		"batch": "25", "lr": "0.002", "seed": "5", "train": "75", "data": few, "dataset": "few", "dataset_sha256": digest, "recompute": "false", "kernels": kernels()}
	if diff := cmp.Diff(want, state.Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestAChangedLearningRateIsRecorded(t *testing.T) {
	steady, changed := t.TempDir(), t.TempDir()
	mustTrain(t, tiny(steady, "-epochs", "4")...)
	mustTrain(t, tiny(changed, "-epochs", "2")...)
	mustTrain(t, "train", "-resume", "-out", changed, "-epochs", "3", "-lr", "1e-4")
	mustTrain(t, "train", "-resume", "-out", changed, "-epochs", "4")
	before, after := metricsOf(t, steady), metricsOf(t, changed)
	for i, m := range after {
		want := 0.0
		if i >= 2 {
			want = 1e-4
		}
		if m["lr"] != want || (m["train_elbo"] == before[i]["train_elbo"]) != (i < 2) {
			t.Errorf("metrics %v, those of an unchanged rate %v; want lr %v", m, before[i], want)
		}
	}
	state, err := model.ReadState(filepath.Join(changed, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	if state.Settings["lr"] != "0.0001" || !strings.Contains(state.Progress, `"Rates":[{"Epoch":3,"Batch":0,"Rate":0.0001}]`) {
		t.Errorf("lr = %s, progress %s", state.Settings["lr"], state.Progress)
	}

	// A run that diverged can be resumed.
	lost := t.TempDir()
	if _, stderr, status := mnist(t.Context(), tiny(lost, "-lr", "1e20", "-epochs", "2")...); status != 1 || !strings.Contains(stderr, "-resume and a smaller -lr") {
		t.Fatalf("status %d, %s", status, stderr)
	}
	mustTrain(t, "train", "-resume", "-out", lost, "-lr", "1e-3")
	for i, m := range metricsOf(t, lost) {
		if m["lr"] != 1e-3 || m["train_elbo"] != before[i]["train_elbo"] {
			t.Errorf("metrics %v, want those of a run with that rate, %v", m, before[i])
		}
	}
}

// A watcher is a context whose Err calls look.
type watcher struct {
	context.Context
	look func()
}

func (w *watcher) Err() error {
	w.look()
	return w.Context.Err()
}

func TestTheStateIsSavedWithinAnEpoch(t *testing.T) {
	defer func(d time.Duration) { run.SaveEvery = d }(run.SaveEvery)
	positions := func(every time.Duration) (seen [][2]int) {
		run.SaveEvery = every
		dir := t.TempDir()
		watch := &watcher{Context: t.Context(), look: func() {
			time.Sleep(2 * time.Millisecond)
			state, err := model.ReadState(filepath.Join(dir, stateFile))
			if err != nil {
				t.Fatal(err)
			}
			var p position
			if err := json.Unmarshal([]byte(state.Progress), &p); err != nil {
				t.Fatal(err)
			}
			if at := [2]int{p.Epoch, p.Batch}; !slices.Contains(seen, at) {
				seen = append(seen, at)
			}
		}}
		var out bytes.Buffer
		if status := program.Run(watch, tiny(dir, "-epochs", "2"), &out, &out); status != 0 {
			t.Fatal(out.String())
		}
		return seen
	}
	if got, want := positions(time.Millisecond), [][2]int{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0}, {2, 1}, {2, 2}, {2, 3}}; !cmp.Equal(got, want) {
		t.Errorf("states of epoch and batch %v, want %v", got, want)
	}
	if got, want := positions(time.Hour), [][2]int{{1, 0}, {2, 0}}; !cmp.Equal(got, want) {
		t.Errorf("states of epoch and batch %v, want %v", got, want)
	}
}

// flip flips a bit of a file.
func flip(t *testing.T, name string, bit int64) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[bit/8] ^= 1 << (bit % 8)
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	mustTrain(t, tiny(dir)...)
	state, checkpoint := filepath.Join(dir, stateFile), filepath.Join(dir, modelFile)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		for _, c := range []struct {
			file string
			args []string
		}{
			{state, []string{"train", "-resume", "-out", dir, "-epochs", "2"}},
			{checkpoint, []string{"eval", "-checkpoint", checkpoint, "-data", "synthetic", "-limit", "1", "-samples", "1"}},
		} {
			b, err := os.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			data := 8 + int64(binary.LittleEndian.Uint64(b))
			bit := 8*data + rng.Int64N(8*(int64(len(b))-data))
			flip(t, c.file, bit)
			refused(t, dir, c.args, c.file+" cannot be read: it is damaged: the SHA-256 of its contents is ")
			flip(t, c.file, bit)
		}
	}
	mustTrain(t, "train", "-resume", "-out", dir, "-epochs", "2")
}

// rewrite changes a run's state and removes its digest unless digest is true.
func rewrite(t *testing.T, folder string, digest bool, change func(f *safetensors.File, p *position)) {
	t.Helper()
	name := filepath.Join(folder, stateFile)
	f, err := safetensors.ReadFile(name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	p := savedPosition(t, folder)
	change(&f, &p)
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	f.Metadata["progress"] = string(b)
	if !digest {
		delete(f.Metadata, safetensors.DigestKey)
	}
	if err := os.WriteFile(name, f.Encode(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAContradictoryStateIsRefused(t *testing.T) {
	dir := t.TempDir()
	mustTrain(t, tiny(dir, "-epochs", "2")...)
	for _, change := range []func(p *position){
		func(p *position) { p.Epoch++ },
		func(p *position) { p.Batch = 4 },
		func(p *position) { p.Validated = 25 },
		func(p *position) { p.Validated = 1 },
		func(p *position) { p.Metrics[0].Epoch = 2 },
	} {
		one := copyFiles(t, dir, stateFile, modelFile)
		rewrite(t, one, true, func(_ *safetensors.File, p *position) { change(p) })
		refused(t, one, []string{"train", "-resume", "-out", one, "-epochs", "3"}, "its metadata contradicts itself: epoch ")
	}
}

// A state of an older version has no digest. It is resumed with a note.
func TestAStateWithoutADigestIsResumed(t *testing.T) {
	whole, old := t.TempDir(), t.TempDir()
	mustTrain(t, tiny(whole, "-epochs", "2")...)
	mustTrain(t, tiny(old)...)
	resume := func(dir string) []string { return []string{"train", "-resume", "-out", dir, "-epochs", "2"} }

	rewrite(t, old, false, func(*safetensors.File, *position) {})
	if _, stderr, status := mnist(t.Context(), resume(old)...); status != 0 || !strings.HasPrefix(stderr, "note: "+filepath.Join(old, stateFile)+" has no SHA-256") {
		t.Errorf("status %d, %s", status, stderr)
	}
	if diff := cmp.Diff(files(t, whole), files(t, old)); diff != "" {
		t.Error("resumed without a digest, the run ends differently")
	}
}

func TestAMovedFolderEndsTheRun(t *testing.T) {
	t.Parallel()
	whole, other, parent := t.TempDir(), t.TempDir(), t.TempDir()
	dir, old := filepath.Join(parent, "run"), filepath.Join(parent, "old")
	for _, replaced := range []bool{true, false} {
		first := exec.Command(os.Args[0], tiny(dir, "-epochs", "1000000", "-patience", "1000000")...)
		first.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1", "MNIST_TEST_SAVE_EVERY=1ns")
		stderr := new(strings.Builder)
		first.Stderr = stderr
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { first.Process.Kill() })
		for begun := false; !begun; time.Sleep(time.Millisecond) {
			_, err := os.Stat(filepath.Join(dir, metricsFile))
			begun = err == nil
		}
		if err := os.Rename(dir, old); err != nil {
			t.Skip("a folder with an open file cannot be moved here: ", err)
		}
		if replaced {
			mustTrain(t, tiny(dir, "-seed", "2", "-epochs", "2")...)
		}
		first.Wait()
		where := "wherever that folder is now"
		if runtime.GOOS == "linux" {
			where = old
		}
		if got := first.ProcessState.ExitCode(); got != 1 || !strings.HasSuffix(stderr.String(), dir+", or its .lock, was moved, replaced or removed during the run, and nothing more is written to it; the last saved state is in "+where+"\n") {
			t.Errorf("status %d, %s", got, stderr)
		}
		if replaced {
			mustTrain(t, tiny(other, "-seed", "2", "-epochs", "2")...)
			if diff := cmp.Diff(files(t, other), files(t, dir)); diff != "" {
				t.Error("the second run's files differ from the files of an undisturbed run")
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		} else if _, err := os.Stat(dir); err == nil {
			t.Error("the folder was made again")
		}
		if err := os.Rename(old, dir); err != nil {
			t.Fatal(err)
		}
		if !replaced {
			break
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	epochs := []string{"-patience", "1000000", "-epochs", strconv.Itoa(savedPosition(t, dir).Epoch + 1)}
	mustTrain(t, append([]string{"train", "-resume", "-out", dir}, epochs...)...)
	mustTrain(t, tiny(whole, epochs...)...)
	if diff := cmp.Diff(files(t, whole), files(t, dir)); diff != "" {
		t.Error("the run that was moved goes on differently")
	}
}

func TestAMovedTableIsNotRestarted(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	out, old := filepath.Join(parent, "table"), filepath.Join(parent, "old")
	c := exec.Command(os.Args[0], tinyTable(out, "-epochs", "1000000", "-patience", "1000000")...)
	c.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1")
	stderr := new(strings.Builder)
	c.Stderr = stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill() })
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		_, err := os.Stat(filepath.Join(out, tinyRuns[0], metricsFile))
		begun = err == nil
	}
	if err := os.Rename(out, old); err != nil {
		t.Skip("a folder with an open file cannot be moved here: ", err)
	}
	c.Wait()
	if _, err := os.Stat(out); c.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "the folder "+filepath.Join(out, tinyRuns[0])+", or its .lock, was moved") || err == nil {
		t.Errorf("status %d, %s; the folder: %v", c.ProcessState.ExitCode(), stderr, err)
	}
}

func TestOtherKernelsAreNotedAndOtherNamesAllowed(t *testing.T) {
	dir, again := t.TempDir(), t.TempDir()
	mustTrain(t, tiny(dir)...)
	mustTrain(t, tiny(again, "-epochs", "2")...)

	// The same images under another name are the same images.
	renamed := []string{"-data", few, "-dataset", "another"}
	_, stderr, status := mnist(t.Context(), append([]string{"eval", "-checkpoint", filepath.Join(dir, modelFile), "-limit", "1", "-samples", "1"}, renamed...)...)
	if status != 0 || stderr != "" {
		t.Errorf("status %d, %s", status, stderr)
	}
	mustTrain(t, append([]string{"train", "-resume", "-out", dir, "-epochs", "2"}, renamed...)...)
	if diff := cmp.Diff(files(t, again), files(t, dir)); diff != "" {
		t.Error("resumed with the data under another name, the run ends differently")
	}
	others := ownImages(t, 144, 1)
	refused(t, dir, []string{"train", "-resume", "-out", dir, "-data", others}, "other images called few")
	refused(t, dir, []string{"train", "-resume", "-out", dir, "-data", others, "-dataset", "another"}, "on the data few, not another")

	for _, c := range []struct{ was, want string }{{kernels(), ""}, {"other", "note: the run in " + dir + " was trained with the other kernels and continues with the " + kernels() + " ones (HVAE_SIMD)"}} {
		rewrite(t, dir, true, func(f *safetensors.File, _ *position) { f.Metadata["setting.kernels"] = c.was })
		if _, stderr, status := mnist(t.Context(), "train", "-resume", "-out", dir); status != 0 || !strings.HasPrefix(stderr, c.want) || (c.want == "") != (stderr == "") {
			t.Errorf("kernels %s: status %d, %q", c.was, status, stderr)
		}
	}
}
