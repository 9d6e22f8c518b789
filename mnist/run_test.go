package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/filelock"
	"hvae/mnist/run"
	"hvae/mnist/safetensors"
)

// waitFor waits until a file exists.
func waitFor(name string) {
	for !exists(name) {
		time.Sleep(time.Millisecond)
	}
}

// A second process on the same run fails and does not disturb the first. After the first process is
// killed, the run can be resumed.
func TestASecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	whole, shared := t.TempDir(), t.TempDir()
	first := process(tiny(shared, forever...)...)
	start(t, first)
	waitFor(filepath.Join(shared, metricsFile))
	for _, more := range [][]string{{"-resume"}, {"-resume", "-lr", "1e-4"}} {
		stdout, stderr, status := mnist(t.Context(), tiny(shared, more...)...)
		if status != 1 || stdout != "" || stderr != "mnist train: the run in "+shared+" is in use by another process\n" {
			t.Errorf("a second process: status %d, stdout %q, stderr %q", status, stdout, stderr)
		}
	}
	first.Process.Kill()
	if first.Wait(); first.ProcessState.Exited() && runtime.GOOS != "windows" {
		t.Fatal("the first process ended before it was killed")
	}
	epochs := []string{"-patience", "1000000", "-epochs", strconv.Itoa(len(metricsOf(t, shared)) + 2)}
	mustRun(t, tiny(shared, append(epochs, "-resume")...)...)
	mustRun(t, tiny(whole, epochs...)...)
	sameFiles(t, "resumed after the kill", whole, shared)

	// A second process must not remove the temporary files of the first.
	lock, err := filelock.Take(filepath.Join(shared, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	write(t, []byte("half"), shared, "."+stateFile+"-1.tmp")
	refused(t, shared, tiny(shared, "-resume", "-lr", "1e-4"), "in use by another process")
}

// The commands train and table must lock a run's folder during training and evaluation.
func TestAFolderIsLockedDuringItsRun(t *testing.T) {
	out := t.TempDir()
	run, table := filepath.Join(out, "run"), filepath.Join(out, "table")
	for _, c := range []struct {
		name, folder string
		args         []string
	}{
		{"a new run", run, tiny(run, "-epochs", "2")},
		{"a resumed run", run, tiny(run, "-epochs", "4", "-resume")},
		{"a table", filepath.Join(table, "vae-1"), oneVAE(table)},
		{"an extended task", filepath.Join(table, "vae-1"), oneVAE(table, "-task", "0", "-epochs", "3", "-extend")},
	} {
		epochs := func() int {
			b, _ := os.ReadFile(filepath.Join(c.folder, metricsFile))
			return bytes.Count(b, []byte("\n"))
		}
		held := func() bool {
			held, err := filelock.Held(filepath.Join(c.folder, lockFile))
			if err != nil {
				t.Fatal(err)
			}
			return held
		}
		before, locked, open := epochs(), 0, 0
		watch := &watcher{t.Context(), func() {
			if held() {
				locked++
			} else if epochs() > before { // the run has begun
				open++
			}
		}}
		if _, stderr, status := mnist(watch, c.args...); status != 0 {
			t.Fatalf("%s: status %d, %s", c.name, status, stderr)
		}
		// An epoch has three batches, and the program calls Err at least twice in each batch.
		if trained := epochs() - before; trained < 1 || locked < 6*trained || open > 1 {
			t.Errorf("%s trained %d epochs; its folder was locked at %d calls of Err and unlocked at %d", c.name, trained, locked, open)
		}
		if held() {
			t.Errorf("%s has ended, but its folder is still locked", c.name)
		}
	}
}

func TestANewRunKeepsExistingFiles(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, tiny(dir)...)
	write(t, []byte("{}"), dir, evaluationFile)
	for _, name := range []string{modelFile, stateFile, metricsFile, curveFile, samplesFile, evaluationFile} {
		one := copyFiles(t, dir, name)
		want := "no state to resume from"
		if name == stateFile {
			want = "-resume"
		}
		refused(t, one, tiny(one), one, want)
	}
	others := t.TempDir()
	write(t, []byte("mine"), others, "notes.txt")
	mustRun(t, tiny(others)...)
	if b := read(t, others, "notes.txt"); string(b) != "mine" {
		t.Errorf("a file that does not belong to the run was changed to %q", b)
	}
}

