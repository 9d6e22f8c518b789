package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hvae/bench/document"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// These tests check that the figures, tables and sentences of the documents agree with the stored files of the runs.

const resultsREADME = "results/README.md"

// storedResults returns the results of the runs in a subfolder of mnist/results.
func storedResults(t *testing.T, folder string) []result {
	t.Helper()
	results, left := readResults(filepath.Join("results", folder))
	if left != nil {
		t.Error(left)
	}
	return results
}

func TestFiguresMatchTheirRuns(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the last digits of numbers differ on machines that fuse multiplications and additions")
	}
	differences, budget := figures(summaries(append(published(), storedResults(t, "full")...)))
	document.File(t, "results/full/table1.svg", differences)
	document.File(t, "results/full/budget.svg", budget)
	all, err := readMetrics("results/fixed-validation-noise/vae-85547/" + metricsFile)
	noError(t, err)
	document.File(t, "pictures/curve.svg", curve(model.Defaults().Config, "mnist", all))
}

// The table of runs has the lines of the table command for our runs and for the published rows of results/full.
func TestRunsMatchTheResults(t *testing.T) {
	full := storedResults(t, "full")
	runs := slices.Concat(published(), storedResults(t, "table"), storedResults(t, "epochs150"), full)
	text := ""
	lines := map[string]summary{} // by row and protocol
	for _, s := range summaries(runs) {
		lines[s.row+" "+s.protocol] = s
		if s.protocol != publishedName || slices.ContainsFunc(full, func(r result) bool { return r.row == s.row }) {
			text += s.String() + "\n"
		}
	}
	_, columns, _ := strings.Cut(header, "\n\n")
	document.Part(t, resultsREADME, "runs", func(string) string { return "```\n" + columns + text + "```\n" })
	const protocol = " mnist, 2000 epochs, 10000 images, 1000 samples"
	vae, hvae := lines["vae"+protocol], lines["hvae-k5-free-varied"+protocol]
	ours, theirs := eval.PlusMinus(eval.MeanSD(vae.nlls)), eval.PlusMinus(eval.MeanSD(lines["vae published"].nlls))
	document.Sentence(t, "../README.md", "NLL %s against %s", ours, theirs)
	document.Sentence(t, "../README.md", "has an NLL of %v (published 83.11), the VAE with the same seed %v",
		hvae.runs[0].NLL, hvae.runs[0].NLL-eval.Number(hvae.differences[0]))
	stopped := full[slices.IndexFunc(full, func(r result) bool { return r.row == "hvae-k10-free-varied" })]
	document.Sentence(t, resultsREADME, "after %d epochs, the best validation ELBO is %.2f for K = 10, and %.2f for K = 5",
		stopped.epochs, model.Best(stopped.metrics).ValELBO, model.Best(hvae.runs[0].metrics[:stopped.epochs]).ValELBO)
	work := func(s summary) float64 { return float64(s.config.StepCost()) / float64(vae.config.StepCost()) }
	document.Sentence(t, resultsREADME, "after %.1f times the work", work(hvae))
	document.Sentence(t, resultsREADME, "%.1f times a VAE's work per epoch", work(lines["hvae-k15-free-varied published"]))
}

func TestCheckedInWeightsMatchTheirRuns(t *testing.T) {
	for file, folder := range map[string]string{
		"vae.safetensors":  "fixed-validation-noise/vae-85547",
		"hvae.safetensors": "full/hvae-k5-free-varied-85547",
	} {
		m, _, err := readCheckpoint(filepath.Join("results", file))
		noError(t, err)
		r, err := readResult("results/" + folder)
		noError(t, err)
		best := model.Best(r.metrics)
		if m.Config != r.Settings.Config || m.Seed != r.Settings.Seed || m.Epoch != best.Epoch || m.ELBO != best.ValELBO {
			t.Errorf("%s is from %v, seed %d, epoch %d, with validation ELBO %v, but the best epoch of the run is %+v",
				file, m.Config, m.Seed, m.Epoch, m.ELBO, best)
		}
		document.Sentence(t, "README.md", "best epoch %d of %d, ELBO %v, NLL %v", best.Epoch, r.epochs, r.ELBO, r.NLL)
	}
}

// Each line of results/examples.jsonl holds a command and the JSON that it printed.
func TestExamplesMatchTheResults(t *testing.T) {
	type example struct {
		Name   string
		Result eval.Evaluation
	}
	all := jsonLines[example](t, string(read(t, "results/examples.jsonl")))
	document.Rows(t, "README.md", "examples", 1, func(c []string) { // name, ELBO, NLL, gap, error of the NLL, heavy tails
		e := all[slices.IndexFunc(all, func(e example) bool { return e.Name == c[0] })].Result
		c[1], c[2] = eval.PlusMinus(e.ELBO, e.ELBOSD), eval.PlusMinus(e.NLL, e.NLLSD)
		if e.Data == "simulated" {
			c[3] = eval.PlusMinus(e.Gap, e.GapSE)
		}
		if e.Method == "ais" {
			c[4] = eval.PlusMinus(e.Missed, e.MissedSE)
		}
		if e.Samples == 1000 {
			c[5] = fmt.Sprintf("%.0f %%", 100*e.HeavyTails)
		}
	})
}

func TestRowsMatchTheirNames(t *testing.T) {
	for name, want := range map[string]model.Config{
		"vae":                  {Kind: "vae", Tempering: "none", Latent: 64},
		"vae-l12":              {Kind: "vae", Tempering: "none", Latent: 64, Draws: 12, Importance: true},
		"vae-m3":               {Kind: "vae", Tempering: "none", Latent: 64, Draws: 3},
		"hvae-k0-none":         {Kind: "hvae", Tempering: "none", Latent: 64},
		"hvae-k1-untied":       {Kind: "hvae", K: 1, Tempering: "untied", Latent: 64},
		"hvae-k5-fixed-shared": {Kind: "hvae", K: 5, Tempering: "fixed", Latent: 64},
		"hvae-k10-free-varied": {Kind: "hvae", K: 10, Tempering: "free", VaryEps: true, Latent: 64},
	} {
		if s, err := parseRow(name); s.Config != want || err != nil {
			t.Errorf("the row %s has the model %+v (%v)", name, s.Config, err)
		}
	}
	for _, name := range []string{"", "hvae", "vae-k1-none", "hvae-k1-none-shared", "hvae-k5-free", "hvae-k05-free-varied", "vae-l0"} {
		if s, err := parseRow(name); err == nil {
			t.Errorf("parseRow accepts %q as %v", name, s.Config)
		}
	}
}
