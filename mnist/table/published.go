package table

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"hvae/mnist/model"
)

// publishedCSV holds the 57 runs of Table 1, from the CSV in the source of the paper's appendix.
// Means and standard deviations are over three evaluations.
//
//go:embed published.csv
var publishedCSV string

// A result is the result of a published run or of ours.
type result struct {
	Run     string   `json:"run"` // ROW-SEED
	Row     string   `json:"row"`
	Seed    uint64   `json:"seed"`
	Epochs  int      `json:"epochs"`
	ELBO    float64  `json:"elbo"`    // nats, negative
	ELBOSD  *float64 `json:"elbo_sd"` // over evaluations; null for one
	NLL     float64  `json:"nll"`     // nats, positive
	NLLSD   *float64 `json:"nll_sd"`
	Seconds float64  `json:"seconds,omitempty"` // of training and evaluation

	curve []float64 // validation ELBO of each epoch; nil for a published run
}

// published returns the published runs: the VAE's, then ordered by K, tempering and ε.
var published = sync.OnceValue(func() (runs []result) {
	records, err := csv.NewReader(strings.NewReader(publishedCSV)).ReadAll()
	if err != nil {
		panic(err)
	}
	for _, r := range records[1:] {
		number := func(i int) float64 {
			v, err := strconv.ParseFloat(r[i], 64)
			if err != nil {
				panic(err)
			}
			return v
		}
		elboSD, nllSD := number(4), number(6)
		runs = append(runs, result{
			Run: r[0] + "-" + r[1], Row: r[0], Seed: uint64(number(1)), Epochs: int(number(2)),
			ELBO: -number(3), ELBOSD: &elboSD, NLL: number(5), NLLSD: &nllSD,
		})
	}
	return runs
})

// ParseRow returns the model of a row, such as vae, hvae-k1-none or hvae-k10-free-varied.
func ParseRow(name string) (c model.Config, err error) {
	c = model.Config{Kind: "vae", Tempering: "none", Latent: 64}
	if name == "vae" {
		return c, nil
	}
	parts := strings.Split(name, "-")
	c.Kind = parts[0]
	if len(parts) >= 3 && strings.HasPrefix(parts[1], "k") {
		c.K, _ = strconv.Atoi(parts[1][1:])
		c.Tempering = parts[2]
	}
	c.VaryEps = len(parts) == 4 && parts[3] == "varied"
	if c.K < 1 || c.Check() != nil || name != rowName(c) {
		return c, fmt.Errorf("there is no row %.40q: rows are vae, hvae-k1-TEMPERING, and hvae-kK-TEMPERING-EPS with K > 1, TEMPERING none, fixed or free, and EPS shared or varied", name)
	}
	return c, nil
}

// rowName returns the name of a model's row. With K = 1, there are no steps to share step sizes.
func rowName(c model.Config) string {
	if c.Kind == "vae" {
		return "vae"
	}
	name := fmt.Sprintf("hvae-k%d-%s", c.K, c.Tempering)
	switch {
	case c.K == 1:
		return name
	case c.VaryEps:
		return name + "-varied"
	}
	return name + "-shared"
}
