package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/filelock"
)

// oneVAE returns the arguments of a table with a single run, vae-1.
func oneVAE(out string, more ...string) []string {
	return tinyTable(out, append([]string{"-rows", "vae", "-seeds", "1", "-runs", "1"}, more...)...)
}

// All numbers of the table must follow from the output of eval and from the paper's numbers.
func TestTheTableMatchesIndependentNumbers(t *testing.T) {
	out := t.TempDir()
	printed, _ := mustRun(t, tinyTable(out)...)

	evaluations := map[string]map[string]float64{}
	for _, name := range tinyRuns {
		seed := name[strings.LastIndex(name, "-")+1:]
		stdout, _ := mustRun(t, tinyEval(filepath.Join(out, name, modelFile), seed)...)
		o, e := object(t, stdout), map[string]float64{}
		for _, key := range []string{"elbo", "elbo_sd", "nll", "nll_sd"} {
			e[key] = o[key].(float64)
		}
		evaluations[name] = e
	}

	// Compute the rows from the evaluations and from the paper's numbers.
	type sums struct{ nll, evaluation, seed, toVAE, toVAEError, elbo, epochs float64 }
	row := func(name string, other string) (s sums) {
		a, b := evaluations[name+"-85547"], evaluations[name+"-12345"]
		s.nll, s.seed = spread(a["nll"], b["nll"])
		s.evaluation = math.Sqrt((a["nll_sd"]*a["nll_sd"] + b["nll_sd"]*b["nll_sd"]) / 2)
		s.elbo, s.epochs = (a["elbo"]+b["elbo"])/2, 1
		s.toVAE, s.toVAEError = math.NaN(), math.NaN()
		if other != "" {
			mean, sd := spread(a["nll"]-evaluations[other+"-85547"]["nll"], b["nll"]-evaluations[other+"-12345"]["nll"])
			s.toVAE, s.toVAEError = mean, sd/math.Sqrt2
		}
		return s
	}
	vaeMean, vaeSD := spread(83.25, 83.19, 83.15)
	hvaeMean, hvaeSD := spread(83.29, 83.04)
	difference, differenceSD := spread(83.29-83.25, 83.04-83.15)
	want := map[string][2]sums{
		"vae": {{vaeMean, math.Sqrt((0.01*0.01 + 2*0.07*0.07) / 3), vaeSD, math.NaN(), math.NaN(), -(86.41 + 86.42 + 86.43) / 3, (1524 + 1301 + 1381) / 3.0}, row("vae", "")},
		"hvae-k1-none": {{hvaeMean, math.Sqrt((0.07*0.07 + 0.04*0.04) / 2), hvaeSD, difference, differenceSD / math.Sqrt2, -(86.43 + 86.21) / 2, (1374 + 1519) / 2.0},
			row("hvae-k1-none", "vae")},
	}
	check := func(where string, o map[string]any) {
		t.Helper()
		for i, key := range []string{"published", "obtained"} {
			got, w := o[key].(map[string]any), want[o["row"].(string)][i]
			for key, v := range map[string]float64{"nll": w.nll, "nll_sd_evaluations": w.evaluation, "nll_sd_seeds": w.seed,
				"to_vae": w.toVAE, "to_vae_se": w.toVAEError, "elbo": w.elbo, "epochs": w.epochs} {
				if !isNumber(got[key], v) {
					t.Errorf("%s, %s %s: %v, want %v", where, o["row"], key, got[key], v)
				}
			}
		}
	}
	var inFile struct {
		Rows, Results []map[string]any
	}
	if err := json.Unmarshal(read(t, out, tableFile), &inFile); err != nil || len(inFile.Rows) != 2 || len(inFile.Results) != 4 {
		t.Fatalf("table.json contains %d rows and %d results, want 2 and 4: %v", len(inFile.Rows), len(inFile.Results), err)
	}
	for _, o := range inFile.Rows {
		check("file", o)
	}
	for i, o := range inFile.Results {
		m, e := metricsOf(t, filepath.Join(out, tinyRuns[i])), evaluations[tinyRuns[i]]
		if o["run"] != tinyRuns[i] || !isNumber(o["nll"], e["nll"]) || !isNumber(o["nll_sd"], e["nll_sd"]) || !isNumber(o["elbo"], e["elbo"]) || !isNumber(o["elbo_sd"], e["elbo_sd"]) ||
			o["epochs"] != 1.0 || !(o["seconds"].(float64) > m[0]["seconds"]) {
			t.Errorf("the result is %v, want the run %s with the evaluation %v", o, tinyRuns[i], e)
		}
	}

	// For a finished table, the command must only print the rows.
	before := files(t, out)
	stdout, stderr := mustRun(t, tinyTable(out, "-json")...)
	rows := jsonLines[map[string]any](t, stdout)
	if len(rows) != 2 || stderr != "" {
		t.Errorf("a finished table with -json prints %s and on stderr %s, want two objects and nothing", stdout, stderr)
	}
	for _, o := range rows {
		check("JSON", o)
	}
	if diff := cmp.Diff(before, files(t, out)); diff != "" {
		t.Errorf("a second call changed the finished table: %s", diff)
	}

	// Check the table printed at the end. It rounds half away from zero: −0.035 to −0.04.
	tables := strings.Split(strings.TrimSpace(printed), "\n\n")
	if len(tables) != 2 || strings.Count(tables[0], "\n") != 3 || !strings.HasPrefix(tables[1], "NLL and ELBO in nats, published and obtained. 4 of 4 runs are finished. Each has 2 evaluations on 5 images of "+fewName(t)+" with 20 samples per image.\n") {
		t.Fatalf("the command prints %d paragraphs, want four results and the table; the last is\n%s", len(tables), tables[len(tables)-1])
	}
	lines := strings.Split(tables[1], "\n")[3:]
	for i, name := range []string{"vae", "hvae-k1-none"} {
		text := name
		for j, seeds := range []string{map[string]string{"vae": "3", "hvae-k1-none": "2"}[name], "2"} {
			o := inFile.Rows[i][[]string{"published", "obtained"}[j]].(map[string]any) // checked above
			cents := func(key string) float64 {
				return math.Round(o[key].(float64)*100+math.Copysign(1e-6, o[key].(float64))) / 100
			}
			minusVAE := "–"
			if name != "vae" {
				minusVAE = fmt.Sprintf("%+.2f ± %.2f", cents("to_vae"), o["to_vae_se"])
			}
			text += fmt.Sprintf(" %.2f %.2f %.2f %s %.2f %.0f %s", cents("nll"), o["nll_sd_evaluations"], o["nll_sd_seeds"], minusVAE, cents("elbo"), o["epochs"], seeds)
		}
		if got := strings.Join(strings.Fields(lines[i]), " "); got != text {
			t.Errorf("the table contains\n%s\nwant\n%s", got, text)
		}
	}

	// Figures of earlier rows must not remain beside a table of other rows.
	mustRun(t, tinyTable(out, "-rows", "vae")...)
	if exists(out, figureFile) || exists(out, "budget.svg") {
		t.Error("a table with only the VAE has the figures of earlier rows")
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
	if stderr := cancelled(t, "evaluating ", table(parts)...); !strings.Contains(stderr, "the evaluation is not saved") {
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
	mustRun(t, table(parts)...) // the process that ended first has written an incomplete table
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
		{"-data", "synthetic", "not \"synthetic\""},
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

// A run that train started with the settings of the table is part of the table. Runs with other settings or
// another learning rate are not.
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
	if stderr != "" || !strings.Contains(stdout, "1 of 1 runs are finished. Each has one evaluation on 5 images of "+fewName(t)+" with 20 samples per image.\n") {
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

// The table must evaluate the weights of the best epoch, which is not the last.
func TestATableEvaluatesTheBestEpoch(t *testing.T) {
	out := t.TempDir()
	for seed := 1; ; seed++ { // until the first epoch is the best
		mustRun(t, tinyTable(out, "-rows", "vae", "-seeds", fmt.Sprint(seed), "-epochs", "3", "-train", "2")...)
		run := filepath.Join(out, fmt.Sprintf("vae-%d", seed))
		if all := metricsOf(t, run); all[2]["val_elbo"] > max(all[0]["val_elbo"], all[1]["val_elbo"]) && seed < 20 {
			continue
		}
		stdout, _ := mustRun(t, tinyEval(filepath.Join(run, modelFile), fmt.Sprint(seed))...)
		var e struct {
			Epoch int
			NLLs  []float64
		}
		err := json.Unmarshal(read(t, run, evaluationFile), &e)
		if mean, _ := spread(e.NLLs...); err != nil || e.Epoch == 3 || !isNumber(object(t, stdout)["nll"], mean) {
			t.Errorf("the table contains %+v (%v), but eval prints %s", e, err, stdout)
		}
		return
	}
}

// A damaged result is never replaced unasked. If the user moves it away as advised, the run is evaluated again.
func TestADamagedResultIsKept(t *testing.T) {
	out := t.TempDir()
	mustRun(t, oneVAE(out)...)
	before := files(t, out)
	for _, damaged := range []string{"[null]", "", strings.Replace(before[filepath.Join("vae-1", evaluationFile)], "nlls", "NLLs", 1)} {
		write(t, []byte(damaged), out, "vae-1", evaluationFile)
		kept := files(t, out)
		mustFail(t, 1, oneVAE(out), evaluationFile+" is damaged: ", "to evaluate the run again, move the file away", "1 of 1 runs failed: vae-1")
		if diff := cmp.Diff(kept, files(t, out)); diff != "" {
			t.Errorf("the table replaced files, although a result is damaged:\n%s", diff)
		}
		remove(t, out, "vae-1", evaluationFile)
		mustRun(t, oneVAE(out)...)
		if diff := cmp.Diff(before, files(t, out)); diff != "" {
			t.Errorf("after the damaged result was moved away, the files differ:\n%s", diff)
		}
	}
	write(t, []byte("[null]"), out, "vae-1", evaluationFile)
	remove(t, out, "vae-1", stateFile)
	if _, stderr, _ := mnist(t.Context(), oneVAE(out)...); strings.Contains(stderr, "move the file away") {
		t.Errorf("without a state, the advice is wrong: %s", stderr)
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
	for _, task := range []string{"4", "-1", "x"} {
		mustFail(t, 2, tinyTable(out, "-task", task), "for flag -task: ")
	}
	// Run 0 is running, run 1 is done, run 2 was interrupted, and the result of run 3 is damaged.
	cancelled(t, "training ", tinyTable(out, "-task", "2")...)
	for _, i := range []int{0, 3} {
		if err := os.Mkdir(filepath.Join(out, tinyRuns[i]), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := filelock.Take(folderOf(t, filepath.Join(out, tinyRuns[0])), lockFile)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	write(t, []byte("{"), out, tinyRuns[3], evaluationFile)
	if err := os.Chmod(out, 0o500); err != nil { // -list needs no write permission
		t.Fatal(err)
	}
	defer os.Chmod(out, 0o700)
	list("running", "done", "open", "open")
	stdout, _ = mustRun(t, tinyTable(out, "-list")...)
	if !strings.Contains(stdout, evaluationFile+" is damaged") || !strings.HasSuffix(stdout, "\n4 runs: 1 done, 1 running, 2 open\n") {
		t.Errorf("-list prints %s", stdout)
	}
	mustFail(t, 1, tinyTable(out, "-task", "0"), "in use by another process")
}