func TestTheStateSufficesForAResume(t *testing.T) {
	dir := t.TempDir()
	// With a large learning rate, later epochs are worse, so the best and the last weights differ.
	mustRun(t, tiny(dir)...)
	mustRun(t, tiny(dir, "-epochs", "4", "-resume", "-lr", "0.03")...)
	moved := copyFiles(t, dir, stateFile)
	stdout, _ := mustRun(t, resume(moved)...)
	if !strings.HasSuffix(stdout, " after epoch 1; the model is "+filepath.Join(moved, modelFile)+"\n") {
		t.Errorf("the resumed run prints %q", stdout)
	}
	sameFiles(t, "resumed from the state alone", dir, moved)
	all := metricsOf(t, dir)
	best := slices.MaxFunc(all, func(a, b map[string]float64) int { return int(1e6 * (a["val_elbo"] - b["val_elbo"])) })
	if best["epoch"] != 1 {
		t.Errorf("the best epoch is not the first: %v", all)
	}
}

func TestAResumeKeepsTheSettings(t *testing.T) {
	flags := append([]string{"-seed", "5", "-patience", "7", "-lr", "2e-3", "-recompute"}, hvaeFlags...)
	whole, parts := t.TempDir(), t.TempDir()
	mustRun(t, tiny(whole, append(flags, "-epochs", "3")...)...)
	interrupted(t, 4, tiny(parts, append(flags, "-epochs", "3")...)...)
	mustRun(t, resume(parts)...)
	sameFiles(t, "resumed without other flags", whole, parts)

	refused(t, parts, resume(parts, "-latent", "4", "-seed", "5", "-K", "2", "-model", "hvae", "-batch", "24", "-lr", "1e-4"),
		"was started with K = 1, not 2; batch = 25, not 24; latent = 3, not 4, and these settings cannot be changed: resume it without these flags")

	// A resumed run may change the other settings. The state must contain the new values.
	mustRun(t, resume(parts, "-epochs", "4", "-patience", "3", "-recompute=false")...)
	mustRun(t, resume(parts)...)
	state, _ := saved(t, parts)
	digest := fmt.Sprintf("%x", sha256.Sum256(append(read(t, few, trainFile), read(t, few, testFile)...)))
	want := map[string]string{"model": "hvae", "K": "1", "tempering": "free", "vary-eps": "true", "latent": "3", "epochs": "4", "patience": "3",
		"batch": "25", "lr": "0.002", "seed": "5", "train": "75", "data": few, "dataset": fewName(t), "dataset_sha256": digest, "recompute": "false",
		"draws": "0", "importance": "false", "start": "", "eps": "0", "alpha": "0"}
	if diff := cmp.Diff(want, state.Settings); diff != "" {
		t.Errorf("the state contains other settings (-want +got):\n%s", diff)
	}
}

// A relative path in -data refers to the working directory in which the run was started.
func TestAResumeMayHaveAnotherWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(filepath.Dir(few))
	mustRun(t, tiny(dir, "-data", filepath.Base(few))...)
	t.Chdir(t.TempDir())
	mustRun(t, resume(dir, "-epochs", "2")...)
}

// If a resumed run changes the learning rate, the metrics must contain the rate of each later epoch.
func TestChangedLearningRatesAreRecorded(t *testing.T) {
	steady, changed := t.TempDir(), t.TempDir()
	mustRun(t, tiny(steady, "-epochs", "4")...)
	mustRun(t, tiny(changed)...)
	for _, c := range []struct{ epochs, rate string }{{"2", "1e-4"}, {"2", "5e-4"}, {"3", "2e-4"}, {"4", "1e-3"}} {
		mustRun(t, resume(changed, "-epochs", c.epochs, "-lr", c.rate)...)
	}
	mustRun(t, resume(changed, "-epochs", "9")...)
	metrics, unchanged := metricsOf(t, changed), metricsOf(t, steady)
	if len(metrics) != 9 {
		t.Fatalf("the run has metrics of %d epochs, want 9", len(metrics))
	}
	for i, m := range metrics {
		if rate := []float64{0, 1e-4, 2e-4, 1e-3}[min(i, 3)]; m["lr"] != rate || i < 4 && (m["train_elbo"] == unchanged[i]["train_elbo"]) != (i == 0) {
			t.Errorf("metrics %v, want the rate %v; the metrics of a run with a constant rate are %v", m, rate, unchanged[min(i, 3)])
		}
	}
	if state, p := saved(t, changed); !p.RateChanged || state.Settings["lr"] != "0.001" {
		t.Errorf("the state contains lr = %s and RateChanged = %v", state.Settings["lr"], p.RateChanged)
	}

	// A resumed run may change the rate within an epoch. The metrics must then contain the new rate.
	within := t.TempDir()
	interrupted(t, 5, tiny(within)...)
	_, p := saved(t, within)
	mustRun(t, resume(within, "-lr", "5e-4")...)
	if _, q := saved(t, within); p.Batch == 0 || !q.RateChanged || metricsOf(t, within)[0]["lr"] != 5e-4 {
		t.Errorf("the rate was changed after batch %d; RateChanged is %v and the metrics are %v", p.Batch, q.RateChanged, metricsOf(t, within))
	}

	// A run that has diverged can be resumed with a smaller rate.
	lost := t.TempDir()
	mustFail(t, 1, tiny(lost, "-lr", "1e20", "-epochs", "2"), "epoch 1, batch ", "operation ", "-resume and a smaller -lr")
	mustFail(t, 1, tiny(t.TempDir(), "-lr", "1e20", "-batch", "75"), "epoch 1: validation: the value of column ", "-resume and a smaller -lr")
	mustRun(t, resume(lost, "-lr", "1e-3")...)
	for i, m := range metricsOf(t, lost) {
		if m["lr"] != 1e-3 || m["train_elbo"] != unchanged[i]["train_elbo"] {
			t.Errorf("metrics %v, want the metrics of a run with this rate, %v", m, unchanged[i])
		}
	}
}

