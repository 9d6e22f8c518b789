package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/filelock"
	"hvae/mnist/model"
)

// A trigger is a writer that calls the function do once, when the program has printed the given text.
type trigger struct {
	bytes.Buffer
	text string
	do   func()
	once sync.Once
}

func (w *trigger) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if strings.Contains(w.String(), w.text) {
		w.once.Do(w.do)
	}
	return n, err
}

// cancelled runs the program and cancels its context when it prints the given text on stdout or stderr, or before it
// starts if text is "". The program must exit with status 130.
func cancelled(t *testing.T, text string, args ...string) (stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if text == "" {
		cancel()
	}
	out, err := &trigger{text: text, do: cancel}, &trigger{text: text, do: cancel}
	if status := program.Run(ctx, args, out, err); status != 130 {
		t.Fatalf("%v, cancelled at %q: status %d, %s", args, text, status, err)
	}
	return err.String()
}

// folderOf opens the folder of a run or table.
func folderOf(t *testing.T, folder string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(folder)
	noError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

// A run is interrupted in its first two epochs, killed in its third and resumed each time. Each time, it must repeat
// only the interrupted epoch. In the end, its files must equal the files of an uninterrupted run.
func TestAnInterruptedRunIsBitIdentical(t *testing.T) {
	whole, parts := t.TempDir(), t.TempDir()
	mustRun(t, tiny(whole, "-epochs", "4")...)
	if stderr, want := cancelled(t, "", tiny(parts, "-epochs", "4")...), " in epoch 1, which will start again; the state is saved in "+parts+"; continue with -resume\n"; !strings.HasSuffix(stderr, want) {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
	if stderr := cancelled(t, "epoch 1 ", resume(parts)...); !strings.Contains(stderr, " in epoch 2,") {
		t.Errorf("stderr %q, want an interruption in epoch 2", stderr)
	}
	write(t, []byte("half"), parts, ".tmp") // as if the process had been killed during a write
	c := process(resume(parts)...)
	stdout, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	noError(t, err)
	line := make([]byte, len("epoch 2"))
	if _, err := io.ReadFull(stdout, line); err != nil || string(line) != "epoch 2" {
		t.Errorf("the resumed process begins with %q (%v), want epoch 2", line, err)
	}
	c.Process.Kill()
	c.Wait()
	mustRun(t, resume(parts)...)
	sameFiles(t, "interrupted and killed", whole, parts)
}

// During a run, other processes must not be able to use its folder. If the folder is moved, the run must continue in it
// and write nothing to a new folder at the old path.
func TestARunLocksAndFollowsItsFolder(t *testing.T) {
	whole, parent := t.TempDir(), t.TempDir()
	dir, moved := filepath.Join(parent, "run"), filepath.Join(parent, "moved")
	mustRun(t, tiny(whole, "-epochs", "3")...)
	for _, epochs := range []string{"1", "3"} { // a new run and a resumed run
		during := &trigger{text: "epoch ", do: func() {
			for _, args := range [][]string{resume(dir), tiny(dir)} {
				if _, stderr, status := mnist(t.Context(), args...); status != 1 || stderr != "mnist train: the run in "+dir+" is in use by another process\n" {
					t.Errorf("a second process: status %d, stderr %q", status, stderr)
				}
			}
			if epochs == "3" {
				if err := errors.Join(os.Rename(dir, moved), os.Mkdir(dir, 0o755)); err != nil {
					t.Error(err)
				}
				write(t, []byte("other"), dir, stateFile)
			}
		}}
		args := tiny(dir, "-epochs", epochs)
		if epochs == "3" {
			args = append(args, "-resume")
		}
		var stderr strings.Builder
		if status := program.Run(t.Context(), args, during, &stderr); status != 0 {
			t.Fatal(stderr.String())
		}
	}
	sameFiles(t, "moved during the run", whole, moved)
	if diff := cmp.Diff(map[string]string{stateFile: "other"}, contents(t, dir)); diff != "" {
		t.Errorf("the run wrote to a folder that replaced its folder: %s", diff)
	}
	if filelock.Held(folderOf(t, moved), lockFile) {
		t.Error("the run has ended, but its folder is still locked")
	}
}

func TestANewRunKeepsExistingFiles(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, tiny(dir)...)
	write(t, []byte("{}"), dir, evaluationFile)
	for _, name := range []string{modelFile, stateFile, metricsFile, curveFile, samplesFile, evaluationFile} {
		one := copyFiles(t, dir, name)
		refused(t, one, tiny(one), one+" already contains "+name)
	}
}

// If writing a file fails, a resumed run must write the same files as a run in which no write has failed.
func TestAFailedWriteLosesNothing(t *testing.T) {
	whole := t.TempDir()
	mustRun(t, tiny(whole, "-epochs", "3")...)
	for _, file := range []string{stateFile, metricsFile, curveFile, modelFile, samplesFile} {
		dir := t.TempDir()
		block := &trigger{text: "epoch 1 ", do: func() { // a file cannot replace a folder
			if err := errors.Join(os.Rename(filepath.Join(dir, file), filepath.Join(dir, "kept")), os.Mkdir(filepath.Join(dir, file), 0o755)); err != nil {
				t.Error(err)
			}
		}}
		var stderr strings.Builder
		if status := program.Run(t.Context(), tiny(dir, "-epochs", "3"), block, &stderr); status != 1 || !strings.Contains(stderr.String(), filepath.Join(dir, file)+" is not a regular file") {
			t.Errorf("if %s cannot be written: status %d, %s", file, status, stderr.String())
		}
		noError(t, errors.Join(os.Remove(filepath.Join(dir, file)), os.Rename(filepath.Join(dir, "kept"), filepath.Join(dir, file))))
		mustRun(t, resume(dir)...)
		sameFiles(t, "resumed after a failed write of "+file, whole, dir)
	}
}

func TestTheStateSufficesForAResume(t *testing.T) {
	dir := t.TempDir()
	// With a large learning rate, later epochs are worse, so the best and the last weights differ.
	mustRun(t, tiny(dir)...)
	mustRun(t, tiny(dir, "-epochs", "3", "-resume", "-lr", "0.03")...)
	alone := copyFiles(t, dir, stateFile)
	if stdout, _ := mustRun(t, resume(alone)...); !strings.HasSuffix(stdout, " after epoch 1; the model is "+filepath.Join(alone, modelFile)+"\n") {
		t.Errorf("the resumed run prints %q", stdout)
	}
	sameFiles(t, "resumed from the state alone", dir, alone)
}

func TestAStateOfAnotherRunIsRefused(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	mustRun(t, tiny(dir, "-epochs", "2")...)
	mustRun(t, tiny(other, "-epochs", "3", "-seed", "2")...)
	older, mixed := copyFiles(t, dir, metricsFile, modelFile), copyFiles(t, dir, modelFile)
	for _, folder := range []string{older, mixed} {
		write(t, read(t, other, stateFile), folder, stateFile)
	}
	refused(t, older, resume(older), metricsFile, " is not from the same run as "+stateFile)
	refused(t, mixed, resume(mixed, "-epochs", "9"), modelFile, "is not from the same run as "+stateFile)
	// A state that is older than the metrics must be refused, because a run that resumes from it would lose epochs.
	first := t.TempDir()
	mustRun(t, tiny(first)...)
	state := read(t, first, stateFile)
	mustRun(t, resume(first, "-epochs", "2")...)
	write(t, state, first, stateFile)
	refused(t, first, resume(first), "is not from the same run as "+stateFile)
}

// The program must refuse a damaged file and change nothing.
func TestADamagedFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, tiny(dir)...)
	for name, args := range map[string][]string{
		stateFile:   resume(dir, "-epochs", "2"),
		modelFile:   resume(dir, "-epochs", "2"),
		metricsFile: resume(dir, "-epochs", "2"),
	} {
		whole := read(t, dir, name)
		for i, damaged := range [][]byte{nil, whole[:len(whole)/2], append(bytes.Clone(whole), 'x'), flipped(whole, len(whole)/2), flipped(whole, len(whole)-9)} {
			if name == metricsFile && i < 2 {
				continue // truncated metrics are written again
			}
			write(t, damaged, dir, name)
			refused(t, dir, args, name)
		}
		write(t, whole, dir, name)
	}
	mustRun(t, resume(dir, "-epochs", "2")...)
}

