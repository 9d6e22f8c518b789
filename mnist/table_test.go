package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/filelock"
	"hvae/bench/plot/plottest"
	"hvae/linalg/random"
	"hvae/mnist/safetensors"
)

// tinyTable returns the arguments of a table that takes seconds.
func tinyTable(out string, more ...string) []string {
	return append([]string{"table", "-data", few, "-dataset", "few", "-train", "100", "-epochs", "1", "-limit", "5", "-samples", "20", "-runs", "2", "-rows", "vae,hvae-k1-none", "-seeds", "85547,12345", "-out", out}, more...)
}

var tinyRuns = []string{"vae-85547", "hvae-k1-none-85547", "vae-12345", "hvae-k1-none-12345"}

func mustTable(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, status := mnist(t.Context(), args...)
	if status != 0 {
		t.Fatalf("%v: status %d, %s", args, status, stderr)
	}
	return stdout, stderr
}

// tableFiles returns the contents of the files of a table and of its runs, without times.
func tableFiles(t *testing.T, out string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range append([]string{""}, tinyRuns...) {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			continue
		}
		for file, content := range tableFolder(t, filepath.Join(out, name)) {
			all[filepath.Join(name, file)] = seconds.ReplaceAllString(content, "$1:0")
		}
	}
	return all
}

// tableFolder is files for a folder with subfolders.
func tableFolder(t *testing.T, folder string) map[string]string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(entries, os.DirEntry.IsDir) {
		return files(t, folder)
	}
	all := map[string]string{}
	for _, e := range entries {
		if e.IsDir() || e.Name() == lockFile {
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// objects reads JSON lines.
func objects(t *testing.T, lines string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, o)
	}
	return all
}

// isNumber reports whether a JSON value is the number, or null for NaN.
func isNumber(got any, want float64) bool {
	if got == nil {
		return math.IsNaN(want)
	}
	v, ok := got.(float64)
	return ok && math.Abs(v-want) <= 1e-9*math.Max(1, math.Abs(want))
}

// spreadOf returns mean and sample standard deviation.
func spreadOf(x ...float64) (mean, sd float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		sd += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sd / float64(len(x)-1))
}

