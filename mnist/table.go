package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

const (
	aboutTable = `Prints the results of runs below the paper's Table 1: mnist table DIR
DIR/ROW-SEED must have the files of a run (mnist train -row ROW -seed SEED) and its evaluation (mnist eval -o evaluation.json).
The command also writes the figures table1.svg and budget.svg to DIR.`

	header = `NLL (± standard deviation over seeds) and ELBO in nats, and the NLL minus the NLL of the VAE with the same seed and protocol
(± standard error). A protocol consists of the data, the maximum number of epochs, and the test images and samples per image.

%-22s%-46s seeds epochs    ELBO            NLL     minus VAE
`
	evaluationFile = "evaluation.json"
	publishedName  = "published" // protocol of published results
)

// publishedCSV contains the 57 runs of Table 1: means and standard deviations over three evaluations, from
// the LaTeX source of the paper's appendix.
//
//go:embed published.csv
var publishedCSV string

// A result is the result of a run, published in the paper or computed by this program. ELBO and NLL are in nats.
type result struct {
	row      string
	seed     uint64
	protocol string // how the run was trained and evaluated
	epochs   int    // number of epochs trained
	elbo     eval.Number
	nll      eval.Number
	metrics  []model.Metrics // of all epochs; nil if published
}

// table runs the table command.
func table(_ context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		err := command.Parse(flag.NewFlagSet("mnist table", flag.ContinueOnError), aboutTable, args)
		return cmp.Or(err, command.Usage("the folder of the runs is missing: mnist table DIR"))
	}
	folder := args[0]
	results, err := readResults(folder, stderr)
	if err != nil {
		return err
	}
	lines := summaries(results)
	for name, figure := range figures(lines) {
		if err := command.WriteFile(filepath.Join(folder, name), figure, os.Rename); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, header, "", "")
	for _, s := range lines {
		fmt.Fprintln(stdout, s)
	}
	return nil
}

// published returns the results of Table 1: first the VAEs, then the HVAEs, ordered by K, tempering and ε.
func published() (results []result) {
	for line := range strings.Lines(publishedCSV) {
		r := result{protocol: publishedName}
		var elboSD, nllSD float64 // over evaluations
		fields := strings.ReplaceAll(line, ",", " ")
		n, _ := fmt.Sscan(fields, &r.row, &r.seed, &r.epochs, &r.elbo, &elboSD, &r.nll, &nllSD)
		if n == 7 { // not the header
			r.elbo = -r.elbo
			results = append(results, r)
		}
	}
	return results
}

// rowName matches the names of rows.
var rowName = regexp.MustCompile(`^(?:vae(?:-([lm])([1-9]\d{0,2}))?|hvae-k([1-9]\d*)-(none|fixed|free|untied)(-shared|-varied)?)$`)

// parseRow returns the model of the named row, such as vae, hvae-k1-none or hvae-k10-free-varied. If K > 1, the name
// ends in shared (all steps have the same step sizes) or varied (each step has separate step sizes).
func parseRow(name string) (model.Config, error) {
	c := model.Defaults().Config
	if m := rowName.FindStringSubmatch(name); m != nil {
		c.Kind, _, _ = strings.Cut(name, "-")
		c.Importance = m[1] == "l"
		c.Draws, _ = strconv.Atoi("0" + m[2])
		c.K, _ = strconv.Atoi("0" + m[3]) // Check rejects large numbers
		c.Tempering = cmp.Or(m[4], "none")
		c.VaryEps = m[5] == "-varied"
		if c.Check() == nil && (c.K > 1) == (m[5] != "") {
			return c, nil
		}
	}
	return c, fmt.Errorf("there is no row %.40q: a row must be vae, vae-lL (L importance samples), vae-mL (mean of L draws), hvae-k1-TEMPERING or hvae-kK-TEMPERING-EPS, where K > 1, TEMPERING is none, fixed, free or untied, and EPS is shared or varied", name)
}

