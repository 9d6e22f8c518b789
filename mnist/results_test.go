package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// These tests check that the figures and tables in results/README.md agree with the stored files of the runs.

var update = flag.Bool("update", false, "replace the figures in results and in pictures")

// matches checks that the named file has the given contents.
func matches(t *testing.T, name string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(name); !bytes.Equal(got, want) {
		t.Errorf("%s disagrees with the runs (%v); go test -update writes it again", name, err)
		if *update {
			os.WriteFile(name, want, 0o644)
		}
	}
}

// shows checks that a document contains the formatted text. It treats minus signs as hyphens and line breaks as spaces.
func shows(t *testing.T, document, format string, args ...any) {
	t.Helper()
	plain := func(text string) string {
		return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "−", "-")
	}
	if text := fmt.Sprintf(format, args...); !strings.Contains(plain(string(read(t, document))), plain(text)) {
		t.Errorf("%s does not contain %q", document, text)
	}
}

const resultsREADME = "results/README.md"

// signed formats a difference with its sign, followed by ± and the standard error unless se is NaN.
func signed(v, se eval.Number) string {
	if v < 0 {
		return eval.PlusMinus(v, se)
	}
	return "+" + eval.PlusMinus(v, se)
}

// list formats numbers, separated by commas.
func list[T any](format string, numbers ...T) string {
	var texts []string
	for _, v := range numbers {
		texts = append(texts, fmt.Sprintf(format, v))
	}
	return strings.Join(texts, ", ")
}

// stored returns summaries of the published runs and of the runs in a subfolder of mnist/results.
func stored(t *testing.T, folder string) []summary {
	t.Helper()
	var left strings.Builder
	results := readResults(filepath.Join("results", folder), &left)
	if left.Len() > 0 {
		t.Error(left.String())
	}
	return summaries(append(published(), results...))
}

// find returns the summary of a row of Table 1, either of the published runs or of ours.
func find(all []summary, row string, published bool) summary {
	i := slices.IndexFunc(all, func(s summary) bool { return s.row == row && published == (s.protocol == publishedName) })
	return all[i]
}

// evaluated returns the evaluation of the run in a subfolder of mnist/results.
func evaluated(t *testing.T, folder string) (e evaluation) {
	t.Helper()
	noError(t, json.Unmarshal(read(t, "results", folder, evaluationFile), &e))
	return e
}

func TestFiguresMatchTheirRuns(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the last digits of numbers differ on machines that fuse multiplications and additions")
	}
	differences, budget := figures(stored(t, "full"))
	matches(t, "results/full/table1.svg", differences)
	matches(t, "results/full/budget.svg", budget)
	const run = "results/fixed-validation-noise/vae-85547/" + metricsFile
	all, err := readMetrics(run)
	noError(t, err)
	r := &trainingRun{state: state{Settings: model.Defaults(), Data: "mnist", Metrics: all}}
	matches(t, "pictures/curve.svg", r.curve())
	if !bytes.Equal(encodeMetrics(all), read(t, run)) {
		t.Error("the metrics differ from the file after reading and writing")
	}
}

func TestFullRunsMatchTheResults(t *testing.T) {
	full := stored(t, "full")
	// run returns three columns of a table row for a run in a folder: the number of epochs, the ELBO and the NLL.
	run := func(folder string) string {
		r, err := readResult("results/" + folder)
		noError(t, err)
		return fmt.Sprintf(" %d | %s | %s |", r.epochs, eval.PlusMinus(r.ELBO, r.ELBOSD), eval.PlusMinus(r.NLL, r.NLLSD))
	}
	models := map[string]string{"vae": "VAE", "hvae-k5-free-varied": "HVAE"}
	// The loop reads publishedCSV directly, because published() drops the standard deviations.
	for line := range strings.Lines(publishedCSV) {
		f := strings.Split(strings.TrimSpace(line), ",")
		folder := "full/" + f[0] + "-" + f[1]
		if _, err := os.Stat("results/" + folder); err == nil {
			shows(t, resultsREADME, "| %s, %s | %s | -%s ± %s | %s ± %s |%s", models[f[0]], f[1], f[2], f[3], f[4], f[5], f[6], run(folder))
		}
	}
	mean := func(s summary) string {
		epochs, _ := eval.MeanSD(s.epochs)
		elbo, _ := eval.MeanSD(s.elbos)
		return fmt.Sprintf(" %.0f | %v | %s |", epochs, elbo, eval.PlusMinus(eval.MeanSD(s.nlls)))
	}
	shows(t, resultsREADME, "| VAE, mean |%s%s", mean(find(full, "vae", true)), mean(find(full, "vae", false)))
	shows(t, resultsREADME, "| VAE, 85547, in `fixed-validation-noise/` | | | |%s", run("fixed-validation-noise/vae-85547"))
}