func TestTheTableMatchesIndependentNumbers(t *testing.T) {
	out := t.TempDir()
	printed, _ := mustTable(t, tinyTable(out)...)

	// The table's runs and evaluations equal those of train and eval.
	alone := t.TempDir()
	mustTrain(t, "train", "-data", few, "-dataset", "few", "-train", "100", "-epochs", "1", "-model", "hvae", "-K", "1", "-seed", "12345", "-out", alone)
	ours := files(t, filepath.Join(out, "hvae-k1-none-12345"))
	delete(ours, evaluationFile)
	if diff := cmp.Diff(files(t, alone), ours); diff != "" {
		t.Error("a run of the table differs from that of train with the same settings")
	}
	evaluations := map[string]map[string]float64{}
	for _, name := range tinyRuns {
		seed := name[strings.LastIndex(name, "-")+1:]
		line, _ := mustTable(t, "eval", "-checkpoint", filepath.Join(out, name, modelFile), "-data", few, "-dataset", "few", "-limit", "5", "-samples", "20", "-runs", "2", "-seed", seed, "-json")
		o := objects(t, line)[0]
		e := map[string]float64{}
		for _, key := range []string{"elbo", "elbo_sd", "nll", "nll_sd"} {
			e[key] = o[key].(float64)
		}
		evaluations[name] = e
	}

	// The rows. The published values are copied from the paper.
	type sums struct{ nll, evaluation, seed, toVAE, toVAEError, elbo, epochs float64 }
	row := func(name string, other string) (s sums) {
		a, b := evaluations[name+"-85547"], evaluations[name+"-12345"]
		s.nll, s.seed = spreadOf(a["nll"], b["nll"])
		s.evaluation = math.Sqrt((a["nll_sd"]*a["nll_sd"] + b["nll_sd"]*b["nll_sd"]) / 2)
		s.elbo, s.epochs = (a["elbo"]+b["elbo"])/2, 1
		s.toVAE, s.toVAEError = math.NaN(), math.NaN()
		if other != "" {
			mean, sd := spreadOf(a["nll"]-evaluations[other+"-85547"]["nll"], b["nll"]-evaluations[other+"-12345"]["nll"])
			s.toVAE, s.toVAEError = mean, sd/math.Sqrt2
		}
		return s
	}
	vaeMean, vaeSD := spreadOf(83.25, 83.19, 83.15)
	hvaeMean, hvaeSD := spreadOf(83.29, 83.04)
	difference, differenceSD := spreadOf(83.29-83.25, 83.04-83.15)
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
	b, err := os.ReadFile(filepath.Join(out, tableFile))
	if err == nil {
		err = json.Unmarshal(b, &inFile)
	}
	if err != nil || len(inFile.Rows) != 2 || len(inFile.Results) != 4 {
		t.Fatalf("%d rows, %d runs, %v", len(inFile.Rows), len(inFile.Results), err)
	}
	for _, o := range inFile.Rows {
		check("file", o)
	}
	for i, o := range inFile.Results {
		m, e := metricsOf(t, filepath.Join(out, tinyRuns[i])), evaluations[tinyRuns[i]]
		if o["run"] != tinyRuns[i] || !isNumber(o["nll"], e["nll"]) || !isNumber(o["nll_sd"], e["nll_sd"]) || !isNumber(o["elbo"], e["elbo"]) || !isNumber(o["elbo_sd"], e["elbo_sd"]) ||
			o["epochs"] != 1.0 || !(o["seconds"].(float64) > m[0]["seconds"]) {
			t.Errorf("result %v, want run %s with %v", o, tinyRuns[i], e)
		}
	}

	// A second call does nothing; with -json it prints the rows.
	before := tableFiles(t, out)
	stdout, stderr := mustTable(t, tinyTable(out, "-json")...)
	if all := objects(t, stdout); len(all) != 2 || stderr != "" {
		t.Errorf("a table that is done prints %s %s", stdout, stderr)
	} else {
		for _, o := range all {
			check("JSON", o)
		}
	}
	if diff := cmp.Diff(before, tableFiles(t, out)); diff != "" {
		t.Errorf("a table that is done was changed: %s", diff)
	}

	// The text after the last run.
	tables := strings.Split(strings.TrimSpace(printed), "\n\n")
	if len(tables) != 4 || !strings.HasPrefix(tables[3], "NLL and ELBO in nats: published, and obtained on 5 few images, 20 samples, 2 evaluations of each run, 4 of 4 runs\n") {
		t.Fatalf("%d tables, the last is\n%s", len(tables), tables[len(tables)-1])
	}
	lines := strings.Split(tables[3], "\n")[3:]
	for i, name := range []string{"vae", "hvae-k1-none"} {
		text := name
		for j, seeds := range []string{map[string]string{"vae": "3", "hvae-k1-none": "2"}[name], "2"} {
			// The numbers were checked above. Halves, such as −0.035, round away from zero.
			var o map[string]any
			cents := func(key string) float64 {
				return math.Round(o[key].(float64)*100+math.Copysign(1e-6, o[key].(float64))) / 100
			}
			o = inFile.Rows[i][[]string{"published", "obtained"}[j]].(map[string]any)
			less := "–"
			if name != "vae" {
				less = fmt.Sprintf("%+.2f ± %.2f", cents("to_vae"), o["to_vae_se"])
			}
			text += fmt.Sprintf(" %.2f %.2f %.2f %s %.2f %.0f %s", cents("nll"), o["nll_sd_evaluations"], o["nll_sd_seeds"], less, cents("elbo"), o["epochs"], seeds)
		}
		if got := strings.Join(strings.Fields(lines[i]), " "); got != text {
			t.Errorf("printed is\n%s\nwant\n%s", got, text)
		}
	}

	// The figure shows NLL minus the VAE's, or NLL without a VAE. The VAE alone has no figure.
	only := func(row string) string {
		folder := t.TempDir()
		if err := os.CopyFS(folder, os.DirFS(out)); err != nil {
			t.Fatal(err)
		}
		kept := tableFiles(t, folder)
		if _, stderr := mustTable(t, tinyTable(folder, "-rows", row)...); !strings.Contains(stderr, "table.json, table1.svg and budget.svg are not replaced") {
			t.Errorf("a table of fewer rows: %q", stderr)
		}
		if diff := cmp.Diff(kept, tableFiles(t, folder)); diff != "" {
			t.Errorf("a table of fewer rows changed the table: %s", diff)
		}
		if err := errors.Join(os.Remove(filepath.Join(folder, tableFile)), os.Remove(filepath.Join(folder, figureFile))); err != nil {
			t.Fatal(err)
		}
		mustTable(t, tinyTable(folder, "-rows", row)...)
		return folder
	}
	if _, err := os.Stat(filepath.Join(only("vae"), figureFile)); !os.IsNotExist(err) {
		t.Errorf("the table of the VAE alone has a figure: %v", err)
	}
	for _, c := range []struct {
		out, what string
		vae       bool
		height    func(sums) (y, bar float64)
	}{
		{out, "NLL minus the VAE's ± s.e. (nats)", true, func(s sums) (y, bar float64) { return s.toVAE, s.toVAEError }},
		{only("hvae-k1-none"), "NLL ± s.d. over seeds (nats)", false, func(s sums) (y, bar float64) { return s.nll, s.seed }},
	} {
		svg, err := os.ReadFile(filepath.Join(c.out, figureFile))
		if err != nil {
			t.Fatal(err)
		}
		panels := plottest.Read(t, svg, false, false)
		if len(panels) != 2 {
			t.Fatalf("%d panels", len(panels))
		}
		for i, title := range []string{"Obtained", "Published"} {
			p := panels[i]
			if p.Title != title || p.YLabel != c.what {
				t.Fatalf("title %q, label %q; want %q, %q", p.Title, p.YLabel, title, c.what)
			}
			if vae := p.Series[0]; (vae.Label == "VAE") != c.vae || c.vae && !p.Y.Near(vae.Line[0][0].Y, 0) {
				t.Errorf("%s: the first series is %+v", p.Title, vae)
			}
			s := p.Series[len(p.Series)-1]
			y, bar := c.height(want["hvae-k1-none"][1-i])
			if s.Label != "no tempering" || len(s.Markers) != 1 || !p.Y.Near(s.Markers[0].Y, y) {
				t.Errorf("%s, %s: %v, want %v", p.Title, s.Label, s.Markers, y)
			}
			if len(s.Bars) != 1 || !p.Y.Near(s.Bars[0].High, y+bar) && !p.Y.Near(s.Bars[0].Low, y+bar) {
				t.Errorf("%s, %s: bars %v, want %v ± %v", p.Title, s.Label, s.Bars, y, bar)
			}
		}
	}
}

