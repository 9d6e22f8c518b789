package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/filelock"
)

// oneVAE returns the command-line arguments for a table with a single run, vae-1.
func oneVAE(out string, more ...string) []string {
	return tinyTable(out, append([]string{"-rows", "vae", "-seeds", "1", "-runs", "1"}, more...)...)
}

// The results in table.json must equal the output of eval, and the table command must print each of them once.
func TestTheTableMatchesEval(t *testing.T) {
	out := t.TempDir()
	printed, _ := mustRun(t, tinyTable(out, "-json")...)
	var table struct{ Rows, Results []map[string]any }
	if err := json.Unmarshal(read(t, out, tableFile), &table); err != nil || len(table.Rows) != 2 || len(table.Results) != 4 {
		t.Fatalf("table.json contains %d rows and %d results, want 2 and 4: %v", len(table.Rows), len(table.Results), err)
	}
	if diff := cmp.Diff(slices.Concat(table.Results, table.Rows), jsonLines[map[string]any](t, printed)); diff != "" {
		t.Errorf("with -json, the command prints other results than table.json (-want +got):\n%s", diff)
	}
	for i, o := range table.Results {
		stdout, _ := mustRun(t, tinyEval(filepath.Join(out, tinyRuns[i], modelFile), strings.Split(tinyRuns[i], "-")[strings.Count(tinyRuns[i], "-")])...)
		e := object(t, stdout)
		if o["run"] != tinyRuns[i] || o["nll"] != e["nll"] || o["nll_sd"] != e["nll_sd"] || o["elbo"] != e["elbo"] || o["elbo_sd"] != e["elbo_sd"] || o["epochs"] != 1.0 ||
			!(o["seconds"].(float64) > metricsOf(t, filepath.Join(out, tinyRuns[i]))[0]["seconds"]) {
			t.Errorf("the result is %v, want the run %s with the evaluation %v", o, tinyRuns[i], e)
		}
	}
	before := files(t, out)
	if _, stderr := mustRun(t, tinyTable(out)...); stderr != "" {
		t.Errorf("a finished table prints %s on stderr, want nothing", stderr)
	}
	// A table of fewer rows must replace the figures of all rows.
	write(t, []byte("hvae"), out, "budget.svg")
	mustRun(t, tinyTable(out, "-rows", "vae")...)
	for _, name := range []string{"table1.svg", "budget.svg"} {
		if !strings.Contains(before["table1.svg"], "hvae") || bytes.Contains(read(t, out, name), []byte("hvae")) {
			t.Errorf("a table with only the VAE has the %s of earlier rows", name)
		}
	}
	mustRun(t, tinyTable(out)...)
	if diff := cmp.Diff(before, files(t, out)); diff != "" {
		t.Errorf("after a table with fewer rows, the original command writes other files:\n%s", diff)
	}
}

// The files of a table must be the same whether it is computed by one command, by an interrupted command that
// is started again after its folder has moved, by two concurrent processes, or by one command per task.
func TestTheTableDoesNotDependOnProcesses(t *testing.T) {
	table := func(out string, more ...string) []string {
		return tinyTable(out, append([]string{"-seeds", "85547"}, more...)...)
	}
	whole, parent := t.TempDir(), t.TempDir()
	mustRun(t, table(whole)...)

	parts, moved := filepath.Join(parent, "table"), filepath.Join(parent, "moved")
	if stderr := cancelled(t, "training ", table(parts)...); !strings.Contains(stderr, "start the same command again") {
		t.Errorf("during training, the interrupted command prints %s", stderr)
	}
	if stderr := cancelled(t, "evaluating ", table(parts)...); !strings.Contains(stderr, "which is not saved") {
		t.Errorf("during an evaluation, the interrupted command prints %s", stderr)
	}
	move := &trigger{text: "evaluating ", do: func() {
		if err := errors.Join(os.Rename(parts, moved), os.Mkdir(parts, 0o755)); err != nil {
			t.Error(err)
		}
	}}
	if status := program.Run(t.Context(), table(parts), move, move); status != 0 {
		t.Fatal(move.String())
	}
	sameFiles(t, "interrupted and moved", whole, moved)
	if left := contents(t, parts); len(left) > 0 {
		t.Errorf("the table wrote %v into a folder that replaced its folder", left)
	}

	parts = t.TempDir()
	var both strings.Builder
	one, two := process(table(parts)...), process(table(parts)...)
	one.Stderr, two.Stderr = &both, &both
	if err := errors.Join(one.Start(), two.Start(), one.Wait(), two.Wait()); err != nil {
		t.Errorf("two processes end with the error %v and print %s", err, both.String())
	}
	for _, name := range tinyRuns[:2] {
		for _, activity := range []string{"training ", "evaluating "} {
			if n := strings.Count(both.String(), activity+name+","); n != 1 {
				t.Errorf("the processes print %s%s %d times, want once:\n%s", activity, name, n, both.String())
			}
		}
	}
	mustRun(t, table(parts)...) // the process that ended first may have written an incomplete table
	sameFiles(t, "made by two processes", whole, parts)

	parts = t.TempDir()
	mustRun(t, table(parts, "-task", "1")...)
	mustRun(t, table(parts, "-task", "0")...)
	mustRun(t, table(parts)...)
	sameFiles(t, "made by single tasks", whole, parts)
}