// readResults returns the results of the runs in a folder, after the published results of the same rows. It omits runs
// without a valid evaluation, and prints the reason.
func readResults(folder string, stderr io.Writer) ([]result, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var results []result
	for _, e := range entries {
		i := strings.LastIndexByte(e.Name(), '-')
		row, seed := e.Name()[:max(0, i)], e.Name()[i+1:]
		config, notRow := parseRow(row)
		n, notSeed := strconv.ParseUint(seed, 10, 64)
		if notRow != nil || notSeed != nil {
			continue
		}
		r := result{row: row, seed: n}
		if err := r.read(filepath.Join(folder, e.Name()), config); err != nil {
			fmt.Fprintf(stderr, "%s is left out: %v\n", e.Name(), err)
			continue
		}
		results = append(results, r)
	}
	if results == nil {
		return nil, fmt.Errorf("%s contains no run of a row with an evaluation", folder)
	}
	reference := slices.DeleteFunc(published(), func(p result) bool {
		return !slices.ContainsFunc(results, func(r result) bool { return r.row == p.row })
	})
	return append(reference, results...), nil
}

// read reads the result of the run in a folder. It returns an error unless the run was trained to its end with the
// settings of its row, and its best epoch was evaluated on images of the same dataset.
func (r *result) read(folder string, config model.Config) error {
	var e evaluation
	b, err := os.ReadFile(filepath.Join(folder, evaluationFile))
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err == nil {
		r.metrics, err = readMetrics(filepath.Join(folder, metricsFile))
	}
	if err != nil {
		return err
	}
	if e.Settings == nil {
		return errors.New("its evaluation does not contain its settings: evaluate the folder of the run")
	}
	s, want := *e.Settings, model.Defaults()
	want.Config, want.Seed = config, r.seed
	want.Epochs, want.Data, want.Recompute = s.Epochs, s.Data, s.Recompute // may differ
	changed := func(m model.Metrics) bool { return m.Rate != 0 && m.Rate != want.Rate }
	switch {
	case s != want || slices.ContainsFunc(r.metrics, changed):
		return errors.New("it was not trained with the settings of its row")
	case model.Ended(r.metrics, s.Epochs, s.Patience) == "":
		return errors.New("its training has not ended")
	case model.Best(r.metrics).Epoch != e.Epoch:
		return errors.New("its best epoch has not been evaluated")
	case e.Trained != e.Data:
		return fmt.Errorf("it was trained on %.40q, but evaluated on %.40q", e.Trained, e.Data)
	}
	r.protocol = fmt.Sprintf("%s, %d epochs, %d images, %d samples", e.Data, s.Epochs, e.Images, e.Samples)
	r.epochs = len(r.metrics)
	r.elbo, r.nll = e.ELBO, e.NLL
	return nil
}

// readMetrics reads the metrics of all epochs.
func readMetrics(name string) (all []model.Metrics, err error) {
	b, err := os.ReadFile(name)
	for line := range bytes.Lines(b) {
		var m model.Metrics
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, m)
	}
	return all, err
}

// A summary contains statistics of the runs of a row with the same protocol. ELBO, NLL and epochs are means over seeds.
type summary struct {
	row, protocol     string
	config            model.Config
	runs              []result
	epochs, elbo, nll eval.Number
	seedSD            eval.Number // standard deviation of the NLL over seeds

	// toVAE is the NLL minus the NLL of the VAE with the same seed and protocol, averaged over the seeds that both
	// rows have. toVAEError is its standard error. The number of these seeds, pairs, is 0 for the VAE itself.
	toVAE, toVAEError eval.Number
	pairs             int
}

// summaries returns a summary for each row and protocol, ordered by rows.
func summaries(results []result) (all []summary) {
	for _, first := range results {
		for _, r := range results {
			known := func(s summary) bool { return s.row == r.row && s.protocol == r.protocol }
			if r.row == first.row && !slices.ContainsFunc(all, known) {
				all = append(all, summarise(r.row, r.protocol, results))
			}
		}
	}
	return all
}

