package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/filelock"
	"hvae/mnist/run"
	"hvae/mnist/safetensors"
)

// These tests compare two ways to compute the same result: a new and a resumed run, a single
// command and a task of a table, a run with and without stops.

func TestAKillLosesAtMostTwoMinutes(t *testing.T) {
	if run.SaveEvery != 2*time.Minute {
		t.Errorf("the state is saved every %v, README.md promises two minutes", run.SaveEvery)
	}
}

// A folder is locked while a process trains or evaluates in it, whichever command started it.
func TestAFolderIsLockedDuringItsRun(t *testing.T) {
	out := t.TempDir()
	run, table := filepath.Join(out, "run"), filepath.Join(out, "table")
	task := func(more ...string) []string {
		return tinyTable(table, append([]string{"-rows", "vae", "-seeds", "1"}, more...)...)
	}
	for _, c := range []struct {
		what, folder string
		args         []string
	}{
		{"a new run", run, tiny(run, "-epochs", "2")},
		{"a resumed run", run, tiny(run, "-epochs", "4", "-resume")},
		{"a table", filepath.Join(table, "vae-1"), task()},
		{"a task that goes on", filepath.Join(table, "vae-1"), task("-task", "0", "-epochs", "3", "-extend")},
	} {
		epochs := func() int {
			b, _ := os.ReadFile(filepath.Join(c.folder, metricsFile))
			return strings.Count(string(b), "\n")
		}
		before, locked, open := epochs(), 0, 0
		watch := &watcher{Context: t.Context(), look: func() {
			held, err := filelock.Held(filepath.Join(c.folder, lockFile))
			if err != nil {
				t.Fatal(err)
			}
			if held {
				locked++
			} else if epochs() > before { // the run has begun
				open++
			}
		}}
		if _, stderr, status := mnist(watch, c.args...); status != 0 {
			t.Fatalf("%s: status %d, %s", c.what, status, stderr)
		}
		// Each of the three batches calls Err at least twice.
		if trained := epochs() - before; trained < 1 || locked < 6*trained || open > 1 {
			t.Errorf("%s trained %d epochs; its folder was seen locked %d times, open %d times", c.what, trained, locked, open)
		}
		if held, err := filelock.Held(filepath.Join(c.folder, lockFile)); held || err != nil {
			t.Errorf("%s has ended, and its folder is locked: %v", c.what, err)
		}
	}
}

// Validation processes 1,000 images at a time. A run that is stopped between two batches resumes
// with the second.
func TestAResumeWithinAValidationKeepsBits(t *testing.T) {
	t.Parallel()
	folder := ownImages(t, 6*1100+5, 1)
	train := func(out string, more ...string) []string {
		return append(strings.Fields("train -dataset own -latent 1 -train 10 -batch 10 -epochs 2 -data "+folder+" -out "+out), more...)
	}
	whole := t.TempDir()
	mustTrain(t, train(whole)...)
	want, within := files(t, whole), map[int]bool{}
	for after, status := 0, 130; status != 0; after++ {
		parts := t.TempDir()
		if _, _, status = mnist(&interruption{t.Context(), after}, train(parts)...); status == 0 {
			break
		}
		if p := savedPosition(t, parts); p.Validated == 0 || within[p.Epoch] {
			continue
		} else {
			within[p.Epoch] = true
		}
		mustTrain(t, train(parts, "-resume")...)
		if diff := cmp.Diff(want, files(t, parts)); diff != "" {
			t.Errorf("stopped at point %d, within a validation, a run ends differently", after)
		}
	}
	if len(within) != 2 {
		t.Errorf("the run was stopped within the validations of epochs %v, want 1 and 2", within)
	}
}

// Stopped anywhere, the evaluation of a table's run continues after its last saved evaluation. Its
// results equal the results of the command eval.
func TestAStoppedEvaluationContinues(t *testing.T) {
	out := t.TempDir()
	table := func(out string) []string { return tinyTable(out, "-rows", "vae", "-seeds", "1", "-runs", "3") }
	mustTable(t, table(out)...)
	want, stops := readEvaluation(t, out), map[int]bool{}
	line, _ := mustTable(t, "eval", "-checkpoint", filepath.Join(out, "vae-1", modelFile), "-data", few, "-dataset", "few", "-limit", "5", "-samples", "20", "-runs", "3", "-seed", "1", "-json")
	mean, sd := spreadOf(want.NLLs...)
	if e := objects(t, line)[0]; !isNumber(e["nll"], mean) || !isNumber(e["nll_sd"], sd) {
		t.Errorf("NLL %v ± %v, the command eval prints %v ± %v", mean, sd, e["nll"], e["nll_sd"])
	}
	if err := os.Remove(filepath.Join(out, "vae-1", evaluationFile)); err != nil {
		t.Fatal(err)
	}
	for after, status := 0, 130; status != 0; after++ {
		parts, stderr := t.TempDir(), ""
		if err := os.CopyFS(parts, os.DirFS(out)); err != nil {
			t.Fatal(err)
		}
		if _, stderr, status = mnist(&interruption{t.Context(), after}, table(parts)...); status == 0 {
			break
		}
		saved := 0
		if _, err := os.Stat(filepath.Join(parts, "vae-1", evaluationFile)); err == nil {
			saved = len(readEvaluation(t, parts).NLLs)
		}
		if stops[saved] {
			continue
		}
		stops[saved] = true
		if want := fmt.Sprintf("%d of 3 evaluations of vae-1 are saved in", saved); saved > 0 && !strings.Contains(stderr, want) {
			t.Errorf("stderr %q does not contain %q", stderr, want)
		}
		mustTable(t, table(parts)...)
		if diff := cmp.Diff(want, readEvaluation(t, parts)); diff != "" {
			t.Errorf("stopped after %d evaluations, the results differ:\n%s", saved, diff)
		}
	}
	if diff := cmp.Diff(map[int]bool{0: true, 1: true, 2: true}, stops); diff != "" {
		t.Errorf("numbers of saved evaluations at the stops (-want +got):\n%s", diff)
	}
}