func TestAKilledTableContinues(t *testing.T) {
	t.Parallel()
	var parts string
	whole := t.TempDir()
	mustTable(t, tinyTable(whole, "-seeds", "85547")...)
	start := func() (c *exec.Cmd, stderr *strings.Builder) {
		c = exec.Command(os.Args[0], tinyTable(parts, "-seeds", "85547")...)
		c.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1", "MNIST_TEST_SAVE_EVERY=1ns")
		stderr = new(strings.Builder)
		c.Stderr = stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c, stderr
	}
	for wait, kills := 100*time.Millisecond, 0; ; wait *= 2 { // until the slowest machine finishes
		if kills == 0 {
			parts = t.TempDir()
			left := filepath.Join(parts, "."+figureFile+"-123.tmp") // as of a kill in the middle of a write
			if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c, _ := start()
		timer := time.AfterFunc(wait, func() { c.Process.Kill() })
		err := c.Wait()
		if alive := timer.Stop(); alive && err != nil {
			t.Fatal(err)
		}
		if err != nil {
			kills++
		} else if kills > 0 {
			break
		} else { // the wait was too long to kill the program
			wait /= 8
		}
	}
	if diff := cmp.Diff(tableFiles(t, whole), tableFiles(t, parts)); diff != "" {
		t.Errorf("killed and begun again, the table is another:\n%s", diff)
	}

	// Two processes at once: each run is trained by one of them.
	parts = t.TempDir()
	one, said := start()
	two, saidToo := start()
	for _, c := range []*exec.Cmd{one, two} {
		if err := c.Wait(); err != nil {
			t.Fatalf("%v: %s%s", err, said, saidToo)
		}
	}
	both := said.String() + saidToo.String()
	for _, name := range tinyRuns[:2] {
		for _, what := range []string{"training ", "evaluating "} {
			if n := strings.Count(both, what+name+","); n != 1 {
				t.Errorf("%s%s %d times:\n%s", what, name, n, both)
			}
		}
	}
	mustTable(t, tinyTable(parts, "-seeds", "85547")...) // the one that ended first saw less
	if diff := cmp.Diff(tableFiles(t, whole), tableFiles(t, parts)); diff != "" {
		t.Errorf("made by two processes, the table is another:\n%s", diff)
	}

	// Single tasks in reverse order.
	parts = t.TempDir()
	for _, task := range []string{"1", "0"} {
		mustTable(t, tinyTable(parts, "-seeds", "85547", "-task", task)...)
	}
	mustTable(t, tinyTable(parts, "-seeds", "85547")...)
	if diff := cmp.Diff(tableFiles(t, whole), tableFiles(t, parts)); diff != "" {
		t.Errorf("made task by task, the table is another:\n%s", diff)
	}
}

func TestATableUsesExistingRuns(t *testing.T) {
	out := t.TempDir()
	trained := filepath.Join(out, "vae-1")
	table := func(more ...string) []string {
		return []string{"table", "-data", few, "-dataset", "few", "-train", "100", "-limit", "3", "-samples", "10", "-runs", "1", "-rows", "vae", "-out", out, "-seeds", "1"}
	}
	train := []string{"train", "-data", few, "-dataset", "few", "-train", "100", "-seed", "1", "-out"}
	mustTrain(t, append(train, trained, "-epochs", "2")...)
	model, err := os.ReadFile(filepath.Join(trained, modelFile))
	if err != nil {
		t.Fatal(err)
	}
	_, stderr := mustTable(t, append(table(), "-epochs", "2")...)
	if after, err := os.ReadFile(filepath.Join(trained, modelFile)); err != nil || string(after) != string(model) {
		t.Errorf("the model of a run that train made is another: %v, %s", err, stderr)
	}
	// A run without weights counts as done.
	for _, name := range []string{modelFile, stateFile, samplesFile, curveFile, lockFile} {
		if err := os.Remove(filepath.Join(trained, name)); err != nil {
			t.Fatal(err)
		}
	}
	before := files(t, trained)
	stdout, stderr := mustTable(t, append(table(), "-epochs", "2")...)
	if diff := cmp.Diff(before, files(t, trained)); diff != "" || stderr != "" || !strings.Contains(stdout, " 10 samples, one evaluation of each run, 1 of 1 runs\n") {
		t.Errorf("without weights: %s\n%s\n%s", stdout, stderr, diff)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-epochs", "1"}, "was trained for 2 epochs"},
		{[]string{"-epochs", "3"}, "which needs -extend"},
		{[]string{"-epochs", "3", "-extend"}, "no state to resume from"},
		{[]string{"-epochs", "2", "-limit", "4"}, "was evaluated by"},
		{[]string{"-epochs", "2", "-samples", "11"}, "was evaluated by"},
		{[]string{"-epochs", "2", "-train", "101"}, "was evaluated by"},
	} {
		_, stderr, status := mnist(t.Context(), append(table(), c.args...)...)
		if status != 1 || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "1 of 1 runs failed: vae-1") {
			t.Errorf("%v: status %d, %q, want %q", c.args, status, stderr, c.want)
		}
		if diff := cmp.Diff(before, files(t, trained)); diff != "" {
			t.Errorf("%v changed the run: %s", c.args, diff)
		}
	}
	// A run with other settings is refused.
	for flag, value := range map[string]string{"batch": "50", "lr": "1e-4", "seed": "2"} {
		other := filepath.Join(t.TempDir(), "vae-1")
		mustTrain(t, append(train, other, "-epochs", "1", "-"+flag, value)...)
		kept := files(t, other)
		_, stderr, status := mnist(t.Context(), append(table(), "-epochs", "1", "-out", filepath.Dir(other))...)
		if status != 1 || !strings.Contains(stderr, flag+" = ") {
			t.Errorf("-%s %s: status %d, %q", flag, value, status, stderr)
		}
		if diff := cmp.Diff(kept, files(t, other)); diff != "" {
			t.Errorf("a run with -%s %s was changed", flag, value)
		}
	}
}

