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
	"hvae/mnist/safetensors"
)

// These tests reach the same place in two ways: with a new run and a resumed one, with a single
// command and a task of a table, undisturbed and after a stop at each point.

func TestAKillCostsAtMostTwoMinutes(t *testing.T) {
	if saveEvery != 2*time.Minute {
		t.Errorf("the state is saved every %v, README.md promises two minutes", saveEvery)
	}
}

// A folder must be locked as long as a process trains or evaluates in it, however it began.
func TestAFolderIsLockedWhileItsRunGoesOn(t *testing.T) {
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
			} else if epochs() > before { // it has begun
				open++
			}
		}}
		if _, stderr, status := mnist(watch, c.args...); status != 0 {
			t.Fatalf("%s: status %d, %s", c.what, status, stderr)
		}
		// The context is asked twice for each of three batches, at the least.
		if trained := epochs() - before; trained < 1 || locked < 6*trained || open > 1 {
			t.Errorf("%s trained %d epochs; its folder was seen locked %d times, open %d times", c.what, trained, locked, open)
		}
		if held, err := filelock.Held(filepath.Join(c.folder, lockFile)); held || err != nil {
			t.Errorf("%s has ended, and its folder is locked: %v", c.what, err)
		}
	}
}

// The validation of an epoch has parts of 1,000 images. A run that is stopped between two of
// them goes on with the second.
func TestARunStoppedWithinItsValidationGoesOn(t *testing.T) {
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

// An evaluation in three runs, with parts of two images, is that of the command eval, wherever it
// is stopped.
func TestAnEvaluationStoppedAnywhereGoesOn(t *testing.T) {
	defer func(n int) { evaluateAtOnce = n }(evaluateAtOnce)
	evaluateAtOnce = 2 // of 5
	out := t.TempDir()
	table := func(out string) []string { return tinyTable(out, "-rows", "vae", "-seeds", "1", "-runs", "3") }
	mustTable(t, table(out)...)
	evaluated := func(out string) (e evaluating) {
		b, err := os.ReadFile(filepath.Join(out, "vae-1", evaluationFile))
		if err == nil {
			err = json.Unmarshal(b, &e)
		}
		if err != nil {
			t.Fatal(err)
		}
		e.Seconds = 0
		return e
	}
	want, stops := evaluated(out), map[string]bool{}
	line, _ := mustTable(t, "eval", "-checkpoint", filepath.Join(out, "vae-1", modelFile), "-data", few, "-dataset", "few", "-limit", "5", "-samples", "20", "-runs", "3", "-seed", "1", "-json")
	mean, sd := spreadOf(want.NLLs...)
	if e := objects(t, line)[0]; !isNumber(e["nll"], mean) || !isNumber(e["nll_sd"], sd) {
		t.Errorf("NLL %v ± %v, the command eval says %v ± %v", mean, sd, e["nll"], e["nll_sd"])
	}
	if err := os.Remove(filepath.Join(out, "vae-1", evaluationFile)); err != nil {
		t.Fatal(err)
	}
	for after, status := 0, 130; status != 0; after++ {
		parts := t.TempDir()
		if err := os.CopyFS(parts, os.DirFS(out)); err != nil {
			t.Fatal(err)
		}
		if _, _, status = mnist(&interruption{t.Context(), after}, table(parts)...); status == 0 {
			break
		}
		if _, err := os.Stat(filepath.Join(parts, "vae-1", evaluationFile)); err != nil {
			continue // stopped before
		}
		e := evaluated(parts)
		stop := fmt.Sprint(len(e.NLLs), " runs and ", e.done()-5*len(e.NLLs), " images")
		if stops[stop] {
			continue
		}
		stops[stop] = true
		mustTable(t, table(parts)...)
		if diff := cmp.Diff(want, evaluated(parts)); diff != "" {
			t.Errorf("stopped after %s, the evaluation is another:\n%s", stop, diff)
		}
	}
	wanted := map[string]bool{}
	for runs := range 3 {
		for _, images := range []int{0, 2, 4} {
			wanted[fmt.Sprint(runs, " runs and ", images, " images")] = true
		}
	}
	if diff := cmp.Diff(wanted, stops); diff != "" {
		t.Errorf("the evaluation was stopped elsewhere (-want +got):\n%s", diff)
	}
}

// A run ends when patience has ended after its best epoch, whichever that is.
func TestTheBestEpochOfATablesRunMayBeAnyEpoch(t *testing.T) {
	const patience = 2
	table := table{out: t.TempDir(), data: few, dataset: "few", rows: []string{"vae"}, seeds: []uint64{1}, epochs: 100, patience: patience}
	k := table.plan()[0]
	name := filepath.Join(table.out, k.String(), metricsFile)
	if err := os.Mkdir(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	for best := 1; best <= 5; best++ {
		var lines string
		for epoch := 1; epoch <= best+patience; epoch++ {
			elbo := -10.0 + float64(epoch)
			if epoch > best {
				elbo = -10
			}
			lines += fmt.Sprintf(`{"epoch":%d,"train_elbo":-1,"val_elbo":%v,"seconds":1}`+"\n", epoch, elbo)
			if err := os.WriteFile(name, []byte(lines), 0o644); err != nil {
				t.Fatal(err)
			}
			s, err := table.status(k)
			if err != nil || s.best.Epoch != min(best, epoch) || s.trained != (epoch == best+patience) {
				t.Errorf("after epoch %d, the best of them %d, status says %d, trained %v, %v", epoch, min(best, epoch), s.best.Epoch, s.trained, err)
			}
		}
	}
}

// The learning rate of a run may change again and again; a rate that no batch was trained with
// is forgotten.
func TestLearningRatesMayChangeOften(t *testing.T) {
	run := t.TempDir()
	mustTrain(t, tiny(run)...)
	for _, c := range []struct{ epochs, rate string }{{"2", "1e-4"}, {"2", "5e-4"}, {"3", "2e-4"}, {"4", "1e-3"}, {"9", "1e-3"}} {
		mustTrain(t, tiny(run, "-resume", "-epochs", c.epochs, "-lr", c.rate)...)
	}
	want := []newRate{{2, 0, 1e-4}, {3, 0, 2e-4}, {4, 0, 1e-3}}
	if diff := cmp.Diff(want, savedPosition(t, run).Rates); diff != "" {
		t.Errorf("learning rates (-want +got):\n%s", diff)
	}
	metrics := metricsOf(t, run)
	if len(metrics) != 9 {
		t.Fatalf("metrics of %d epochs, want 9", len(metrics))
	}
	for i, m := range metrics {
		if rate := []float64{0, 1e-4, 2e-4, 1e-3}[min(i, 3)]; m["lr"] != rate || m["epoch"] != float64(i+1) {
			t.Errorf("the metrics of epoch %d are %v, want the rate %v", i+1, m, rate)
		}
	}
}

// A task is trained with the table's settings, whatever their size.
func TestATaskHasTheTablesSettings(t *testing.T) {
	for _, patience := range []int{1, 2, 500} {
		table := table{out: "out", data: "synthetic", rows: []string{"hvae-k5-free-varied"}, seeds: []uint64{7}, epochs: 1000 + patience, patience: patience, train: 10 * patience}
		k := table.plan()[0]
		s, err := table.settings(k)
		if err != nil || s.patience != patience || s.epochs != 1000+patience || s.train != 10*patience || s.seed != 7 || s.config != k.config || s.data != "synthetic" {
			t.Errorf("the settings are %+v, %v", s, err)
		}
	}
}

// A resume finds the images of a folder that was named relative to another working folder.
func TestARunIsResumedFromAnotherFolder(t *testing.T) {
	run := t.TempDir()
	t.Chdir(filepath.Dir(few))
	mustTrain(t, tiny(run, "-data", filepath.Base(few))...)
	t.Chdir(t.TempDir())
	mustTrain(t, "train", "-resume", "-out", run, "-epochs", "2")
}

// The optimiser's steps must be those of the epochs that are done, however many these are.
func TestAStateOfOtherStepsIsRefused(t *testing.T) {
	run := t.TempDir()
	mustTrain(t, tiny(run, "-epochs", "4")...)
	name := filepath.Join(run, stateFile)
	f, err := safetensors.ReadFile(name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f.Metadata["optimiser.step"] = "11" // of 12
	if err := os.WriteFile(name, f.Encode(), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, run, []string{"train", "-resume", "-out", run, "-epochs", "5"}, "contradicts itself", "11 steps", "the run 12")
}

// An evaluation is of weights, not of an epoch's number: that of an epoch 1 with another
// validation ELBO, as after a run was trained again, is made again.
func TestAnEvaluationOfOtherWeightsIsMadeAgain(t *testing.T) {
	out := t.TempDir()
	table := tinyTable(out, "-rows", "vae", "-seeds", "1")
	mustTable(t, table...)
	name := filepath.Join(out, "vae-1", evaluationFile)
	right, err := readEvaluation(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(e *evaluating){
		func(e *evaluating) { e.ValELBO++ },
		func(e *evaluating) { e.Epoch++ },
	} {
		wrong := *right
		wrong.NLLs, wrong.ELBOs = []float64{1, 2}, []float64{-1, -2}
		change(&wrong)
		b, err := json.Marshal(wrong)
		if err == nil {
			err = os.WriteFile(name, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		mustTable(t, table...)
		got, err := readEvaluation(name)
		if err != nil {
			t.Fatal(err)
		}
		got.Seconds = right.Seconds
		if diff := cmp.Diff(right, got); diff != "" {
			t.Errorf("an evaluation of other weights was kept:\n%s", diff)
		}
	}
}