// An evaluation is the part of evaluation.json that tests read and change.
type evaluation struct {
	Run      string            `json:"run"`
	Settings map[string]string `json:"settings"`
	Data     string            `json:"data"`
	Epoch    int               `json:"epoch"`
	ValELBO  float64           `json:"val_elbo"`
	Images   int               `json:"images"`
	Samples  int               `json:"samples"`
	Seed     uint64            `json:"seed"`
	ELBOs    []float64         `json:"elbos"`
	NLLs     []float64         `json:"nlls"`
}

// readEvaluation reads the evaluation of the run vae-1 of a table.
func readEvaluation(t *testing.T, out string) (e evaluation) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(out, "vae-1", evaluationFile))
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The learning rate of a run may change several times. A rate that trained no batch is not
// recorded.
func TestLearningRatesMayChangeOften(t *testing.T) {
	dir := t.TempDir()
	mustTrain(t, tiny(dir)...)
	for _, c := range []struct{ epochs, rate string }{{"2", "1e-4"}, {"2", "5e-4"}, {"3", "2e-4"}, {"4", "1e-3"}, {"9", "1e-3"}} {
		mustTrain(t, tiny(dir, "-resume", "-epochs", c.epochs, "-lr", c.rate)...)
	}
	want := []newRate{{2, 0, 1e-4}, {3, 0, 2e-4}, {4, 0, 1e-3}}
	if diff := cmp.Diff(want, savedPosition(t, dir).Rates); diff != "" {
		t.Errorf("learning rates (-want +got):\n%s", diff)
	}
	metrics := metricsOf(t, dir)
	if len(metrics) != 9 {
		t.Fatalf("metrics of %d epochs, want 9", len(metrics))
	}
	for i, m := range metrics {
		if rate := []float64{0, 1e-4, 2e-4, 1e-3}[min(i, 3)]; m["lr"] != rate || m["epoch"] != float64(i+1) {
			t.Errorf("the metrics of epoch %d are %v, want the rate %v", i+1, m, rate)
		}
	}
}

// A resume finds the images although -data was relative to another working directory.
func TestAResumeMayHaveAnotherWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(filepath.Dir(few))
	mustTrain(t, tiny(dir, "-data", filepath.Base(few))...)
	t.Chdir(t.TempDir())
	mustTrain(t, "train", "-resume", "-out", dir, "-epochs", "2")
}

// The optimiser's step count must match the position of the run.
func TestAStateWithAWrongStepCountIsRefused(t *testing.T) {
	dir := t.TempDir()
	mustTrain(t, tiny(dir, "-epochs", "4")...)
	name := filepath.Join(dir, stateFile)
	f, err := safetensors.ReadFile(name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f.Metadata["optimiser.step"] = "11" // of 12
	if err := os.WriteFile(name, f.Encode(), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, []string{"train", "-resume", "-out", dir, "-epochs", "5"}, "contradicts itself", "11 steps", "the run 12")
}

// An evaluation of other weights, with another epoch or validation ELBO, is replaced.
func TestAnEvaluationOfOtherWeightsIsReplaced(t *testing.T) {
	out := t.TempDir()
	table := tinyTable(out, "-rows", "vae", "-seeds", "1")
	mustTable(t, table...)
	want := readEvaluation(t, out)
	for _, change := range []func(e *evaluation){
		func(e *evaluation) { e.ValELBO++ },
		func(e *evaluation) { e.Epoch++ },
	} {
		wrong := want
		wrong.NLLs, wrong.ELBOs = []float64{1, 2}, []float64{-1, -2}
		change(&wrong)
		b, err := json.Marshal(wrong)
		if err == nil {
			err = os.WriteFile(filepath.Join(out, "vae-1", evaluationFile), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		mustTable(t, table...)
		if diff := cmp.Diff(want, readEvaluation(t, out)); diff != "" {
			t.Errorf("an evaluation of other weights was kept:\n%s", diff)
		}
	}
}
