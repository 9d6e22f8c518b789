package main

import (
	"fmt"
	"strings"
	"testing"

	"hvae/mnist/eval"
)

// Each line of results/examples.jsonl holds a command and the JSON object that it printed. The output blocks and tables
// in README.md must show these results.
func TestREADMEMatchesTheExamples(t *testing.T) {
	readme := string(read(t, "README.md"))
	examples, printed := map[string]eval.Evaluation{}, map[string]bool{"": true}
	for _, e := range jsonLines[struct {
		Command string
		Result  eval.Evaluation
	}](t, string(read(t, "results/examples.jsonl"))) {
		examples[e.Command] = e.Result
		for line := range strings.Lines(e.Result.String()) {
			printed[strings.TrimSpace(line)] = true
		}
	}
	vae := examples["eval -checkpoint runs/vae -limit 1000 -runs 1"]
	printed[fmt.Sprintf("vae, epoch 10, on %d test images of mnist, %d samples each, runs: 1, %.0f s", vae.Images, vae.Samples, vae.Seconds)] = true
	blocks := 0
	for i, block := range strings.Split(readme, "```") {
		if i%2 == 0 || strings.HasPrefix(block, "python") { // another test checks blocks of Python
			continue
		}
		blocks++
		for line := range strings.Lines(strings.TrimSpace(block)) {
			if !printed[strings.TrimSpace(line)] {
				t.Errorf("README.md contains the line %q, which is not the output of an example", line)
			}
		}
	}
	if blocks != 1 {
		t.Errorf("README.md contains %d blocks of output, want 1", blocks)
	}

	example := func(command string) eval.Evaluation {
		t.Helper()
		e, ok := examples[command]
		if !ok {
			t.Errorf("results/examples.jsonl does not contain the command %q", command)
		}
		return e
	}
	const vae1950, hvae150 = "eval -checkpoint mnist/results/vae.safetensors", "eval -checkpoint mnist/results/hvae150.safetensors"
	for text, e := range map[string]eval.Evaluation{
		"`eval -samples 20` prints":             example(vae1950 + " -samples 20"),
		"(checkpoint.py) (PyTorch 1.13) prints": example("checkpoint.py mnist/results/vae.safetensors t10k-images-idx3-ubyte.gz 10000 20"),
	} {
		shows(t, "README.md", "%s ELBO %s and NLL %s", text, eval.PlusMinus(e.ELBO, e.ELBOSD), eval.PlusMinus(e.NLL, e.NLLSD))
	}
	gaps, errors, tails := "| upper − lower bound |", "| NLL too high by at least |", "| images with k̂ > 0.667 |"
	for _, flags := range []string{" -simulated", ""} {
		for _, command := range []string{vae1950, hvae150} {
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