func TestATableWithAnotherProtocolIsRefused(t *testing.T) {
	out := t.TempDir()
	mustRun(t, oneVAE(out)...)
	for _, c := range [][]string{
		{"-epochs", "2", "max_epochs = 1, not 2"}, {"-patience", "3", "patience = 100, not 3"}, {"-train", "90", "train = 100, not 90"},
		{"-limit", "4", "images = 5, not 4"}, {"-samples", "11", "samples = 20, not 11"}, {"-runs", "2", "runs = 1, not 2"},
		{"-data", "synthetic", "not synthetic"},
	} {
		for _, more := range [][]string{nil, {"-list"}, {"-task", "0"}} {
			refused(t, out, oneVAE(out, append(more, c[:2]...)...), "the table in "+out+" was made with ", c[2])
		}
	}
	write(t, []byte("{"), out, tableFile)
	refused(t, out, oneVAE(out), tableFile+" is damaged: move it away")
	remove(t, out, tableFile)
	mustRun(t, oneVAE(out)...)
}

// A table must use runs of the train command with the same settings, and refuse runs with other settings.
func TestATableUsesExistingRuns(t *testing.T) {
	train := func(out string, more ...string) {
		mustRun(t, append([]string{"train", "-data", few, "-train", "100", "-seed", "1", "-epochs", "1", "-out", filepath.Join(out, "vae-1")}, more...)...)
	}
	whole, out := t.TempDir(), t.TempDir()
	mustRun(t, oneVAE(whole)...)
	train(out)
	mustRun(t, oneVAE(out)...)
	sameFiles(t, "trained by the train command", whole, out)

	// The table must not need these files of a finished run.
	for _, name := range []string{modelFile, stateFile, samplesFile, curveFile, lockFile} {
		remove(t, out, "vae-1", name)
	}
	before := files(t, out)
	stdout, stderr := mustRun(t, oneVAE(out)...)
	if stderr != "" || !strings.Contains(stdout, "1 of 1 runs are finished, each evaluated on 1 × 5 images of "+fewName(t)+" with 20 samples per image.\n") {
		t.Errorf("without weights, the table prints %s and on stderr %s", stdout, stderr)
	}
	if diff := cmp.Diff(before, files(t, out)); diff != "" {
		t.Errorf("the table changed a finished run:\n%s", diff)
	}
	for _, c := range [][]string{{"-batch", "50"}, {"-lr", "1e-4"}, {"-seed", "2"}, {"-epochs", "2"}} {
		other := t.TempDir()
		train(other, c...)
		kept := files(t, filepath.Join(other, "vae-1"))
		mustFail(t, 1, oneVAE(other), "vae-1: the run does not match this table: it was started with "+c[0][1:]+" = ", "1 of 1 runs failed: vae-1")
		if diff := cmp.Diff(kept, files(t, filepath.Join(other, "vae-1"))); diff != "" {
			t.Errorf("the table changed a run with %v", c)
		}
	}
}