func TestATableEvaluatesTheBestEpoch(t *testing.T) {
	// Two epochs, after which the state is changed so that the second was worse.
	out := t.TempDir()
	run := filepath.Join(out, "vae-1")
	mustTrain(t, "train", "-data", few, "-dataset", "few", "-train", "100", "-seed", "1", "-out", run, "-epochs", "1")
	first := copyFiles(t, run, modelFile)
	mustTrain(t, "train", "-resume", "-out", run, "-epochs", "2")
	state, err := safetensors.ReadFile(filepath.Join(run, stateFile), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	best, err := safetensors.ReadFile(filepath.Join(first, modelFile), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var p position
	if err := json.Unmarshal([]byte(state.Metadata["progress"]), &p); err != nil {
		t.Fatal(err)
	}
	p.Best, p.BestEpoch, p.Metrics[1].ValELBO = p.Metrics[0].ValELBO, 1, p.Metrics[0].ValELBO-1
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	state.Metadata["progress"] = string(b)
	for i, x := range state.Tensors {
		if name, ok := strings.CutPrefix(x.Name, "best."); ok {
			state.Tensors[i], _ = best.Tensor(name)
			state.Tensors[i].Name = x.Name
		}
	}
	if err := os.WriteFile(filepath.Join(run, stateFile), state.Encode(), 0o644); err != nil {
		t.Fatal(err)
	}
	mustTable(t, "table", "-data", few, "-dataset", "few", "-train", "100", "-epochs", "2", "-limit", "3", "-samples", "10", "-runs", "1", "-rows", "vae", "-seeds", "1", "-out", out)
	e := readEvaluation(t, out)
	line, _ := mustTable(t, "eval", "-checkpoint", filepath.Join(first, modelFile), "-data", few, "-dataset", "few", "-limit", "3", "-samples", "10", "-runs", "1", "-json")
	if want := objects(t, line)[0]["nll"]; e.Epoch != 1 || !isNumber(want, e.NLLs[0]) {
		t.Errorf("NLL %v of epoch %d, want %v of the first epoch", e.NLLs, e.Epoch, want)
	}
}

func TestATableFailsIfResultsAreNotFinite(t *testing.T) {
	out := t.TempDir()
	run := filepath.Join(out, "vae-1")
	mustTrain(t, "train", "-data", few, "-dataset", "few", "-train", "100", "-seed", "1", "-out", run, "-epochs", "1")
	name := filepath.Join(run, stateFile)
	state, err := safetensors.ReadFile(name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range state.Tensors {
		if strings.HasPrefix(x.Name, "best.") {
			huge(x.Data)
		}
	}
	if err := errors.Join(os.WriteFile(name, state.Encode(), 0o644), os.Remove(filepath.Join(run, modelFile))); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := mnist(t.Context(), "table", "-data", few, "-dataset", "few", "-train", "100", "-epochs", "1", "-limit", "3", "-samples", "10", "-runs", "1", "-rows", "vae", "-seeds", "1", "-out", out)
	if status != 1 || !strings.Contains(stderr, "model.safetensors is not finite (ELBO ") || !strings.Contains(stderr, "the model is damaged or has diverged\n") {
		t.Errorf("status %d, %s", status, stderr)
	}
	if _, err := os.Stat(filepath.Join(run, evaluationFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an evaluation was written: %v", err)
	}
}

func TestExtendTrainsFurtherAndEvaluatesAgain(t *testing.T) {
	out := t.TempDir()
	run := filepath.Join(out, "vae-1")
	table := []string{"table", "-data", few, "-dataset", "few", "-train", "100", "-limit", "3", "-samples", "10", "-runs", "1", "-rows", "vae", "-seeds", "1", "-out", out, "-epochs"}
	mustTable(t, append(table, "1")...)
	before, tableBefore := files(t, run), tableFolder(t, out)
	for _, further := range [][]string{{"2"}, {"2", "-task", "0"}} {
		if _, stderr, status := mnist(t.Context(), append(table, further...)...); status != 1 || !strings.Contains(stderr, "is evaluated after 1 epochs: -epochs 2 ") || !strings.Contains(stderr, "which needs -extend\n") {
			t.Errorf("status %d, %s", status, stderr)
		}
	}
	if stdout, _ := mustTable(t, append(table, "2", "-list")...); !strings.Contains(stdout, "which needs -extend\n1 runs: 0 done, 0 running, 0 stopped, 0 missing, 1 refused\n") {
		t.Errorf("the list is %s", stdout)
	}
	if diff := cmp.Diff(before, files(t, run)) + cmp.Diff(tableBefore, tableFolder(t, out)); diff != "" {
		t.Errorf("a refused table changed files: %s", diff)
	}
	if _, stderr := mustTable(t, append(table, "1")...); stderr != "" {
		t.Errorf("the original command prints %s", stderr)
	}
	mustTable(t, append(table, "2", "-extend")...)
	line, _ := mustTable(t, "eval", "-checkpoint", filepath.Join(run, modelFile), "-data", few, "-dataset", "few", "-limit", "3", "-samples", "10", "-runs", "1", "-json")
	e := readEvaluation(t, out)
	if want := objects(t, line)[0]["nll"]; e.Epoch != 2 || len(e.NLLs) != 1 || !isNumber(want, e.NLLs[0]) {
		t.Errorf("evaluation %+v, want NLL %v of the second epoch", e, want)
	}

	// The metrics determine whether patience has ended. Here the first of four epochs is the best.
	var lines string
	for epoch, elbo := range []float64{-1, -3, -2, -4} {
		lines += fmt.Sprintf(`{"epoch":%d,"train_elbo":-1,"val_elbo":%v,"seconds":1}`+"\n", epoch+1, elbo)
	}
	e.Epoch, e.ValELBO = 1, -1
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{metricsFile: lines, evaluationFile: string(b)} {
		if err := os.WriteFile(filepath.Join(run, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(run, stateFile)); err != nil {
		t.Fatal(err)
	}
	for patience, says := range map[string]string{"3": "", "2": "was trained for 4 epochs: with -epochs 9 and -patience 2 training would have ended after 3", "4": "no state to resume from"} {
		_, stderr, status := mnist(t.Context(), append(table, "9", "-extend", "-patience", patience)...)
		if (status == 0) != (says == "") || !strings.Contains(stderr, says) {
			t.Errorf("patience %s: status %d, %s; want %q", patience, status, stderr, says)
		}
	}
}

func TestListAndTask(t *testing.T) {
	out := t.TempDir()
	stdout, stderr := mustTable(t, "table", "-data", "synthetic", "-out", out, "-list", "-json", "-rows", "vae")
	if all := objects(t, stdout); len(all) != 3 || all[2]["run"] != "vae-98765" || stderr != "" {
		t.Errorf("the VAE's published seeds: %s", stdout)
	}
	list := func() (states []string) {
		t.Helper()
		stdout, _ := mustTable(t, tinyTable(out, "-list", "-json")...)
		for i, o := range objects(t, stdout) {
			if o["run"] != tinyRuns[i] || o["task"] != float64(i) {
				t.Errorf("listed is %v as %d", o, i)
			}
			states = append(states, o["state"].(string))
		}
		return states
	}
	if states := list(); !slices.Equal(states, []string{"missing", "missing", "missing", "missing"}) {
		t.Errorf("at first: %v", states)
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 0 {
		t.Errorf("listing wrote %v", entries)
	}

	stdout, _ = mustTable(t, tinyTable(out, "-task", "1", "-json")...)
	if all := objects(t, stdout); len(all) != 1 || all[0]["run"] != tinyRuns[1] || !(all[0]["nll"].(float64) > 0) {
		t.Errorf("a task prints %s", stdout)
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 1 || entries[0].Name() != tinyRuns[1] {
		t.Errorf("a task wrote %v", entries)
	}
	stdout, _ = mustTable(t, tinyTable(out, "-task", "1")...)
	if again := regexp.MustCompile(`^hvae-k1-none-85547  epochs 1  ELBO -\d+\.\d\d ± \d+\.\d\d  NLL \d+\.\d\d ± \d+\.\d\d\n$`); !again.MatchString(stdout) {
		t.Errorf("a task that is done prints %q", stdout)
	}
	for _, task := range []string{"4", "-1", "x"} {
		if _, stderr, status := mnist(t.Context(), tinyTable(out, "-task", task)...); status != 2 {
			t.Errorf("task %s: status %d, %s", task, status, stderr)
		}
	}

	// One run is running in another process, one was stopped, one has other settings.
	stopped := &interruption{t.Context(), 2}
	if _, stderr, status := mnist(stopped, tinyTable(out, "-task", "2")...); status != 130 || !strings.Contains(stderr, "start the same command again") {
		t.Errorf("status %d, %s", status, stderr)
	}
	if err := os.Mkdir(filepath.Join(out, tinyRuns[0]), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := filelock.Take(filepath.Join(out, tinyRuns[0], lockFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(out, tinyRuns[3]), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, tinyRuns[3], evaluationFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if states := list(); !slices.Equal(states, []string{"running", "done", "stopped", "refused"}) {
		t.Errorf("now: %v", states)
	}
	stdout, _ = mustTable(t, tinyTable(out, "-list")...)
	if !strings.HasSuffix(stdout, "\n4 runs: 1 done, 1 running, 1 stopped, 0 missing, 1 refused\n") {
		t.Errorf("the list is %s", stdout)
	}
	if _, stderr, status := mnist(t.Context(), tinyTable(out, "-task", "0")...); status != 1 || !strings.Contains(stderr, "in use by another process") {
		t.Errorf("a task that is at work elsewhere: status %d, %s", status, stderr)
	}
	lock.Release()
}

// The keys of all streams contain the seed, but nothing of the model.
func TestRowsOfASeedShareTheirStreams(t *testing.T) {
	keys := func(row, seed string) []string {
		var all []string
		for _, k := range random.Record(func() {
			mustTable(t, "table", "-data", few, "-dataset", "few", "-train", "100", "-epochs", "1", "-limit", "2", "-samples", "10", "-runs", "2", "-rows", row, "-seeds", seed, "-out", t.TempDir())
		}) {
			// An HVAE has more weights to initialise. The trainer's stream is not used.
			if strings.HasPrefix(k.Purpose, "mnist ") && !strings.HasPrefix(k.Purpose, "mnist start ") {
				all = append(all, fmt.Sprint(k))
			}
		}
		slices.Sort(all)
		return all
	}
	vae := keys("vae", "3")
	if len(vae) < 100 {
		t.Fatalf("%d streams", len(vae))
	}
	if diff := cmp.Diff(vae, keys("hvae-k2-free-varied", "3")); diff != "" {
		t.Errorf("the VAE and an HVAE draw from other streams:\n%s", diff)
	}
	for _, k := range keys("vae", "4") {
		if _, shared := slices.BinarySearch(vae, k); shared {
			t.Errorf("two seeds share the stream %v", k)
		}
	}
}
