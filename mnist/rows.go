package main

import (
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// publishedCSV contains the 57 runs of Table 1: means and standard deviations over three evaluations, from
// the LaTeX source of the paper's appendix.
//
//go:embed published.csv
var publishedCSV string

// A task is a run of the table, determined by its row and seed.
type task struct {
	Run  string `json:"run"` // name of the run, ROW-SEED
	Row  string `json:"row"`
	Seed uint64 `json:"seed"`

	config model.Config
}

// newTask returns the task for a row and a seed. The name of the row must be valid.
func newTask(row string, seed uint64) task {
	c, _ := parseRow(row)
	return task{fmt.Sprintf("%s-%d", row, seed), row, seed, c}
}

// published returns the results of Table 1: first the VAEs, then the HVAEs, ordered by K, tempering and ε.
var published = sync.OnceValue(func() (runs []result) {
	for line := range strings.Lines(publishedCSV) {
		var r result
		n, _ := fmt.Sscanf(strings.ReplaceAll(line, ",", " "), "%s %d %d %f %f %f %f", &r.Row, &r.Seed, &r.Epochs, &r.ELBO, &r.ELBOSD, &r.NLL, &r.NLLSD)
		if n == 7 { // skip the header
			r.task, r.ELBO = newTask(r.Row, r.Seed), -r.ELBO
			runs = append(runs, r)
		}
	}
	return runs
})

// rowName matches the names of HVAE rows.
var rowName = regexp.MustCompile(`^hvae-k([1-9]\d*)-(none|fixed|free|untied)(-shared|-varied)?$`)

// drawsName matches the names of VAE rows with several draws per image.
var drawsName = regexp.MustCompile(`^vae-([lm])([1-9]\d{0,2})$`)

// parseRow returns the model of the named row, such as vae, hvae-k1-none or hvae-k10-free-varied. If
// K > 1, the name ends in shared (all steps have the same step sizes) or varied (separate step sizes).
func parseRow(name string) (c model.Config, err error) {
	c = model.Config{Kind: "vae", Tempering: "none", Latent: 64}
	if name == "vae" {
		return c, nil
	}
	if m := drawsName.FindStringSubmatch(name); m != nil {
		c.Importance = m[1] == "l"
		c.Draws, err = strconv.Atoi(m[2])
		return c, err
	}
	if m := rowName.FindStringSubmatch(name); m != nil {
		c.Kind, c.Tempering, c.VaryEps = "hvae", m[2], m[3] == "-varied"
		c.K, err = strconv.Atoi(m[1])
		if err == nil && c.Check() == nil && (c.K > 1) == (m[3] != "") {
			return c, nil
		}
	}
	return c, fmt.Errorf("there is no row %.40q: a row must be vae, vae-lL (L importance samples), vae-mL (mean of L draws), hvae-k1-TEMPERING or hvae-kK-TEMPERING-EPS, where K > 1, TEMPERING is none, fixed, free or untied, and EPS is shared or varied", name)
}

// plan returns a task for each row and seed. Tasks with the same seed are adjacent, so that rows can be
// compared early. If rows or seeds is nil, plan uses the published rows or seeds.
func plan(rows []string, seeds []uint64) (tasks []task) {
	const third = 98765 // the third seed, which only some published rows have
	all := seeds
	if all == nil {
		all = []uint64{85547, 12345, third}
	}
	if rows == nil {
		for _, r := range published() {
			rows = append(rows, r.Row) // the loop below skips repeated rows
		}
	}
	for _, seed := range all {
		for _, row := range rows {
			k := newTask(row, seed)
			isPublished := slices.ContainsFunc(published(), func(r result) bool { return r.task == k })
			if !slices.Contains(tasks, k) && (seeds != nil || seed != third || isPublished) {
				tasks = append(tasks, k)
			}
		}
	}
	return tasks
}

// A row summarises the results for one model, both from Table 1 of the paper and from this program.
type row struct {
	Row       string   `json:"row"`
	K         int      `json:"K"`
	Tempering string   `json:"tempering"`
	Eps       string   `json:"eps"` // shared or varied; empty for K < 2
	Published *summary `json:"published"`
	Obtained  *summary `json:"obtained"`

	config model.Config
}

// A summary contains statistics of the runs of a row. ELBO and NLL are in nats.
type summary struct {
	Seeds  int         `json:"seeds"`  // number of seeds
	Epochs eval.Number `json:"epochs"` // mean over seeds
	ELBO   eval.Number `json:"elbo"`   // mean over seeds
	NLL    eval.Number `json:"nll"`    // mean over seeds
	// EvaluationSD² is the variance of the NLL over the evaluations of a run, averaged over seeds. SeedSD is
	// the standard deviation over seeds.
	EvaluationSD eval.Number `json:"nll_sd_evaluations"`
	SeedSD       eval.Number `json:"nll_sd_seeds"`
	// ToVAE is the NLL minus the NLL of the VAE with the same seed, averaged over the seeds that both rows
	// have. ToVAEError is its standard error. Pairs is the number of these seeds, 0 for the VAE itself.
	ToVAE      eval.Number `json:"to_vae"`
	ToVAEError eval.Number `json:"to_vae_se"`
	Pairs      int         `json:"pairs"`
}

// summarise returns the summary of a row, or nil if results contains no run of the row.
func summarise(row string, results []result) *summary {
	var epochs, elbos, nlls, variances, differences []float64
	for _, r := range results {
		if r.Row != row {
			continue
		}
		epochs, elbos, nlls = append(epochs, float64(r.Epochs)), append(elbos, float64(r.ELBO)), append(nlls, float64(r.NLL))
		variances = append(variances, float64(r.NLLSD*r.NLLSD))
		for _, v := range results {
			if v.Row == "vae" && row != "vae" && v.Seed == r.Seed {
				differences = append(differences, float64(r.NLL-v.NLL))
			}
		}
	}
	if nlls == nil {
		return nil
	}
	s := &summary{Seeds: len(nlls), Pairs: len(differences)}
	s.Epochs, _ = eval.MeanSD(epochs)
	s.ELBO, _ = eval.MeanSD(elbos)
	s.NLL, s.SeedSD = eval.MeanSD(nlls)
	s.ToVAE, s.ToVAEError = eval.MeanSE(differences)
	variance, _ := eval.MeanSD(variances)
	s.EvaluationSD = eval.Number(math.Sqrt(float64(variance)))
	return s
}

// makeRows returns the distinct rows to which the tasks belong, in order of first appearance.
func makeRows(tasks []task, obtained []result) (rows []row) {
	for _, k := range tasks {
		if slices.ContainsFunc(rows, func(r row) bool { return r.Row == k.Row }) {
			continue
		}
		r := row{Row: k.Row, K: k.config.K, Tempering: k.config.Tempering, config: k.config}
		if r.K > 1 {
			r.Eps = map[bool]string{false: "shared", true: "varied"}[k.config.VaryEps]
		}
		r.Published, r.Obtained = summarise(k.Row, published()), summarise(k.Row, obtained)
		rows = append(rows, r)
	}
	return rows
}