// A damaged result must not be replaced. If the user moves it away, as the error advises, the run must be evaluated
// again.
func TestADamagedResultIsKept(t *testing.T) {
	out := t.TempDir()
	mustRun(t, oneVAE(out)...)
	before := files(t, out)
	for _, damaged := range []string{"[null]", "", strings.Replace(before[filepath.Join("vae-1", evaluationFile)], "nlls", "other", 1)} {
		write(t, []byte(damaged), out, "vae-1", evaluationFile)
		kept := files(t, filepath.Join(out, "vae-1"))
		mustFail(t, 1, oneVAE(out), evaluationFile+" is damaged, or does", "; move the file away to evaluate the run again from its "+stateFile, "1 of 1 runs failed: vae-1")
		if diff := cmp.Diff(kept, files(t, filepath.Join(out, "vae-1"))); diff != "" {
			t.Errorf("the table replaced files of a run with a damaged result:\n%s", diff)
		}
		remove(t, out, "vae-1", evaluationFile)
		mustRun(t, oneVAE(out)...)
		if diff := cmp.Diff(before, files(t, out)); diff != "" {
			t.Errorf("after the damaged result was moved away, the files differ:\n%s", diff)
		}
	}
}

func TestListAndTask(t *testing.T) {
	out := t.TempDir()
	stdout, stderr := mustRun(t, "table", "-data", "synthetic", "-out", filepath.Join(out, "none"), "-list", "-json", "-rows", "vae")
	if all := jsonLines[map[string]any](t, stdout); len(all) != 3 || all[2]["run"] != "vae-98765" || stderr != "" || exists(out, "none") {
		t.Errorf("-list prints %s, want the three published runs of the VAE", stdout)
	}
	list := func(want ...string) {
		t.Helper()
		var states []string
		stdout, _ := mustRun(t, tinyTable(out, "-list", "-json")...)
		for i, o := range jsonLines[map[string]any](t, stdout) {
			if o["run"] != tinyRuns[i] || o["task"] != float64(i) {
				t.Errorf("entry %d of the list is task %v, run %v", i, o["task"], o["run"])
			}
			states = append(states, o["state"].(string))
		}
		if !slices.Equal(states, want) {
			t.Errorf("the states are %v, want %v", states, want)
		}
	}
	list("open", "open", "open", "open")
	stdout, _ = mustRun(t, tinyTable(out, "-task", "1", "-json")...)
	if all := jsonLines[map[string]any](t, stdout); len(all) != 1 || all[0]["run"] != tinyRuns[1] || !(all[0]["nll"].(float64) > 0) {
		t.Errorf("-task 1 prints %s", stdout)
	}
	if stdout, _ = mustRun(t, tinyTable(out, "-task", "1")...); !strings.HasPrefix(stdout, "hvae-k1-none-85547  epochs 1  ELBO -") {
		t.Errorf("-task 1 of a finished run prints %q", stdout)
	}
	for _, task := range []string{"4", "-2", "x"} {
		mustFail(t, 2, tinyTable(out, "-task", task), "for flag -task: ")
	}
	// Run 0 is running, run 1 is done, run 2 was interrupted, and the result of run 3 is damaged.
	cancelled(t, "training ", tinyTable(out, "-task", "2")...)
	for _, i := range []int{0, 3} {
		noError(t, os.Mkdir(filepath.Join(out, tinyRuns[i]), 0o755))
	}
	lock, err := filelock.Take(folderOf(t, filepath.Join(out, tinyRuns[0])), lockFile)
	noError(t, err)
	defer lock.Close()
	write(t, []byte("{"), out, tinyRuns[3], evaluationFile)
	noError(t, os.Chmod(out, 0o500)) // -list needs no write permission
	defer os.Chmod(out, 0o700)
	list("running", "done", "open", "open")
	stdout, _ = mustRun(t, tinyTable(out, "-list")...)
	if !strings.Contains(stdout, evaluationFile+" is damaged") || !strings.HasSuffix(stdout, "\n4 runs: 1 done, 1 running, 2 open\n") {
		t.Errorf("-list prints %s", stdout)
	}
	mustFail(t, 1, tinyTable(out, "-task", "0"), "in use by another process")
}
