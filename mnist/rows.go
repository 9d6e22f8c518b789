package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hvae/bench/atomicfile"
	"hvae/bench/filelock"
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

// rowName matches the names of rows.
var rowName = regexp.MustCompile(`^(?:vae(?:-([lm])([1-9]\d{0,2}))?|hvae-k([1-9]\d*)-(none|fixed|free|untied)(-shared|-varied)?)$`)

// parseRow returns the model of the named row, such as vae, hvae-k1-none or hvae-k10-free-varied. If K > 1, the name
// ends in shared (all steps have the same step sizes) or varied (each step has separate step sizes).
func parseRow(name string) (model.Config, error) {
	c := model.Defaults().Config
	m := rowName.FindStringSubmatch(name)
	if m != nil && m[3] == "" {
		c.Importance = m[1] == "l"
		c.Draws, _ = strconv.Atoi("0" + m[2])
		return c, nil
	}
	if m != nil {
		c.Kind, c.Tempering, c.VaryEps = "hvae", m[4], m[5] == "-varied"
		c.K, _ = strconv.Atoi(m[3]) // Check rejects large numbers
		if c.Check() == nil && (c.K > 1) == (m[5] != "") {
			return c, nil
		}
	}
	return c, fmt.Errorf("there is no row %.40q: a row must be vae, vae-lL (L importance samples), vae-mL (mean of L draws), hvae-k1-TEMPERING or hvae-kK-TEMPERING-EPS, where K > 1, TEMPERING is none, fixed, free or untied, and EPS is shared or varied", name)
}

