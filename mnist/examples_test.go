package main

import (
	"fmt"
	"strings"
	"testing"

	"hvae/mnist/eval"
	"hvae/mnist/run"
)

// Each line of results/examples.jsonl holds a command and the JSON object that it printed.
// README.md and results/README.md must quote these results.
func TestDocumentsMatchTheExamples(t *testing.T) {
	examples := map[string]eval.Evaluation{}
	for _, e := range jsonLines[struct {
		Command string
		Result  eval.Evaluation
	}](t, string(read(t, "results/examples.jsonl"))) {
		examples[e.Command] = e.Result
	}
	example := func(checkpoint, flags string) eval.Evaluation {
		t.Helper()
		e, ok := examples["eval -checkpoint "+checkpoint+".safetensors"+flags]
		if !ok {
			t.Fatalf("results/examples.jsonl does not contain the evaluation of %s with%s", checkpoint, flags)
		}
		return e
	}
	const annealing = " -method ais -steps 300 -chains 8 -limit 100 -runs 1"
	vae, hvae := example("runs/vae/model", " -limit 1000 -runs 1"), example("runs/hvae/model", " -limit 1000 -runs 1")
	simulated := example("mnist/results/vae", annealing+" -simulated")
	simulated150 := example("mnist/results/hvae150", annealing+" -simulated")

	readme, results := prose(t, "README.md"), prose(t, "results/README.md")
	contains := func(document, text string) {
		t.Helper()
		if text = strings.Join(strings.Fields(text), " "); !strings.Contains(document, text) {
			t.Errorf("no document contains %q", text)
		}
	}
	signed := func(v float64, err *float64) string { // with the sign − of the documents
		return strings.Replace(eval.PlusMinus(2, v, err), "-", "−", 1)
	}
	for _, m := range jsonLines[run.Metrics](t, string(read(t, "results/examples.metrics.jsonl"))) {
		if m.Epoch <= 5 || m.Epoch == 10 {
			contains(readme, fmt.Sprintf("epoch %d train %.2f validation %.2f %.1f s best so far", m.Epoch, m.TrainELBO, m.ValELBO, m.Seconds))
		}
	}
	contains(readme, fmt.Sprintf("vae, epoch 10, on 1000 test images of mnist, 1000 samples each, one run, %.0f s %v", vae.Seconds, vae))
	contains(readme, fmt.Sprintf("hvae, K = 5, free tempering, ε varied, epoch 10, on 1000 test images of mnist, 1000 samples each, one run, %.0f s %v", hvae.Seconds, hvae))
	contains(readme, fmt.Sprintf("vae, epoch 1950, on 100 images drawn from the model, 1000 samples each, one run, %.0f s %v", simulated.Seconds, simulated))
	contains(readme, fmt.Sprintf("as in the paper's table, is %s too high", signed(simulated.Missed, simulated.MissedSE)))
	contains(readme, fmt.Sprintf("the gap is %s, and the NLL is %s too high", signed(*simulated150.Gap, simulated150.GapSE), signed(simulated150.Missed, simulated150.MissedSE)))
	test, test150 := example("mnist/results/vae", annealing), example("mnist/results/hvae150", annealing)
	contains(readme, fmt.Sprintf("at least %s too high for the VAE and %s too high for the HVAE", signed(test.Missed, test.MissedSE), signed(test150.Missed, test150.MissedSE)))
	samples20 := example("mnist/results/vae", " -samples 20")
	contains(readme, "ELBO "+eval.PlusMinus(2, samples20.ELBO, samples20.ELBOSD)+" NLL "+eval.PlusMinus(2, samples20.NLL, samples20.NLLSD))

	first, all := example("mnist/results/vae", " -samples 60 -limit 2000"), example("mnist/results/vae", " -samples 60")
	contains(results, fmt.Sprintf("an NLL of %s on the first 2,000 and %s on all", signed(first.NLL, first.NLLSD), signed(all.NLL, all.NLLSD)))
	contains(results, fmt.Sprintf("at least %s nats too high for `vae.safetensors` and %s too high for `hvae150.safetensors`", signed(test.Missed, test.MissedSE), signed(test150.Missed, test150.MissedSE)))
}

// prose returns a file's text with single spaces instead of line breaks.
func prose(t *testing.T, file string) string {
	t.Helper()
	return strings.Join(strings.Fields(string(read(t, file))), " ")
}