func TestTheStateIsSavedWithinAnEpoch(t *testing.T) {
	if run.SaveEvery != 2*time.Minute {
		t.Errorf("the state is saved every %v, but README.md promises two minutes", run.SaveEvery)
	}
	defer func(d time.Duration) { run.SaveEvery = d }(run.SaveEvery)
	for every, want := range map[time.Duration][][2]int{
		time.Millisecond: {{1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0}, {2, 1}, {2, 2}, {2, 3}},
		time.Hour:        {{1, 0}, {2, 0}},
	} {
		run.SaveEvery = every
		var got [][2]int // epochs and batches of the saved states
		dir := t.TempDir()
		watch := &watcher{t.Context(), func() {
			time.Sleep(2 * time.Millisecond)
			if _, p := saved(t, dir); !slices.Contains(got, [2]int{p.Epoch, p.Batch}) {
				got = append(got, [2]int{p.Epoch, p.Batch})
			}
		}}
		if _, stderr, status := mnist(watch, tiny(dir, "-epochs", "2")...); status != 0 {
			t.Fatal(stderr)
		}
		if !slices.Equal(got, want) {
			t.Errorf("SaveEvery = %v: the epochs and batches of the states are %v, want %v", every, got, want)
		}
	}
}

// The program must refuse a file if any bit of its tensors is flipped.
func TestADamagedFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, tiny(dir)...)
	checkpoint := filepath.Join(dir, modelFile)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		for name, args := range map[string][]string{
			filepath.Join(dir, stateFile): resume(dir, "-epochs", "2"),
			checkpoint:                    {"eval", "-checkpoint", checkpoint, "-data", "synthetic", "-limit", "1", "-samples", "1"},
		} {
			b := read(t, name)
			damaged := slices.Clone(b)
			header := 8 + int64(binary.LittleEndian.Uint64(b))
			damaged[header+rng.Int64N(int64(len(b))-header)] ^= 1 << rng.IntN(8)
			write(t, damaged, name)
			refused(t, dir, args, name+" cannot be read: it is damaged: the SHA-256 of its contents is ")
			write(t, b, name)
		}
	}
	mustRun(t, resume(dir, "-epochs", "2")...)
}

// States of older versions have no SHA-256.
func TestAStateWithoutADigestIsRefused(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, tiny(dir)...)
	rewrite(t, dir, func(f *safetensors.File, _ *position) { delete(f.Metadata, safetensors.DigestKey) })
	refused(t, dir, resume(dir, "-epochs", "2"), filepath.Join(dir, stateFile)+" has no SHA-256")
}

