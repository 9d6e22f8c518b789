package main

import (
	"fmt"
	"testing"

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
	example := func(command string) eval.Evaluation {
		t.Helper()
		e, ok := examples[command]
		if !ok {
			t.Errorf("results/examples.jsonl does not contain the command %q", command)
		}
		return e
	}
	vae := example("eval -checkpoint runs/vae -limit 1000 -runs 1")
	shows(t, "README.md", "it prints ELBO %v, NLL %v, and that k̂ is above 0.667 for %.0f %% of the images", vae.ELBO, vae.NLL, 100*vae.HeavyTails)
	const vae1950, hvae825 = "eval -checkpoint mnist/results/vae.safetensors", "eval -checkpoint mnist/results/hvae.safetensors"
	for text, e := range map[string]eval.Evaluation{
		"`eval -samples 20` prints":             example(vae1950 + " -samples 20"),
		"(checkpoint.py) (PyTorch 1.13) prints": example("checkpoint.py mnist/results/vae.safetensors t10k-images-idx3-ubyte.gz 10000 20"),
	} {
		shows(t, "README.md", "%s ELBO %s and NLL %s", text, eval.PlusMinus(e.ELBO, e.ELBOSD), eval.PlusMinus(e.NLL, e.NLLSD))
	}
	gaps, errors, tails := "| upper − lower bound |", "| NLL too high by at least |", "| images with k̂ > 0.667 |"
	for _, flags := range []string{" -simulated", ""} {
		for _, command := range []string{vae1950, hvae825} {
			e := example(command + " -method ais -steps 300 -chains 8 -limit 100 -runs 1" + flags)
			gap := ""
			if e.Upper == e.Upper { // not NaN
				gap = " " + eval.PlusMinus(e.Gap, e.GapSE)
			}
			gaps += gap + " |"
			errors += " " + eval.PlusMinus(e.Missed, e.MissedSE) + " |"
			tails += fmt.Sprintf(" %.0f %% |", 100*e.HeavyTails)
		}
	}
	shows(t, "README.md", "%s %s %s", gaps, errors, tails)
}
