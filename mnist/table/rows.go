package table

import (
	"fmt"
	"math"
	"slices"

	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// A task is a run of the table: a row and a seed.
type task struct {
	row    string
	config model.Config
	seed   uint64
}

func (t task) String() string { return fmt.Sprintf("%s-%d", t.row, t.seed) }

// plan returns the tasks, ordered by seed so that rows can be compared early. With nil rows or
// seeds they are the published runs.
func plan(rows []string, seeds []uint64) (tasks []task) {
	if rows == nil {
		for _, r := range published() {
			if !slices.Contains(rows, r.Row) {
				rows = append(rows, r.Row)
			}
		}
	}
	all := seeds
	if all == nil {
		all = []uint64{85547, 12345, 98765}
	}
	for _, seed := range all {
		for _, row := range rows {
			isPublished := slices.ContainsFunc(published(), func(r result) bool { return r.Row == row && r.Seed == seed })
			isRow := slices.ContainsFunc(published(), func(r result) bool { return r.Row == row })
			c, _ := ParseRow(row) // checked by the flag
			if k := (task{row, c, seed}); (seeds != nil || isPublished || !isRow && seed != 98765) && !slices.Contains(tasks, k) {
				tasks = append(tasks, k)
			}
		}
	}
	return tasks
}

// A row is a row of the table.
type row struct {
	Row       string   `json:"row"`
	K         int      `json:"K"`
	Tempering string   `json:"tempering"`
	Eps       string   `json:"eps"` // shared or varied; empty for K < 2
	Published *summary `json:"published"`
	Obtained  *summary `json:"obtained"`

	config model.Config
}

// A summary summarises the runs of a row over their seeds.
type summary struct {
	Seeds  int     `json:"seeds"`
	Epochs float64 `json:"epochs"` // mean
	ELBO   float64 `json:"elbo"`   // mean over seeds, nats
	NLL    float64 `json:"nll"`
	// Standard deviations of NLL, null for a single value. EvaluationSD is the square root of
	// the mean, over runs, of the variance over evaluations.
	EvaluationSD *float64 `json:"nll_sd_evaluations"`
	SeedSD       *float64 `json:"nll_sd_seeds"`
	// NLL minus the NLL of the VAE with the same seed: mean over the seeds of both, and its
	// standard error. Null for the VAE and without common seeds.
	ToVAE      *float64 `json:"to_vae"`
	ToVAEError *float64 `json:"to_vae_se"`
	Pairs      int      `json:"pairs"`
}

// summarise summarises the runs of a row, nil if there are none.
func summarise(row string, all []result) *summary {
	var runs []result
	vae := map[uint64]float64{}
	for _, r := range all {
		if r.Row == row {
			runs = append(runs, r)
		}
		if r.Row == "vae" {
			vae[r.Seed] = r.NLL
		}
	}
	if runs == nil {
		return nil
	}
	s := &summary{Seeds: len(runs)}
	n := float64(len(runs))
	var nlls, differences []float64
	variance, several := 0.0, true
	for _, r := range runs {
		s.Epochs += float64(r.Epochs) / n
		s.ELBO += r.ELBO / n
		nlls = append(nlls, r.NLL)
		if r.NLLSD == nil {
			several = false
		} else {
			variance += *r.NLLSD * *r.NLLSD / n
		}
		if v, ok := vae[r.Seed]; ok && row != "vae" {
			differences = append(differences, r.NLL-v)
		}
	}
	s.NLL, s.SeedSD = eval.MeanSD(nlls)
	if several {
		sd := math.Sqrt(variance)
		s.EvaluationSD = &sd
	}
	if s.Pairs = len(differences); s.Pairs > 0 {
		mean, se := eval.MeanSE(differences)
		s.ToVAE, s.ToVAEError = &mean, se
	}
	return s
}

// makeRows returns the rows of the tasks, in their order.
func makeRows(tasks []task, obtained []result) (rows []row) {
	for _, k := range tasks {
		if slices.ContainsFunc(rows, func(r row) bool { return r.Row == k.row }) {
			continue
		}
		r := row{Row: k.row, K: k.config.K, Tempering: k.config.Tempering, config: k.config}
		if r.K > 1 {
			r.Eps = map[bool]string{false: "shared", true: "varied"}[k.config.VaryEps]
		}
		r.Published, r.Obtained = summarise(k.row, published()), summarise(k.row, obtained)
		rows = append(rows, r)
	}
	return rows
}