// A process must stop when the folder of its run is moved. In the first case, the folder of another run takes
// its place and must not change.
func TestAMovedFolderEndsTheRun(t *testing.T) {
	t.Parallel()
	whole, other, parent := t.TempDir(), t.TempDir(), t.TempDir()
	dir, old, replacement := filepath.Join(parent, "run"), filepath.Join(parent, "old"), filepath.Join(parent, "new")
	mustRun(t, tiny(other, "-seed", "2")...)
	if err := os.CopyFS(replacement, os.DirFS(other)); err != nil {
		t.Fatal(err)
	}
	for _, replaced := range []bool{true, false} {
		first := process(tiny(dir, forever...)...)
		first.Env = append(first.Env, "MNIST_TEST_SAVE_EVERY=1ns")
		stderr := start(t, first)
		defer time.AfterFunc(time.Minute, func() { first.Process.Kill() }).Stop()
		waitFor(filepath.Join(dir, metricsFile))
		move(t, dir, old)
		if replaced {
			move(t, replacement, dir)
		}
		first.Wait()
		if got := first.ProcessState.ExitCode(); got != 1 || !strings.HasSuffix(stderr.String(), dir+" or its file .lock was moved, replaced or removed during the run, and nothing more is written to it; resume the run at the folder's new path\n") {
			t.Errorf("the process of a moved run ends with status %d and prints %s", got, stderr)
		}
		if !replaced {
			break
		}
		sameFiles(t, "the run that replaced the moved one", other, dir)
		if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(old)); err != nil {
			t.Fatal(err)
		}
	}
	if exists(dir) {
		t.Error("the process created the moved folder again")
	}
	epochs := []string{"-patience", "1000000", "-epochs", strconv.Itoa(len(metricsOf(t, old)) + 2)}
	mustRun(t, resume(old, epochs...)...)
	mustRun(t, tiny(whole, epochs...)...)
	sameFiles(t, "resumed in the moved folder", whole, old)
}

func TestAMovedTableIsNotRestarted(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	out, old := filepath.Join(parent, "table"), filepath.Join(parent, "old")
	c := process(tinyTable(out, forever...)...)
	stderr := start(t, c)
	waitFor(filepath.Join(out, tinyRuns[0], metricsFile))
	move(t, out, old)
	c.Wait()
	if status := c.ProcessState.ExitCode(); status != 1 || !strings.Contains(stderr.String(), "the folder "+filepath.Join(out, tinyRuns[0])+" or its file .lock was moved") || exists(out) {
		t.Errorf("the process of a moved table ends with status %d and prints %s; it has created the table again: %v", status, stderr, exists(out))
	}
}

func TestAResumeRefusesOtherImages(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, tiny(dir)...)
	refused(t, dir, resume(dir, "-data", ownImages(t, 144, 1)), "the images differ from the dataset "+fewName(t))
}

// Validation images are processed in batches of 1,000. The run is interrupted between two batches.
func TestAResumeWithinAValidationIsBitIdentical(t *testing.T) {
	t.Parallel()
	folder := ownImages(t, 6*1100+5, 1)
	train := func(out string, more ...string) []string {
		return slices.Concat(strings.Fields("train -latent 1 -train 10 -batch 10 -epochs 2 -out "+out), []string{"-data", folder}, more)
	}
	whole := t.TempDir()
	mustRun(t, train(whole)...)
	want, within := files(t, whole), map[int]bool{}
	for after := 0; ; after++ {
		parts := t.TempDir()
		if _, finished := interrupted(t, after, train(parts)...); finished {
			break
		}
		_, p := saved(t, parts)
		if p.Validated == 0 || within[p.Epoch] {
			continue
		}
		within[p.Epoch] = true
		mustRun(t, train(parts, "-resume")...)
		if diff := cmp.Diff(want, files(t, parts)); diff != "" {
			t.Errorf("interrupted within the validation of epoch %d, the files differ:\n%s", p.Epoch, diff)
		}
	}
	if len(within) != 2 {
		t.Errorf("the run was interrupted within the validations of epochs %v, want 1 and 2", within)
	}
}

// The duration of an interrupted epoch is the sum of the durations before and after the interruption.
func TestSecondsAddUpOverAnInterruption(t *testing.T) {
	dir := t.TempDir()
	args := append(strings.Fields("train -latent 2 -train 26 -batch 2 -epochs 1 -out "+dir), "-data", ownImages(t, 31, 1))
	const pause = 20 * time.Millisecond
	slow := &watcher{&interruption{t.Context(), 12}, func() { time.Sleep(pause) }}
	began := time.Now()
	if _, _, status := mnist(slow, args...); status != 130 {
		t.Fatalf("the interrupted run ends with status %d, want 130", status)
	}
	_, before := saved(t, dir)
	least, most := 8*pause.Seconds(), time.Since(began).Seconds() // some calls to Err precede the first batch
	if !(before.Seconds >= least && before.Seconds <= most) {
		t.Errorf("the interrupted epoch has taken %v s, want %v to %v", before.Seconds, least, most)
	}
	began = time.Now()
	mustRun(t, append(args, "-resume")...)
	if s, most := metricsOf(t, dir)[0]["seconds"], before.Seconds+time.Since(began).Seconds(); !(s > before.Seconds && s <= most) {
		t.Errorf("according to the metrics, the epoch took %v s, want %v to %v", s, before.Seconds, most)
	}
}