// flipped returns b with one bit flipped.
func flipped(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 1
	return b
}

func TestAResumeKeepsTheSettings(t *testing.T) {
	first, dir := t.TempDir(), t.TempDir()
	mustRun(t, tiny(first)...)
	start := filepath.Join(first, modelFile)
	mustRun(t, tiny(dir, append(strings.Fields("-seed 5 -patience 7 -lr 2e-3 -recompute -model hvae -K 1 -tempering untied -vary-eps -draws 2 -importance -eps 0.1 -alpha 0.8 -epochs 1"), "-start", start)...)...)
	remove(t, start) // a resumed run uses the weights in its own state
	refused(t, dir, resume(dir, "-latent", "4", "-seed", "5", "-K", "2", "-batch", "24", "-lr", "1e-4"),
		"was started with K = 1, not 2; latent = 3, not 4; batch = 25, not 24, and these settings cannot be changed")
	refused(t, dir, resume(dir, "-data", "synthetic"), "the images differ from the dataset")
	mustRun(t, resume(dir, "-epochs", "2", "-patience", "3", "-recompute=false")...)
	mustRun(t, resume(dir)...) // with the new settings
	want := model.Defaults()
	want.Kind, want.K, want.Tempering, want.VaryEps, want.Latent = "hvae", 1, "untied", true, 3
	want.Draws, want.Importance, want.Eps, want.Alpha, want.Start = 2, true, 0.1, 0.8, start
	want.Epochs, want.Patience, want.Batch, want.Rate, want.Seed, want.Train, want.Data = 2, 3, 25, 0.002, 5, 75, few
	if diff := cmp.Diff(want, saved(t, dir).Settings); diff != "" {
		t.Errorf("the state contains other settings (-want +got):\n%s", diff)
	}
}

