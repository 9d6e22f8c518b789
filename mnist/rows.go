package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hvae/bench/plot"
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
}

func newTask(row string, seed uint64) task { return task{fmt.Sprintf("%s-%d", row, seed), row, seed} }

// published returns the results of Table 1: first the VAEs, then the HVAEs, ordered by K, tempering and ε.
var published = sync.OnceValue(func() (runs []result) {
	for line := range strings.Lines(publishedCSV) {
		var r result
		fields := strings.ReplaceAll(line, ",", " ")
		n, _ := fmt.Sscan(fields, &r.Row, &r.Seed, &r.Epochs, &r.ELBO, &r.ELBOSD, &r.NLL, &r.NLLSD)
		if n == 7 { // skip the header
			r.task, r.ELBO = newTask(r.Row, r.Seed), -r.ELBO
			runs = append(runs, r)
		}
	}
	return runs
})

// rowName matches the names of rows.
var rowName = regexp.MustCompile(`^(?:vae(?:-([lm])([1-9]\d{0,2}))?|hvae-k([1-9]\d*)-(none|fixed|free|untied)(-shared|-varied)?)$`)

// parseRow returns the model of the named row, such as vae, hvae-k1-none or hvae-k10-free-varied. If K > 1, the name
// ends in shared (all steps have the same step sizes) or varied (each step has separate step sizes).
func parseRow(name string) (model.Config, error) {
	c := model.Defaults().Config
	if m := rowName.FindStringSubmatch(name); m != nil {
		c.Kind, _, _ = strings.Cut(name, "-")
		c.Importance, c.Tempering, c.VaryEps = m[1] == "l", cmp.Or(m[4], "none"), m[5] == "-varied"
		c.Draws, _ = strconv.Atoi("0" + m[2])
		c.K, _ = strconv.Atoi("0" + m[3]) // Check rejects large numbers
		if c.Check() == nil && (c.K > 1) == (m[5] != "") {
			return c, nil
		}
	}
	return c, fmt.Errorf("there is no row %.40q: a row must be vae, vae-lL (L importance samples), vae-mL (mean of L draws), hvae-k1-TEMPERING or hvae-kK-TEMPERING-EPS, where K > 1, TEMPERING is none, fixed, free or untied, and EPS is shared or varied", name)
}

// defaultSeeds are the published seeds. Some rows were published only for the first two.
var defaultSeeds = []uint64{85547, 12345, 98765}

// plan returns a task for each row and seed. Tasks with the same seed are adjacent, so that rows can be compared before
// all tasks are done. If rows is nil, plan uses the published rows.
func plan(rows []string, seeds []uint64) (tasks []task) {
	if rows == nil {
		for _, r := range published() {
			rows = append(rows, r.Row)
		}
	}
	for _, seed := range seeds {
		for _, row := range rows {
			if k := newTask(row, seed); !slices.Contains(tasks, k) { // a published row is repeated for each seed
				tasks = append(tasks, k)
			}
		}
	}
	return tasks
}

// A result is the result of a task, published in the paper or computed by this program. ELBO and NLL are in nats.
type result struct {
	task
	Epochs  int         `json:"epochs"`
	ELBO    eval.Number `json:"elbo,omitzero"`    // negative
	ELBOSD  eval.Number `json:"elbo_sd,omitzero"` // standard deviation over evaluations
	ELBOs   []float64   `json:"elbos,omitempty"`  // for each evaluation, the mean over images; nil if published
	NLL     eval.Number `json:"nll,omitzero"`
	NLLSD   eval.Number `json:"nll_sd,omitzero"`
	NLLs    []float64   `json:"nlls,omitempty"`
	Seconds float64     `json:"seconds,omitempty"` // duration of training and evaluation

	metrics []model.Metrics // of all epochs; nil if published
}

func (r result) String() string {
	elbo, nll := eval.PlusMinus(r.ELBO, r.ELBOSD), eval.PlusMinus(r.NLL, r.NLLSD)
	return fmt.Sprintf("%s  epochs %d  ELBO %s  NLL %s", r.Run, r.Epochs, elbo, nll)
}