// The numbers in the text of results/README.md must agree with the results.
func TestTextOfTheREADMEMatchesTheResults(t *testing.T) {
	table, long, full := stored(t, "table"), stored(t, "epochs150"), stored(t, "full")
	vae, hvae := find(full, "vae", false), find(long, "hvae-k5-free-varied", false)
	less := func(s summary) string { return signed(eval.MeanSE(s.differences)) }
	elbo, _ := eval.MeanSD(vae.elbos)
	shows(t, resultsREADME, "%v and %s (full protocol", elbo, eval.PlusMinus(eval.MeanSD(vae.nlls)))
	shows(t, resultsREADME, "NLL %s after 150 epochs", less(hvae))
	shows(t, resultsREADME, "%s with one ε and %s with several",
		less(find(table, "hvae-k5-fixed-shared", false)), less(find(table, "hvae-k5-fixed-varied", false)))
	comparisons := 0.0
	for _, s := range table {
		if s.protocol != publishedName && s.differences != nil {
			comparisons++
			shows(t, resultsREADME, "%s (`%s`)", less(s), s.row)
		}
	}
	for _, row := range []string{"vae", "hvae-k5-free-varied"} {
		shows(t, resultsREADME, "%s (`%s`)", eval.PlusMinus(eval.MeanSD(find(long, row, false).nlls)), row)
	}
	inside := 1 - 0.05/comparisons // probability that |t| is not significant, for t with 2 degrees of freedom
	shows(t, resultsREADME, "from %.1f standard errors", math.Sqrt(2)*inside/math.Sqrt(1-inside*inside))
	var epochs []int
	for _, r := range published() {
		epochs = append(epochs, r.epochs)
	}
	shows(t, resultsREADME, "published runs took %d to %d epochs", slices.Min(epochs), slices.Max(epochs))
	leaves := map[bool][]int{} // epochs in which a run leaves the first plateau, by whether it is tempered and K = 5
	for _, s := range table {
		for _, r := range s.runs {
			early := s.config.K == 5 && s.config.Tempering != "none"
			if r.metrics != nil { // not published
				epoch := 1 + slices.IndexFunc(r.metrics, func(m model.Metrics) bool { return m.ValELBO > -195 })
				leaves[early] = append(leaves[early], epoch)
			}
		}
	}
	slices.Sort(leaves[true])
	slices.Sort(leaves[false])
	shows(t, resultsREADME, "leave it in epoch %s, the others in epoch %s",
		list("%d", slices.Compact(leaves[true])...), list("%d", slices.Compact(leaves[false])...))
}

// results/README.md must describe the HVAE whose training has ended, next to the VAE with the same seed.
func TestREADMEDescribesTheHVAE(t *testing.T) {
	hvae, err := readResult("results/full/hvae-k5-free-varied-85547")
	noError(t, err)
	vae, err := readResult("results/full/vae-85547")
	noError(t, err)
	best, bestVAE := model.Best(hvae.metrics), model.Best(vae.metrics)
	work := float64(hvae.Settings.StepCost()) / float64(vae.Settings.StepCost())
	shows(t, resultsREADME, "stopped after %d epochs, which is the work of %.0f epochs of a VAE", hvae.epochs, work*float64(hvae.epochs))
	shows(t, resultsREADME, "best validation ELBO is %.2f (epoch %d), and the VAE's is %.2f (epoch %d)",
		best.ValELBO, best.Epoch, bestVAE.ValELBO, bestVAE.Epoch)
	var eps, momentumSDs []float64
	for _, epoch := range []int{1, 10, 100, 300, best.Epoch} {
		m := hvae.metrics[epoch-1]
		eps, momentumSDs = append(eps, m.Eps), append(momentumSDs, m.MomentumSD)
	}
	shows(t, resultsREADME, "in epochs 1, 10, 100, 300 and %d, the median ε is %s, and 1/√β₀ = Π 1/α_k is %s",
		best.Epoch, list("%.3f", eps...), list("%.2f", momentumSDs...))
	difference := signed(hvae.NLL-vae.NLL, eval.Number(math.NaN()))
	shows(t, resultsREADME, "%s at the end of training (one seed", difference)
	shows(t, "../README.md", "has an NLL of %v (published 83.11), and the VAE with the same seed %v", hvae.NLL, vae.NLL)
	shows(t, "../README.md", "(median ε %.3f, 1/√β₀ %.2f)", best.Eps, best.MomentumSD)
}

func TestCheckedInWeightsMatchTheirRuns(t *testing.T) {
	for file, folder := range map[string]string{
		"vae.safetensors":  "results/fixed-validation-noise/vae-85547",
		"hvae.safetensors": "results/full/hvae-k5-free-varied-85547",
	} {
		m, err := readCheckpoint(filepath.Join("results", file))
		noError(t, err)
		r, err := readResult(folder)
		noError(t, err)
		best := model.Best(r.metrics)
		if m.Config != r.Settings.Config || m.Seed != r.Settings.Seed || m.Epoch != best.Epoch || m.ELBO != best.ValELBO {
			t.Errorf("%s is from %v, seed %d, epoch %d, with validation ELBO %v, but the best epoch of the run is %+v",
				file, m.Config, m.Seed, m.Epoch, m.ELBO, best)
		}
	}
}