// A resumed run must find its images without -data, even if the working directory and $HVAE_MNIST have changed.
func TestAResumeRemembersItsImages(t *testing.T) {
	for _, more := range [][]string{{"-data", filepath.Base(few)}, {"-data", ""}} {
		dir := t.TempDir()
		t.Chdir(filepath.Dir(few))
		t.Setenv("HVAE_MNIST", filepath.Base(few))
		mustRun(t, tiny(dir, more...)...)
		t.Chdir(t.TempDir())
		t.Setenv("HVAE_MNIST", "nowhere")
		mustRun(t, resume(dir, "-epochs", "2")...)
	}
}

// With -start, training must start with the weights of a model. A learning rate of almost 0 keeps them unchanged.
func TestStartCopiesTheEncoderAndTheDecoder(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	mustRun(t, tiny(first)...)
	mustRun(t, tiny(second, append(hvaeFlags, "-lr", "1e-30", "-seed", "2", "-start", filepath.Join(first, modelFile))...)...)
	want, _ := tensors(t, first, modelFile)
	got, _ := tensors(t, second, modelFile)
	for name := range want {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("%s differs from the initial model", name)
		}
	}
	mustFail(t, 1, tiny(t.TempDir(), "-latent", "4", "-start", first), first+" has 3 latent dimensions, but the new model has 4")
}

func TestInvalidSettingsAndDataLeaveNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	for _, args := range [][]string{{"-data", "nowhere"}, {"-train", "1000"}, {"-lr", "-1"}, {"-resume"}} {
		if _, stderr, status := mnist(t.Context(), tiny(dir, args...)...); status == 0 || exists(dir) {
			t.Errorf("%v: status %d, %s; the folder exists: %v", args, status, stderr, exists(dir))
		}
	}
}

// If a resumed run changes the learning rate, the metrics must contain the rate of each later epoch.
func TestChangedLearningRatesAreRecorded(t *testing.T) {
	steady, changed := t.TempDir(), t.TempDir()
	mustRun(t, tiny(steady, "-epochs", "2")...)
	mustRun(t, tiny(changed)...)
	mustRun(t, resume(changed, "-lr", "1e-4")...) // trains no epoch
	mustRun(t, resume(changed, "-epochs", "2")...)
	mustRun(t, resume(changed, "-epochs", "3", "-lr", "1e-3")...)
	unchanged := metricsOf(t, steady)
	for i, m := range metricsOf(t, changed) {
		if rate := []float64{0, 1e-4, 1e-3}[i]; m["lr"] != rate || i < 2 && (m["train_elbo"] == unchanged[i]["train_elbo"]) != (i == 0) {
			t.Errorf("metrics %v, want the rate %v", m, rate)
		}
	}
	// After a run has diverged, it must be possible to resume it with a smaller learning rate.
	lost := t.TempDir()
	mustFail(t, 1, tiny(lost, "-lr", "1e20", "-epochs", "2"), "training diverged in epoch 1", "-resume and a smaller -lr")
	mustRun(t, resume(lost, "-lr", "1e-3")...)
	if m := metricsOf(t, lost)[1]; m["lr"] != 1e-3 || m["train_elbo"] != unchanged[1]["train_elbo"] {
		t.Errorf("metrics %v, want the metrics of a run with this rate, %v", m, unchanged[1])
	}
}

func TestTheEndOfTrainingIsExplained(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, tiny(dir)...)
	stdout, _ := mustRun(t, resume(dir, "-lr", "0.03", "-epochs", "50", "-patience", "1")...) // later epochs are worse
	more, _ := mustRun(t, resume(dir, "-epochs", "60")...)
	for _, text := range []string{stdout, more} {
		if !strings.Contains(text, "training has ended: the validation ELBO has not improved for 1 epochs (-patience)\nbest validation ELBO ") {
			t.Errorf("after early stopping, the program prints %q", text)
		}
	}
	if stdout, _ = mustRun(t, tiny(t.TempDir(), "-epochs", "2")...); !strings.Contains(stdout, "training has ended: all 2 epochs are done (-epochs)\n") {
		t.Errorf("after the last epoch, the program prints %q", stdout)
	}
}

// failing is a writer that always fails, as if the disk were full.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestARunSurvivesFailuresOfItsOutput(t *testing.T) {
	whole, parts, table := t.TempDir(), t.TempDir(), t.TempDir()
	mustRun(t, tiny(whole, "-epochs", "3")...)
	for _, args := range [][]string{tiny(parts, "-epochs", "3"), oneVAE(table)} {
		var stderr strings.Builder
		if status := program.Run(t.Context(), args, failing{}, &stderr); status != 0 {
			t.Errorf("with a full standard output, %s ends with status %d and prints %s", args[0], status, stderr.String())
		}
	}
	sameFiles(t, "with a full standard output", whole, parts)
	if runtime.GOOS == "windows" {
		return
	}
	broken := t.TempDir()
	c := process(tiny(broken, "-epochs", "3")...)
	stdout, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	noError(t, err)
	stdout.Close() // unless the program ignores it, SIGPIPE ends the process
	if err := c.Wait(); err != nil {
		t.Errorf("with a broken pipe, the process ends with %v", err)
	}
	sameFiles(t, "with a broken pipe", whole, broken)
}