// A status is the progress of a task, which the table command prints with -list.
type status struct {
	Task   int    `json:"task"`
	State  string `json:"state"`           // done, running or open
	Error  string `json:"error,omitempty"` // why the table cannot use the run
	result        // complete if State is done; otherwise only the task and the number of trained epochs
}

func (s status) String() string {
	return strings.TrimRight(fmt.Sprintf("%3d %-30s %-7s %5d epochs %s", s.Task, s.Run, s.State, s.Epochs, s.Error), " ")
}

// A row summarises the results of a model.
type row struct {
	Row       string  `json:"row"`
	Published summary `json:"published"` // from Table 1 of the paper
	Obtained  summary `json:"obtained"`  // from this program

	config model.Config
}

// A summary contains statistics of the runs of a row. ELBO and NLL are in nats.
type summary struct {
	Seeds  int         `json:"seeds"`        // number of seeds
	Epochs eval.Number `json:"epochs"`       // mean over seeds
	ELBO   eval.Number `json:"elbo"`         // mean over seeds
	NLL    eval.Number `json:"nll"`          // mean over seeds
	SeedSD eval.Number `json:"nll_sd_seeds"` // standard deviation of the NLL over seeds
	// ToVAE is the NLL minus the NLL of the VAE with the same seed, averaged over the seeds that both rows
	// have. ToVAEError is its standard error. Pairs is the number of these seeds, 0 for the VAE itself.
	ToVAE      eval.Number `json:"to_vae"`
	ToVAEError eval.Number `json:"to_vae_se"`
	Pairs      int         `json:"pairs"`
}

// summarise returns the summary of a row. If results contains no run of the row, its means are NaN.
func summarise(row string, results []result) (s summary) {
	var epochs, elbos, nlls, differences []float64
	for _, r := range results {
		if r.Row != row {
			continue
		}
		epochs, elbos = append(epochs, float64(r.Epochs)), append(elbos, float64(r.ELBO))
		nlls = append(nlls, float64(r.NLL))
		for _, v := range results {
			if v.Row == "vae" && row != "vae" && v.Seed == r.Seed {
				differences = append(differences, float64(r.NLL-v.NLL))
			}
		}
	}
	s.Seeds, s.Pairs = len(nlls), len(differences)
	s.Epochs, _ = eval.MeanSD(epochs)
	s.ELBO, _ = eval.MeanSD(elbos)
	s.NLL, s.SeedSD = eval.MeanSD(nlls)
	s.ToVAE, s.ToVAEError = eval.MeanSE(differences)
	return s
}

const tableFile = "table.json"

// A report holds the contents of tableFile.
type report struct {
	protocol
	Rows    []row    `json:"rows"`
	Results []result `json:"results"`
}

// report returns a report on all finished runs. It omits damaged results.
func (t *table) report() report {
	r := report{protocol: t.protocol}
	for i := range t.tasks {
		if s, _ := t.read(i); s.State == "done" {
			r.Results = append(r.Results, s.result)
		}
	}
	for _, k := range t.tasks {
		if k.Seed == t.tasks[0].Seed { // the first seed has a task for each row
			c, _ := parseRow(k.Row)
			r.Rows = append(r.Rows, row{k.Row, summarise(k.Row, published()), summarise(k.Row, r.Results), c})
		}
	}
	return r
}

// files returns a map from the names of the table's files to their contents.
func (r report) files() map[string][]byte {
	return map[string][]byte{tableFile: encode(r), "table1.svg": figure(r.Rows), "budget.svg": budget(r)}
}

// printRows prints the rows, either as JSON or as a table with dashes for missing values.
func (t *table) printRows(r report) {
	if !t.asJSON {
		const head = "      NLL ± seed    minus VAE     ELBO epochs seeds"
		fmt.Fprintf(t.stdout, "\nNLL and ELBO in nats, published and obtained. %d of %d runs are finished, each evaluated on %d × %d images of %s with %d samples per image.\n",
			len(r.Results), len(t.tasks), r.Runs, r.Images, r.Data, r.Samples)
		fmt.Fprintf(t.stdout, "%-28s%-51sobtained\n%-22s%s%s\n", "", "published", "", head, head)
	}
	for _, x := range r.Rows {
		t.print(x)
	}
}