// An armRun is a line of controls.jsonl: the kind of training run (Arm) and the result of evaluating it.
type armRun struct {
	Arm    string
	Result struct {
		ELBO, NLL, Lower eval.Number
		HeavyTails       eval.Number `json:"heavy_tails"`
		Images, Samples  int
	}
}

// results/README.md must show the results of all control runs and of the trained models.
func TestControlsAreInTheREADME(t *testing.T) {
	nlls := map[string][]float64{}   // by arm
	trained := map[string][]string{} // rows of the table of trained models
	for _, r := range jsonLines[armRun](t, string(read(t, "results/controls.jsonl"))) {
		name, isTrained := strings.CutPrefix(r.Arm, "trained: ")
		if !isTrained || r.Result.Images == 10_000 {
			nlls[r.Arm] = append(nlls[r.Arm], float64(r.Result.NLL))
			continue
		}
		if trained[name] == nil {
			trained[name] = make([]string, 5)
		}
		cells := trained[name]
		if r.Result.Samples == 12_000 {
			cells[3] = r.Result.NLL.String()
			continue
		}
		cells[0], cells[1] = r.Result.ELBO.String(), r.Result.NLL.String()
		cells[2] = fmt.Sprintf("%.0f %%", 100*r.Result.HeavyTails)
		if r.Result.Lower != 0 {
			cells[4] = (-r.Result.Lower).String()
		}
	}
	for name, cells := range trained {
		shows(t, resultsREADME, "| %s | %s |", name, strings.Join(cells, " | "))
	}
	without := nlls["trained: `hvae` without its flow"][0]
	with := evaluated(t, "full/hvae-k5-free-varied-85547").NLL
	shows(t, resultsREADME, "NLL of `hvae` without its flow is %.2f instead of %v", without, with)
	shows(t, resultsREADME, "NLL of `hvae.safetensors` without its flow is %.2f instead of %v", without, with)
	k0, vae := nlls["k0"], nlls["vae"]
	var more, moved []float64
	for i, seed := range []string{"85547", "12345", "98765"} { // the order of the seeds in controls.jsonl
		more = append(more, k0[i]-vae[i])
		moved = append(moved, vae[i]-float64(evaluated(t, "table/vae-"+seed).NLL))
	}
	shows(t, resultsREADME, "is %s higher (three seeds, not significant)", eval.PlusMinus(eval.MeanSE(more)))
	shows(t, resultsREADME, "moved by %s nats", list("%+.2f", moved...))
	shows(t, "../README.md", "gives an NLL of %.2f instead of %.2f", nlls["half rate"][0], nlls["full rate"][0])
}

func TestRowsMatchTheirNames(t *testing.T) {
	for name, want := range map[string]model.Config{
		"vae":                  {Kind: "vae", Tempering: "none", Latent: 64},
		"vae-l12":              {Kind: "vae", Tempering: "none", Latent: 64, Draws: 12, Importance: true},
		"vae-m3":               {Kind: "vae", Tempering: "none", Latent: 64, Draws: 3},
		"hvae-k1-untied":       {Kind: "hvae", K: 1, Tempering: "untied", Latent: 64},
		"hvae-k5-fixed-shared": {Kind: "hvae", K: 5, Tempering: "fixed", Latent: 64},
		"hvae-k10-free-varied": {Kind: "hvae", K: 10, Tempering: "free", VaryEps: true, Latent: 64},
	} {
		if s, err := parseRow(name); s.Config != want || err != nil {
			t.Errorf("the row %s has the model %+v (%v)", name, s.Config, err)
		}
	}
	for _, name := range []string{"", "hvae", "vae-k1-none", "hvae-k0-none", "hvae-k1-none-shared", "hvae-k5-free", "hvae-k05-free-varied", "vae-l0"} {
		if s, err := parseRow(name); err == nil {
			t.Errorf("parseRow accepts %q as %v", name, s.Config)
		}
	}
}

// The expected values were computed by hand from the NLLs. Two values a and b have the standard deviation |a − b|/√2.
func TestSummariesCompareRunsOfTheSameSeedAndProtocol(t *testing.T) {
	run := func(row string, seed uint64, protocol string, nll eval.Number) result {
		r := result{row: row, protocol: protocol, epochs: 10 * int(seed)}
		r.Settings.Seed, r.ELBO, r.NLL = seed, -nll-2, nll
		return r
	}
	all := summaries([]result{
		run("vae", 1, "p", 90), run("vae", 2, "p", 91), run("vae", 1, "q", 70), run("hvae-k1-none", 1, "p", 89),
		run("hvae-k1-none", 2, "p", 90.5), run("hvae-k1-none", 3, "p", 92.5), run("hvae-k1-none", 3, "q", 60),
	})
	got := ""
	for _, s := range all {
		got += strings.Join(strings.Fields(s.String()), " ") + "\n"
	}
	const want = `vae p 2 15 -92.50 90.50 ± 0.71 –
vae q 1 10 -72.00 70.00 –
hvae-k1-none p 3 20 -92.67 90.67 ± 1.76 -0.75 ± 0.25
hvae-k1-none q 1 30 -62.00 60.00 –
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the summaries differ (-want +got):\n%s", diff)
	}
}