// plan returns a task for each row and seed. Tasks with the same seed are adjacent, so that rows can be compared before
// all tasks are done. If rows is nil, plan uses the published rows. If seeds is nil, it uses the first two published
// seeds for each row, and the third only for published runs.
func plan(rows []string, seeds []uint64) (tasks []task) {
	const third = 98765 // the third seed, which only some published rows have
	usual := seeds == nil
	if usual {
		seeds = []uint64{85547, 12345, third}
	}
	if rows == nil {
		for _, r := range published() {
			rows = append(rows, r.Row) // the loop below skips repeated rows
		}
	}
	for _, seed := range seeds {
		for _, row := range rows {
			k := newTask(row, seed)
			isPublished := slices.ContainsFunc(published(), func(r result) bool { return r.task == k })
			if !slices.Contains(tasks, k) && (!usual || seed != third || isPublished) {
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
	// EvaluationSD² is the variance of the NLL over the evaluations of a run, averaged over seeds. SeedSD is the
	// standard deviation of the NLL over seeds.
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

// makeRows returns the rows of the tasks, without repetitions, in order of first appearance.
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

// An evaluation holds the contents of evaluationFile. With the same images, number of samples and seed, the eval
// command computes the same results.
type evaluation struct {
	Run      string          `json:"run"`
	Settings json.RawMessage `json:"settings"` // settings of the training, only for human readers
	Data     string          `json:"data"`
	Epoch    int             `json:"epoch"` // best epoch, whose weights are evaluated
	ValELBO  float64         `json:"val_elbo"`
	Images   int             `json:"images"`
	Samples  int             `json:"samples"`
	Seed     uint64          `json:"seed"`
	ELBOs    []float64       `json:"elbos"` // for each evaluation, the mean over images
	NLLs     []float64       `json:"nlls"`
	Seconds  float64         `json:"seconds"`
	SHA256   string          `json:"sha256,omitempty"` // digest of the other fields and of the metrics; older files lack it
}

// evaluation returns an evaluation without results. It sets only the fields that follow from the protocol, task and
// metrics.
func (t *table) evaluation(k task, metrics []model.Metrics) evaluation {
	best := model.Best(metrics)
	return evaluation{Run: k.Run, Data: t.Data, Epoch: best.Epoch, ValELBO: best.ValELBO, Images: t.Images, Samples: t.Samples, Seed: k.Seed}
}

func (e evaluation) encode() []byte {
	b, _ := json.MarshalIndent(e, "", " ") // cannot fail, because all numbers are finite
	return append(b, '\n')
}

// digest returns the SHA-256 of e, without the field SHA256, followed by the metrics.
func (e evaluation) digest(metrics []model.Metrics) string {
	e.SHA256 = ""
	b, _ := json.Marshal(metrics) // cannot fail, because all numbers are finite
	return fmt.Sprintf("%x", sha256.Sum256(append(e.encode(), b...)))
}

// A result holds the result of a task, either published in the paper or computed by this program.
type result struct {
	task
	Epochs  int         `json:"epochs"`
	ELBO    eval.Number `json:"elbo"`    // nats, negative
	ELBOSD  eval.Number `json:"elbo_sd"` // standard deviation over evaluations
	NLL     eval.Number `json:"nll"`     // nats, positive
	NLLSD   eval.Number `json:"nll_sd"`
	Seconds float64     `json:"seconds,omitempty"` // duration of training and evaluation

	curve []float64 // validation ELBO of each epoch; nil for a published run
}

// result combines the evaluation e and the metrics of all epochs into the result of task k.
func (e evaluation) result(k task, metrics []model.Metrics) *result {
	r := &result{task: k, Epochs: len(metrics), Seconds: e.Seconds}
	for _, m := range metrics {
		r.Seconds += m.Seconds
		r.curve = append(r.curve, m.ValELBO)
	}
	r.ELBO, r.ELBOSD = eval.MeanSD(e.ELBOs)
	r.NLL, r.NLLSD = eval.MeanSD(e.NLLs)
	return r
}

// print prints the result as one line.
func (r *result) print(w io.Writer, asJSON bool) {
	if asJSON {
		json.NewEncoder(w).Encode(r)
		return
	}
	fmt.Fprintf(w, "%s  epochs %d  ELBO %s  NLL %s\n", r.Run, r.Epochs, eval.PlusMinus(r.ELBO, r.ELBOSD), eval.PlusMinus(r.NLL, r.NLLSD))
}

// A status is the progress of a task. With -list, the table command prints it on one line.
type status struct {
	Task   int    `json:"task"`
	Run    string `json:"run"`
	State  string `json:"state"`           // done, running or open
	Epochs int    `json:"epochs"`          // number of trained epochs
	Error  string `json:"error,omitempty"` // why the table cannot use the run
}

// read returns the status of a task and its result, which is nil unless training and evaluation have ended. It returns
// an error if a file is damaged or does not belong to the table. It does not need the weights of a finished run.
func (t *table) read(k task) (s status, r *result, err error) {
	s = status{Run: k.Run, State: "open"}
	if t.root == nil {
		return s, nil, nil
	}
	root, err := t.root.OpenRoot(k.Run)
	if err != nil {
		return s, nil, unlessMissing(err)
	}
	defer root.Close()
	if filelock.Held(root, lockFile) {
		s.State = "running"
	}
	metrics, err := readMetrics(root)
	s.Epochs = len(metrics)
	if err != nil {
		return s, nil, err
	}
	b, err := atomicfile.ReadIn(root, evaluationFile)
	if err != nil {
		return s, nil, unlessMissing(err)
	}
	e, err := t.check(k, metrics, b)
	if err != nil {
		return s, nil, fmt.Errorf("%s %w; move the file away to evaluate the run again from its %s", filepath.Join(root.Name(), evaluationFile), err, stateFile)
	}
	s.State = "done"
	return s, e.result(k, metrics), nil
}

// check returns the evaluation in b. It returns an error if the evaluation is damaged, or if it does not match the
// metrics and the protocol of the table.
func (t *table) check(k task, metrics []model.Metrics, b []byte) (e evaluation, err error) {
	err = json.Unmarshal(b, &e)
	want, n := t.evaluation(k, metrics), len(metrics)
	want.Settings, want.ELBOs, want.NLLs, want.Seconds, want.SHA256 = e.Settings, e.ELBOs, e.NLLs, e.Seconds, e.SHA256
	// Package json ignores missing fields and decodes null as 0, so compare the file with the encoding of want.
	whole := err == nil && bytes.Equal(want.encode(), b) && (e.SHA256 == "" || e.SHA256 == e.digest(metrics))
	ended := model.Ended(metrics, t.Epochs, t.Patience) != "" && model.Ended(metrics[:n-1], t.Epochs, t.Patience) == ""
	if !whole || !ended || metrics[n-1].Rate != 0 || len(e.ELBOs) != len(e.NLLs) || len(e.NLLs) < t.Runs {
		return e, errors.New("is damaged, or does not match this table and the metrics of the run")
	}
	e.ELBOs, e.NLLs = e.ELBOs[:t.Runs], e.NLLs[:t.Runs] // these results do not depend on the number of evaluations
	return e, nil
}

// list prints a line for each run. If t.asJSON is false, it also prints how many runs are done, running and open.
func (t *table) list() error {
	var out bytes.Buffer
	count := map[string]int{}
	for i, k := range t.tasks {
		s, _, err := t.read(k)
		s.Task = i
		if err != nil {
			s.Error = err.Error()
		}
		count[s.State]++
		if t.asJSON {
			json.NewEncoder(&out).Encode(s)
		} else {
			line := fmt.Sprintf("%3d  %-30s %-8s %5d epochs  %s", s.Task, s.Run, s.State, s.Epochs, s.Error)
			fmt.Fprintln(&out, strings.TrimRight(line, " "))
		}
	}
	if !t.asJSON {
		fmt.Fprintf(&out, "%d runs: %d done, %d running, %d open\n", len(t.tasks), count["done"], count["running"], count["open"])
	}
	_, err := t.stdout.Write(out.Bytes())
	return err
}
