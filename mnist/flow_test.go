package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hvae/linalg"
)

// A flowRun is a model from the experiment with a frozen decoder (experiment 1 of results/expectations.txt).
type flowRun struct {
	Name       string    // such as k5-free; with another seed, k5-free-12345
	Images     []float64 // ELBO of each test image
	Eps, Alpha []float64 // learned ε and α_k of all steps
	S          float64   // learned s; 0 if the α_k determine s
}

// minus returns the difference between the ELBOs of a and b, averaged over images, and its standard error.
func (a flowRun) minus(b flowRun) string {
	var differences []float64
	for i, elbo := range a.Images {
		differences = append(differences, elbo-b.Images[i])
	}
	mean, se := linalg.MeanSE(differences)
	return fmt.Sprintf("%+.3f ± %.3f", mean, se)
}

// product returns Π α_k.
func (a flowRun) product() float64 {
	p := 1.0
	for _, alpha := range a.Alpha {
		p *= alpha
	}
	return p
}

// The numbers in the README about the experiment with a frozen decoder must agree with flow.jsonl.
func TestFrozenDecoderMatchesTheResults(t *testing.T) {
	runs := map[string]flowRun{}
	for _, r := range jsonLines[flowRun](t, string(read(t, "results/flow.jsonl"))) {
		runs[r.Name] = r
	}
	temperings := []string{"none", "fixed", "free", "untied"}
	for _, K := range []string{"1", "5", "10", "15", "20"} {
		line := "| " + K + " |"
		for _, tempering := range temperings {
			line += " " + runs["k"+K+"-"+tempering].minus(runs["k0"]) + " |"
		}
		free, untied := runs["k"+K+"-free"], runs["k"+K+"-untied"]
		epsilon := slices.Sorted(slices.Values(free.Eps))
		shows(t, resultsREADME, "%s %.3f | %.2f | %.2f |",
			line, epsilon[len(epsilon)/2], free.product(), untied.S*untied.product())
	}
	for text, pair := range map[string][2]string{
		"K = 20, free, minus K = 0": {"k20-free", "k0"},
		"K = 20 minus K = 5, free":  {"k20-free", "k5-free"},
		"free minus none, K = 10":   {"k10-free", "k10-none"},
		"untied minus free, K = 10": {"k10-untied", "k10-free"},
	} {
		shows(t, resultsREADME, "%s: %s", text, runs[pair[0]].minus(runs[pair[1]]))
	}
	for _, tempering := range temperings {
		var gains []string
		for _, seed := range []string{"", "-12345", "-98765"} {
			gain, _, _ := strings.Cut(runs["k5-"+tempering+seed].minus(runs["k0"+seed]), " ")
			gains = append(gains, gain)
		}
		shows(t, resultsREADME, "%s %s", tempering, strings.Join(gains, ", "))
	}
}