func (r row) String() string {
	return strings.ReplaceAll(fmt.Sprintf("%-22s%v%v", r.Row, r.Published, r.Obtained), "NaN", "  –")
}

func (s summary) String() string {
	nll, difference := eval.PlusMinus(s.NLL, s.SeedSD), eval.PlusMinus(s.ToVAE, s.ToVAEError)
	return fmt.Sprintf("%16s %13s %8.2f %6.0f %5d", nll, difference, eval.HalfAway(s.ELBO), s.Epochs, s.Seeds)
}

// figure plots the NLL of each row minus the NLL of the VAE with the same seed, as a function of K. There is a line for
// each kind of tempering and step sizes. Error bars are standard errors over seeds. The difference is more precise than
// the NLL, which depends more on the number of epochs than on the model.
func figure(rows []row) []byte {
	var ks []float64
	for _, r := range rows {
		ks = append(ks, float64(r.config.K))
	}
	slices.Sort(ks)
	ks = slices.Compact(ks)
	chart := func(title string, of func(row) summary) plot.Chart {
		c := plot.Chart{Title: title, XLabel: "K", YLabel: "NLL minus the VAE's ± s.e. (nats)", XTicks: ks}
		c.Series = []plot.Series{{Label: "VAE", X: ks, Y: make([]float64, len(ks)), Style: plot.Dashed}}
		for _, r := range rows {
			x := of(r)
			if x.Pairs == 0 {
				continue
			}
			label := strings.Replace(strings.TrimSuffix(r.Row, "-shared"), fmt.Sprintf("-k%d", r.config.K), "", 1)
			i := slices.IndexFunc(c.Series, func(s plot.Series) bool { return s.Label == label })
			if i < 0 {
				i, c.Series = len(c.Series), append(c.Series, plot.Series{Label: label})
			}
			s := &c.Series[i]
			s.X, s.Y = append(s.X, float64(r.config.K)), append(s.Y, float64(x.ToVAE))
			s.Error = append(s.Error, float64(x.ToVAEError))
		}
		return c
	}
	obtained := chart("Obtained", func(r row) summary { return r.Obtained })
	return plot.Panels(2, obtained, chart("Published", func(r row) summary { return r.Published }))
}

// budget plots the validation ELBO of each row against epochs (left) and against work (right). Lines are means over
// seeds, and error bars are ± one standard deviation. Work is the number of multiply-adds, in units of an epoch of the VAE.
// Unlike time, it does not depend on the load of the machine.
func budget(r report) []byte {
	const label = "validation ELBO ± s.d. over seeds (nats)"
	epochs := plot.Chart{Title: "At equal epochs", XLabel: "epoch", YLabel: label, LogX: true}
	work := plot.Chart{Title: "At equal work", XLabel: "work (epochs of a VAE)", YLabel: label, LogX: true}
	for _, x := range r.Rows {
		cost := float64(x.config.StepCost()) / float64(model.Config{Latent: x.config.Latent}.StepCost())
		s := plot.Series{Label: x.Row}
		scaled := s
		for epoch := 1; x.Obtained.Seeds > 0; epoch++ {
			var elbos []float64
			for _, o := range r.Results {
				if o.Row == x.Row && epoch <= o.Epochs {
					elbos = append(elbos, o.metrics[epoch-1].ValELBO)
				}
			}
			if len(elbos) < x.Obtained.Seeds {
				break
			}
			if mean, sd := eval.MeanSD(elbos); mean >= -120 { // the first epochs would compress the rest of the figure
				s.X, s.Y = append(s.X, float64(epoch)), append(s.Y, float64(mean))
				scaled.X = append(scaled.X, cost*float64(epoch))
				if len(elbos) > 1 {
					s.Error = append(s.Error, float64(sd))
				}
			}
		}
		if s.X != nil {
			scaled.Y, scaled.Error = s.Y, s.Error
			epochs.Series, work.Series = append(epochs.Series, s), append(work.Series, scaled)
		}
	}
	return plot.Panels(2, epochs, work)
}
