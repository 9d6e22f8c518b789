package main

import (
	"fmt"
	"testing"

	"hvae/bench/document"
	"hvae/mnist/eval"
)

// Each line of results/examples.jsonl holds a command and the JSON that it printed. README.md must show these results.
func TestREADMEMatchesTheExamples(t *testing.T) {
	examples := map[string]eval.Evaluation{}
	for _, e := range jsonLines[struct {
		Command string
		Result  eval.Evaluation
	}](t, string(read(t, "results/examples.jsonl"))) {
		examples[e.Command] = e.Result
	}
	const vae1950, hvae825 = "eval -checkpoint mnist/results/vae.safetensors", "eval -checkpoint mnist/results/hvae.safetensors"
	vae := examples["eval -checkpoint runs/vae -limit 1000 -runs 1"]
	document.Sentence(t, "README.md", "it prints ELBO %v, NLL %v, and that k̂ is above 0.667 for %.0f %% of the images",
		vae.ELBO, vae.NLL, 100*vae.HeavyTails)
	ours, python := examples[vae1950+" -samples 20"], examples["checkpoint.py mnist/results/vae.safetensors t10k-images-idx3-ubyte.gz 10000 20"]
	document.Sentence(t, "README.md", "`eval -samples 20` prints ELBO %s and NLL %s",
		eval.PlusMinus(ours.ELBO, ours.ELBOSD), eval.PlusMinus(ours.NLL, ours.NLLSD))
	document.Sentence(t, "README.md", "(PyTorch 1.13) prints ELBO %v and NLL %v", python.ELBO, python.NLL)
	rows := []string{"100 images | upper − lower bound | NLL too high by at least | images with k̂ > 0.667"}
	for _, c := range [][2]string{{"VAE, simulated", vae1950}, {"HVAE, simulated", hvae825}, {"VAE, test", vae1950}, {"HVAE, test", hvae825}} {
		command, gap := c[1]+" -method ais -steps 300 -chains 8 -limit 100 -runs 1", ""
		if len(rows) <= 2 {
			command += " -simulated"
		}
		e := examples[command]
		if e.Upper == e.Upper { // not NaN
			gap = eval.PlusMinus(e.Gap, e.GapSE)
		}
		rows = append(rows, fmt.Sprintf("%s | %s | %s | %.0f %%", c[0], gap, eval.PlusMinus(e.Missed, e.MissedSE), 100*e.HeavyTails))
	}
	document.Table(t, "README.md", "bounds", rows...)
}
