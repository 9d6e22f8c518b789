package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/filelock"
	"hvae/bench/plot/plottest"
	"hvae/mnist/safetensors"
)

// An evaluation holds the contents of evaluation.json except the time.
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

// readEvaluation reads the evaluation of the run vae-1 in the folder of a table.
func readEvaluation(t *testing.T, out string) (e evaluation) {
	t.Helper()
	if err := json.Unmarshal(read(t, out, "vae-1", evaluationFile), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// writeEvaluation replaces the evaluation of the run vae-1.
func writeEvaluation(t *testing.T, out string, e evaluation) {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	write(t, b, out, "vae-1", evaluationFile)
}

// oneVAE returns the arguments of a table with a single run, vae-1.
func oneVAE(out string, more ...string) []string {
	return tinyTable(out, append([]string{"-rows", "vae", "-seeds", "1", "-runs", "1"}, more...)...)
}

// trainVAE returns the arguments of train for the run that oneVAE trains.
func trainVAE(folder string, more ...string) []string {
	return append([]string{"train", "-data", few, "-train", "100", "-seed", "1", "-epochs", "1", "-out", folder}, more...)
}

// All numbers of the table must follow from the output of eval and from the paper's numbers.
func TestTheTableMatchesIndependentNumbers(t *testing.T) {
	out := t.TempDir()
	printed, _ := mustRun(t, tinyTable(out)...)

	// The train command must write the same files as the table command.
	alone := t.TempDir()
	mustRun(t, trainVAE(alone, "-model", "hvae", "-K", "1", "-seed", "12345")...)
	ours := files(t, filepath.Join(out, "hvae-k1-none-12345"))
	delete(ours, evaluationFile)
	if diff := cmp.Diff(files(t, alone), ours); diff != "" {
		t.Errorf("a run of the table differs from a run of train with the same settings:\n%s", diff)
	}
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

	// Check the table printed after the last run. It rounds half away from zero: −0.035 to −0.04.
	tables := strings.Split(strings.TrimSpace(printed), "\n\n")
	if len(tables) != 4 || !strings.HasPrefix(tables[3], "NLL and ELBO in nats, published and obtained. 4 of 4 runs are finished. Each has 2 evaluations on 5 images of "+fewName(t)+" with 20 samples per image.\n") {
		t.Fatalf("the command prints %d tables, want 4; the last is\n%s", len(tables), tables[len(tables)-1])
	}
	lines := strings.Split(tables[3], "\n")[3:]
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

	// The figure must show the NLL minus the NLL of the VAE.
	panels := plottest.Read(t, read(t, out, figureFile), false, false)
	if len(panels) != 2 {
		t.Fatalf("the figure has %d panels, want 2", len(panels))
	}
	for i, title := range []string{"Obtained", "Published"} {
		p := panels[i]
		if p.Title != title || len(p.Series) != 2 {
			t.Fatalf("panel %d has the title %q and %d series, want %q and 2", i, p.Title, len(p.Series), title)
		}
		if vae := p.Series[0]; vae.Label != "VAE" || !p.Y.Near(vae.Line[0][0].Y, 0) {
			t.Errorf("%s: the first series is %+v, want the VAE at 0", p.Title, vae)
		}
		s, w := p.Series[1], want["hvae-k1-none"][1-i]
		if s.Label != "no tempering" || len(s.Markers) != 1 || !p.Y.Near(s.Markers[0].Y, w.toVAE) {
			t.Errorf("%s, %s: the markers are %v, want one at %v", p.Title, s.Label, s.Markers, w.toVAE)
		}
		if high := w.toVAE + w.toVAEError; len(s.Bars) != 1 || !p.Y.Near(s.Bars[0].High, high) && !p.Y.Near(s.Bars[0].Low, high) {
			t.Errorf("%s, %s: the error bars are %v, want one at %v ± %v", p.Title, s.Label, s.Bars, w.toVAE, w.toVAEError)
		}
	}

	// A table with fewer rows replaces table.json. If only the VAE remains, there is no figure.
	remove(t, out, figureFile)
	mustRun(t, tinyTable(out, "-rows", "vae")...)
	if exists(out, figureFile) {
		t.Error("a table with only the VAE has a figure")
	}
	mustRun(t, tinyTable(out)...)
	if diff := cmp.Diff(before, files(t, out)); diff != "" {
		t.Errorf("after a table with fewer rows, the original command writes other files:\n%s", diff)
	}
}

// The files of a table must be the same whether it is computed by one process, by a process that is killed
// and restarted, by two concurrent processes, or by one command per task (-task) in reverse order.
func TestTheTableDoesNotDependOnProcesses(t *testing.T) {
	t.Parallel()
	table := func(out string, more ...string) []string {
		return tinyTable(out, append([]string{"-seeds", "85547"}, more...)...)
	}
	parts, whole := t.TempDir(), t.TempDir()
	mustRun(t, table(whole)...)
	for wait, kills := 100*time.Millisecond, 0; ; wait *= 2 { // until the slowest machine finishes
		if kills == 0 {
			parts = t.TempDir()
			write(t, []byte("half"), parts, "."+figureFile+"-123.tmp") // as if killed during a write
		}
		c := process(table(parts)...)
		c.Env = append(c.Env, "MNIST_TEST_SAVE_EVERY=1ns")
		start(t, c)
		timer := time.AfterFunc(wait, func() { c.Process.Kill() })
		err := c.Wait()
		if alive := timer.Stop(); alive && err != nil {
			t.Fatal(err)
		}
		if err != nil {
			kills++
		} else if kills > 0 {
			break
		} else { // the process ended before the kill
			wait /= 8
		}
	}
	sameFiles(t, "killed and started again", whole, parts)

	parts = t.TempDir()
	one, two := process(table(parts)...), process(table(parts)...)
	first, second := start(t, one), start(t, two)
	errOne, errTwo := one.Wait(), two.Wait()
	both := first.String() + second.String()
	if errOne != nil || errTwo != nil {
		t.Errorf("two processes end with the errors %v and %v and print %s", errOne, errTwo, both)
	}
	for _, name := range tinyRuns[:2] {
		for _, activity := range []string{"training ", "evaluating "} {
			if n := strings.Count(both, activity+name+","); n != 1 {
				t.Errorf("the processes print %s%s %d times, want once:\n%s", activity, name, n, both)
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

func TestATableUsesExistingRuns(t *testing.T) {
	out := t.TempDir()
	trained := filepath.Join(out, "vae-1")
	mustRun(t, trainVAE(trained, "-epochs", "2")...)
	model := read(t, trained, modelFile)
	mustRun(t, oneVAE(out, "-epochs", "2")...)
	if !slices.Equal(read(t, trained, modelFile), model) {
		t.Error("the table changed the model that the train command wrote")
	}
	// The table must not need these files of a finished run.
	for _, name := range []string{modelFile, stateFile, samplesFile, curveFile, lockFile} {
		remove(t, trained, name)
	}
	before := files(t, trained)
	stdout, stderr := mustRun(t, oneVAE(out, "-epochs", "2")...)
	if stderr != "" || !strings.Contains(stdout, "1 of 1 runs are finished. Each has one evaluation on 5 images of "+fewName(t)+" with 20 samples per image.\n") {
		t.Errorf("without weights, the table prints %s and on stderr %s", stdout, stderr)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-epochs", "1"}, "was trained for 2 epochs"},
		{[]string{"-epochs", "3"}, "add -extend"},
		{[]string{"-epochs", "3", "-extend"}, "no state to resume from"},
		{[]string{"-epochs", "2", "-limit", "4"}, " was made with different settings: it has "},
		{[]string{"-epochs", "2", "-samples", "11"}, " was made with different settings: it has "},
		{[]string{"-epochs", "2", "-train", "101"}, " was made with different settings: it has "},
	} {
		mustFail(t, 1, oneVAE(out, c.args...), c.want, "1 of 1 runs failed: vae-1")
	}
	if diff := cmp.Diff(before, files(t, trained)); diff != "" {
		t.Errorf("a refused table changed the run:\n%s", diff)
	}
	// The table must refuse a run with other settings.
	for flag, value := range map[string]string{"batch": "50", "lr": "1e-4", "seed": "2"} {
		other := filepath.Join(t.TempDir(), "vae-1")
		mustRun(t, trainVAE(other, "-"+flag, value)...)
		kept := files(t, other)
		mustFail(t, 1, oneVAE(filepath.Dir(other)), "vae-1 does not match vae-1 of this table: it was started with "+flag+" = ")
		if diff := cmp.Diff(kept, files(t, other)); diff != "" {
			t.Errorf("the table changed a run with -%s %s", flag, value)
		}
	}
}

func TestATableRefusesARunWhoseLearningRateWasChanged(t *testing.T) {
	out := t.TempDir()
	run := filepath.Join(out, "vae-1")
	mustRun(t, trainVAE(run)...)
	mustRun(t, resume(run, "-epochs", "2", "-lr", "1e-4")...)
	mustRun(t, resume(run, "-lr", "1e-3")...) // the initial rate
	mustFail(t, 1, oneVAE(out, "-epochs", "3"), "its learning rate was changed during the run")
}

func TestATableEvaluatesTheBestEpoch(t *testing.T) {
	// Train two epochs and change the state so that the first epoch is the best.
	out := t.TempDir()
	run := filepath.Join(out, "vae-1")
	mustRun(t, trainVAE(run)...)
	first := copyFiles(t, run, modelFile)
	mustRun(t, resume(run, "-epochs", "2")...)
	best := readTensors(t, first, modelFile)
	rewrite(t, run, func(state *safetensors.File, p *position) {
		p.Metrics[1].ValELBO = p.Metrics[0].ValELBO - 1
		for i, x := range state.Tensors {
			if name, ok := strings.CutPrefix(x.Name, "best."); ok {
				state.Tensors[i], _ = best.Tensor(name)
				state.Tensors[i].Name = x.Name
			}
		}
	})
	mustRun(t, oneVAE(out, "-epochs", "2")...)
	stdout, _ := mustRun(t, tinyEval(filepath.Join(first, modelFile), "1", "-runs", "1")...)
	if e, want := readEvaluation(t, out), object(t, stdout)["nll"]; e.Epoch != 1 || !isNumber(want, e.NLLs[0]) {
		t.Errorf("the table contains the NLL %v of epoch %d, want %v of the first epoch", e.NLLs, e.Epoch, want)
	}
}

func TestATableFailsIfResultsAreNotFinite(t *testing.T) {
	out := t.TempDir()
	run := filepath.Join(out, "vae-1")
	mustRun(t, trainVAE(run)...)
	rewrite(t, run, func(state *safetensors.File, _ *position) {
		for _, x := range state.Tensors {
			if strings.HasPrefix(x.Name, "best.") {
				huge(x.Data)
			}
		}
	})
	mustFail(t, 1, oneVAE(out), "model.safetensors is not finite (ELBO ", "the model is damaged or has diverged\n")
	if exists(run, evaluationFile) {
		t.Error("the table wrote an evaluation that is not finite")
	}
}

func TestExtendTrainsFurtherAndEvaluatesAgain(t *testing.T) {
	out := t.TempDir()
	run := filepath.Join(out, "vae-1")
	mustRun(t, oneVAE(out)...)
	before := files(t, out)
	for _, further := range [][]string{nil, {"-task", "0"}} {
		mustFail(t, 1, oneVAE(out, append(further, "-epochs", "2")...), "was evaluated after 1 epochs, but -epochs 2 ", "discard the evaluation\n")
	}
	if stdout, _ := mustRun(t, oneVAE(out, "-epochs", "2", "-list")...); !strings.Contains(stdout, "discard the evaluation\n1 runs: 0 done, 0 running, 0 stopped, 0 missing, 1 refused\n") {
		t.Errorf("-list prints %s", stdout)
	}
	if diff := cmp.Diff(before, files(t, out)); diff != "" {
		t.Errorf("a refused table changed files: %s", diff)
	}
	if _, stderr := mustRun(t, oneVAE(out)...); stderr != "" {
		t.Errorf("the original command prints %s on stderr, want nothing", stderr)
	}
	mustRun(t, oneVAE(out, "-epochs", "2", "-extend")...)
	stdout, _ := mustRun(t, tinyEval(filepath.Join(run, modelFile), "1", "-runs", "1")...)
	e := readEvaluation(t, out)
	if want := object(t, stdout)["nll"]; e.Epoch != 2 || len(e.NLLs) != 1 || !isNumber(want, e.NLLs[0]) {
		t.Errorf("the evaluation is %+v, want the NLL %v of the second epoch", e, want)
	}

	// Write metrics of four epochs, of which the first is the best. Training then ends after epoch 3 with
	// -patience 2, after epoch 4 with -patience 3, and later with -patience 4.
	var lines string
	for epoch, elbo := range []float64{-1, -3, -2, -4} {
		lines += fmt.Sprintf(`{"epoch":%d,"train_elbo":-1,"val_elbo":%v,"seconds":1}`+"\n", epoch+1, elbo)
	}
	write(t, []byte(lines), run, metricsFile)
	e.Epoch, e.ValELBO = 1, -1
	writeEvaluation(t, out, e)
	remove(t, run, stateFile)
	for patience, want := range map[string]string{"2": "was trained for 4 epochs, but with -epochs 9 and -patience 2 training ends after epoch 3", "4": "no state to resume from"} {
		mustFail(t, 1, oneVAE(out, "-epochs", "9", "-extend", "-patience", patience), want)
	}
	mustRun(t, oneVAE(out, "-epochs", "9", "-extend", "-patience", "3")...)
}

func TestListAndTask(t *testing.T) {
	out := t.TempDir()
	stdout, stderr := mustRun(t, "table", "-data", "synthetic", "-out", out, "-list", "-json", "-rows", "vae")
	if all := jsonLines[map[string]any](t, stdout); len(all) != 3 || all[2]["run"] != "vae-98765" || stderr != "" {
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
	list("missing", "missing", "missing", "missing")
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 0 {
		t.Errorf("-list wrote the files %v", entries)
	}

	stdout, _ = mustRun(t, tinyTable(out, "-task", "1", "-json")...)
	if all := jsonLines[map[string]any](t, stdout); len(all) != 1 || all[0]["run"] != tinyRuns[1] || !(all[0]["nll"].(float64) > 0) {
		t.Errorf("-task 1 prints %s", stdout)
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 1 || entries[0].Name() != tinyRuns[1] {
		t.Errorf("-task 1 wrote %v, want one folder", entries)
	}
	stdout, _ = mustRun(t, tinyTable(out, "-task", "1")...)
	if !regexp.MustCompile(`^hvae-k1-none-85547  epochs 1  ELBO -\d+\.\d\d ± \d+\.\d\d  NLL \d+\.\d\d ± \d+\.\d\d\n$`).MatchString(stdout) {
		t.Errorf("-task 1 of a finished run prints %q", stdout)
	}
	for _, task := range []string{"4", "-1", "x"} {
		mustFail(t, 2, tinyTable(out, "-task", task), "for flag -task: ")
	}

	// Lock run 0, interrupt run 2 and damage the evaluation of run 3. Run 1 is done.
	if stderr, finished := interrupted(t, 2, tinyTable(out, "-task", "2")...); finished || !strings.Contains(stderr, "start the same command again") {
		t.Errorf("the interrupted -task 2 prints %s", stderr)
	}
	for _, i := range []int{0, 3} {
		if err := os.Mkdir(filepath.Join(out, tinyRuns[i]), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := filelock.Take(filepath.Join(out, tinyRuns[0], lockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	write(t, []byte("{"), out, tinyRuns[3], evaluationFile)
	list("running", "done", "stopped", "refused")
	stdout, _ = mustRun(t, tinyTable(out, "-list")...)
	if !strings.HasSuffix(stdout, "\n4 runs: 1 done, 1 running, 1 stopped, 0 missing, 1 refused\n") {
		t.Errorf("-list prints %s", stdout)
	}
	mustFail(t, 1, tinyTable(out, "-task", "0"), "in use by another process")
}

func TestATableWhoseRunsAreLockedCanBeInterrupted(t *testing.T) {
	out := t.TempDir()
	for _, name := range tinyRuns {
		if err := os.Mkdir(filepath.Join(out, name), 0o755); err != nil {
			t.Fatal(err)
		}
		lock, err := filelock.Take(filepath.Join(out, name, lockFile))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Release()
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, context.Canceled) // the first run is locked for longer
	defer cancel()
	if stdout, stderr, status := mnist(ctx, tinyTable(out)...); status != 130 || stdout != "" {
		t.Errorf("status %d, stdout %q, stderr %q; want status 130 and no table", status, stdout, stderr)
	}
}

// A table must repeat an evaluation that was interrupted or has fewer runs than -runs. If an evaluation has
// more runs, the table must use the first ones. The results must equal the output of eval.
func TestAStoppedEvaluationStartsAgain(t *testing.T) {
	out := t.TempDir()
	table := func(out string) []string { return oneVAE(out, "-runs", "3") }
	mustRun(t, table(out)...)
	want := readEvaluation(t, out)
	stdout, _ := mustRun(t, tinyEval(filepath.Join(out, "vae-1", modelFile), "1", "-runs", "3")...)
	mean, sd := spread(want.NLLs...)
	if e := object(t, stdout); !isNumber(e["nll"], mean) || !isNumber(e["nll_sd"], sd) {
		t.Errorf("the table contains the NLL %v ± %v, but the eval command prints %v ± %v", mean, sd, e["nll"], e["nll_sd"])
	}
	stdout, _ = mustRun(t, oneVAE(out, "-runs", "2", "-json")...)
	obtained, _ := object(t, stdout)["obtained"].(map[string]any)
	if mean, _ := spread(want.NLLs[:2]...); !isNumber(obtained["nll"], mean) {
		t.Errorf("with -runs 2, the table prints the NLL %v, want %v, the mean of the first two evaluations", obtained["nll"], mean)
	}
	fewer := want
	fewer.ELBOs, fewer.NLLs = want.ELBOs[:1], want.NLLs[:1]
	writeEvaluation(t, out, fewer)
	mustRun(t, table(out)...)
	if diff := cmp.Diff(want, readEvaluation(t, out)); diff != "" {
		t.Errorf("after an evaluation with one run, the results differ (-want +got):\n%s", diff)
	}
	remove(t, out, "vae-1", evaluationFile)
	stopped := false
	for after := 0; ; after++ {
		parts := t.TempDir()
		if err := os.CopyFS(parts, os.DirFS(out)); err != nil {
			t.Fatal(err)
		}
		stderr, finished := interrupted(t, after, table(parts)...)
		if finished {
			break
		}
		if exists(parts, "vae-1", evaluationFile) || !strings.Contains(stderr, "; the evaluation is not saved") {
			continue
		}
		stopped = true
		mustRun(t, table(parts)...)
		if diff := cmp.Diff(want, readEvaluation(t, parts)); diff != "" {
			t.Errorf("interrupted after %d calls of Err, the results differ (-want +got):\n%s", after, diff)
		}
	}
	if !stopped {
		t.Error("no interruption stopped the evaluation")
	}
}

// A table must replace an evaluation whose epoch or validation ELBO does not match the run's best epoch.
func TestAnEvaluationOfOtherWeightsIsReplaced(t *testing.T) {
	out := t.TempDir()
	mustRun(t, oneVAE(out)...)
	want := readEvaluation(t, out)
	for _, change := range []func(e *evaluation){
		func(e *evaluation) { e.ValELBO++ },
		func(e *evaluation) { e.Epoch++ },
	} {
		wrong := want
		wrong.NLLs, wrong.ELBOs = []float64{1, 2}, []float64{-1, -2}
		change(&wrong)
		writeEvaluation(t, out, wrong)
		mustRun(t, oneVAE(out)...)
		if diff := cmp.Diff(want, readEvaluation(t, out)); diff != "" {
			t.Errorf("an evaluation of other weights was kept:\n%s", diff)
		}
	}
}
