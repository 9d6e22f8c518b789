package main

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/mnist/eval"
)

func TestRowsMatchTheirNames(t *testing.T) {
	rows := (&table{tasks: plan(nil, defaultSeeds)}).report().Rows
	if len(rows) != 27 {
		t.Errorf("the paper's table has %d rows, want 27", len(rows))
	}
	for _, r := range rows {
		kind, K, tempering, eps := "vae", 0, "none", ""
		if parts := strings.Split(r.Row, "-"); len(parts) > 1 {
			kind = parts[0]
			K, _ = strconv.Atoi(strings.TrimPrefix(parts[1], "k"))
			tempering = parts[2]
			eps = strings.Join(parts[3:], "")
		}
		if c := r.config; c.Kind != kind || c.K != K || c.Tempering != tempering || c.VaryEps != (eps == "varied") || (K > 1) != (eps != "") {
			t.Errorf("the row %s has the model %+v", r.Row, c)
		}
	}
}

func TestParseRowRefusesOtherNames(t *testing.T) {
	for _, name := range []string{"", "hvae", "vae-k1-none", "hvae-k0-none", "hvae-k1-none-shared", "hvae-k5-free", "hvae-k05-free-varied", "hvae-k5-hot-varied", "hvae-k5-free-both", "hvae-k5-free-varied-1"} {
		if c, err := parseRow(name); err == nil {
			t.Errorf("parseRow accepts %q as %v", name, c)
		}
	}
}

// The expected hash is the SHA-256 of the sorted lines in the CSV blocks of the paper's source, with the columns Model,
// K and Tempering replaced by the name of the row.
func TestPublishedRunsAreThoseOfThePaper(t *testing.T) {
	const want = "531a12d9f2168001342ad05cef9c2e7974a3c8b60313111fbb8f81148d4ffb96"
	lines := slices.Sorted(strings.Lines(publishedCSV[strings.IndexByte(publishedCSV, '\n')+1:]))
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, "")))); len(lines) != 57 || sum != want {
		t.Errorf("published.csv contains %d runs with the hash %s, want 57 runs with the hash %s", len(lines), sum, want)
	}
}

func TestTheDefaultTasksContainThePublishedRuns(t *testing.T) {
	tasks := plan(nil, defaultSeeds)
	for _, r := range published() {
		if !slices.Contains(tasks, r.task) || len(tasks) != 27*3 {
			t.Errorf("the %d default tasks do not contain the published run %s", len(tasks), r.Run)
		}
	}
}

// The expected values were computed by hand from the NLLs. Two values a and b have the standard deviation |a − b|/√2.
func TestSummariesOfRuns(t *testing.T) {
	run := func(row string, seed uint64, nll eval.Number) result {
		return result{task: newTask(row, seed), Epochs: 10 * int(seed), ELBO: -nll - 2, NLL: nll}
	}
	results := []result{run("vae", 1, 90), run("vae", 2, 91), run("hvae-k1-none", 1, 89), run("hvae-k1-none", 2, 90.5), run("hvae-k1-none", 3, 92.5)}
	equal := func(got eval.Number, want float64) bool { return math.Abs(float64(got)-want) < 1e-12 }
	undefined := func(x eval.Number) bool { return math.IsNaN(float64(x)) }
	vae, hvae := summarise("vae", results), summarise("hvae-k1-none", results)
	if vae.Seeds != 2 || vae.Epochs != 15 || !equal(vae.NLL, 90.5) || !equal(vae.ELBO, -92.5) || !equal(vae.SeedSD, 1/math.Sqrt2) || !undefined(vae.ToVAE) || vae.Pairs != 0 {
		t.Errorf("the summary of the VAE is %+v", vae)
	}
	if hvae.Seeds != 3 || !equal(hvae.ToVAE, -0.75) || !equal(hvae.ToVAEError, 0.25) || hvae.Pairs != 2 { // differences −1 and −0.5
		t.Errorf("the summary of the HVAE is %+v", hvae)
	}
	if alone := summarise("hvae-k1-none", results[4:]); !undefined(alone.SeedSD) || !undefined(alone.ToVAE) || summarise("vae", results[4:]).Seeds != 0 {
		t.Errorf("the summary of a single run is %+v", alone)
	}
	var out strings.Builder
	r := report{protocol: protocol{Data: "mnist", Images: 5, Samples: 20, Runs: 2}, Results: results}
	for _, name := range []string{"vae", "hvae-k1-none", "hvae-k2-free-varied"} {
		r.Rows = append(r.Rows, row{Row: name, Published: summarise(name, published()), Obtained: summarise(name, results)})
	}
	(&table{stdout: &out, tasks: make([]task, 6)}).printRows(r)
	const want = `
NLL and ELBO in nats, published and obtained. 5 of 6 runs are finished, each evaluated on 2 × 5 images of mnist with 20 samples per image.
                            published                                          obtained
                            NLL ± seed    minus VAE     ELBO epochs seeds      NLL ± seed    minus VAE     ELBO epochs seeds
vae                       83.20 ± 0.05             –   -86.42   1402     3    90.50 ± 0.71             –   -92.50     15     2
hvae-k1-none              83.17 ± 0.18  -0.04 ± 0.08   -86.32   1446     2    90.67 ± 1.76  -0.75 ± 0.25   -92.67     20     3
hvae-k2-free-varied                  –             –        –      –     0               –             –        –      –     0
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the printed table differs (-want +got):\n%s", diff)
	}
}