func summarise(row, protocol string, results []result) summary {
	s := summary{row: row, protocol: protocol}
	s.config, _ = parseRow(row) // cannot fail for a row of the table
	var epochs, elbos, nlls, differences []float64
	for _, r := range results {
		if r.row != row || r.protocol != protocol {
			continue
		}
		s.runs = append(s.runs, r)
		epochs = append(epochs, float64(r.epochs))
		elbos = append(elbos, float64(r.elbo))
		nlls = append(nlls, float64(r.nll))
		for _, v := range results {
			if v.row == "vae" && row != "vae" && v.protocol == protocol && v.seed == r.seed {
				differences = append(differences, float64(r.nll-v.nll))
			}
		}
	}
	s.epochs, _ = eval.MeanSD(epochs)
	s.elbo, _ = eval.MeanSD(elbos)
	s.nll, s.seedSD = eval.MeanSD(nlls)
	s.toVAE, s.toVAEError = eval.MeanSE(differences)
	s.pairs = len(differences)
	return s
}

// String returns a line of the table.
func (s summary) String() string {
	nll, difference := eval.PlusMinus(s.nll, s.seedSD), eval.PlusMinus(s.toVAE, s.toVAEError)
	const format = "%-22s%-46s %5d %6.0f %7v %14s %13s"
	line := fmt.Sprintf(format, s.row, s.protocol, len(s.runs), s.epochs, s.elbo, nll, difference)
	return strings.ReplaceAll(line, "NaN", "  –")
}

// figures returns the figures of a table, by the names of their files. They have separate charts for each protocol.
func figures(lines []summary) map[string][]byte {
	var protocols []string
	var ks []float64
	for _, s := range lines {
		protocols = append(protocols, s.protocol)
		ks = append(ks, float64(s.config.K))
	}
	slices.Sort(ks)
	ks = slices.Compact(ks)
	slices.Sort(protocols)
	var table, budget []plot.Chart
	for _, p := range slices.Compact(protocols) {
		differences := plot.Chart{Title: p, XLabel: "K", YLabel: "NLL minus the VAE's ± s.e. (nats)", XTicks: ks}
		differences.Series = []plot.Series{{Label: "VAE", X: ks, Y: make([]float64, len(ks)), Style: plot.Dashed}}
		epochs := plot.Chart{Title: p, XLabel: "epoch", YLabel: "mean validation ELBO (nats)", LogX: true}
		work := plot.Chart{Title: p, XLabel: "work (epochs of a VAE)", YLabel: epochs.YLabel, LogX: true}
		for _, s := range lines {
			if s.protocol == p {
				s.plotDifference(&differences)
				s.plotELBO(&epochs, 1)
				s.plotELBO(&work, float64(s.config.StepCost())/float64(model.Defaults().StepCost()))
			}
		}
		table = append(table, differences)
		if p != publishedName {
			budget = append(budget, epochs, work)
		}
	}
	return map[string][]byte{"table1.svg": plot.Panels(2, table...), "budget.svg": plot.Panels(2, budget...)}
}

// plotDifference adds the difference from the VAE to a line for the kind of tempering and step sizes. The difference is
// more precise than the NLL, which depends more on the number of epochs than on the model.
func (s summary) plotDifference(c *plot.Chart) {
	if s.pairs == 0 {
		return
	}
	label := strings.Replace(strings.TrimSuffix(s.row, "-shared"), fmt.Sprintf("-k%d", s.config.K), "", 1)
	i := slices.IndexFunc(c.Series, func(line plot.Series) bool { return line.Label == label })
	if i < 0 {
		i = len(c.Series)
		c.Series = append(c.Series, plot.Series{Label: label})
	}
	line := &c.Series[i]
	line.X = append(line.X, float64(s.config.K))
	line.Y = append(line.Y, float64(s.toVAE))
	line.Error = append(line.Error, float64(s.toVAEError))
}

// plotELBO adds a line with the validation ELBO, averaged over runs. An epoch has the given width on the x-axis.
func (s summary) plotELBO(c *plot.Chart, width float64) {
	line := plot.Series{Label: s.row}
	shortest := slices.MinFunc(s.runs, func(a, b result) int { return len(a.metrics) - len(b.metrics) })
	for epoch := range shortest.metrics {
		mean := 0.0
		for _, r := range s.runs {
			mean += r.metrics[epoch].ValELBO / float64(len(s.runs))
		}
		if mean >= -120 { // lower values would compress the rest of the figure
			line.X = append(line.X, width*float64(epoch+1))
			line.Y = append(line.Y, mean)
		}
	}
	c.Series = append(c.Series, line)
}
