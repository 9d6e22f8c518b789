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
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

const aboutTable = `Prints the results of runs below the paper's Table 1: mnist table DIR
Each folder in DIR must contain the files of a run (mnist train -out DIR/RUN) and its
evaluation (mnist eval -checkpoint DIR/RUN -o DIR/RUN/evaluation.json).
The command also writes the figures table1.svg and budget.svg to DIR.`

const header = `NLL (± standard deviation over seeds) and ELBO in nats, and the NLL minus the NLL of the VAE with the same seed and protocol
(± standard error). A protocol consists of the data, the maximum number of epochs, other settings that differ from the
paper's, and the test images and samples per image.

row                   protocol                                       seeds epochs    ELBO            NLL     minus VAE
`

const (
	evaluationFile = "evaluation.json"
	publishedName  = "published" // protocol of published results
)

// publishedCSV contains the results of the 57 runs that are averaged in Table 1. They are from the LaTeX source of the
// paper's appendix. The results of a run are means and standard deviations over its three evaluations.
//
//go:embed published.csv
var publishedCSV string

// A result contains the estimates for one run, either published in the paper or computed by this program.
type result struct {
	evaluation        // for a published run, only the ELBO, the NLL, the model and the seed
	folder     string // name of the run's folder
	row        string
	protocol   string          // how the run was trained and evaluated
	epochs     int             // number of epochs trained
	metrics    []model.Metrics // of all epochs; nil if published
}

// table runs the table command.
func table(_ context.Context, args []string, stdout, stderr io.Writer) error {
	wrong := command.Usage("give one argument, the folder of the runs: mnist table DIR")
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		f := flag.NewFlagSet("mnist table", flag.ContinueOnError)
		return cmp.Or(command.Parse(f, aboutTable, args, stdout), wrong)
	}
	if len(args) != 1 {
		return wrong
	}
	folder := args[0]
	results, left := readResults(folder)
	for _, why := range left {
		fmt.Fprintln(stderr, why)
	}
	if results == nil {
		return fmt.Errorf("%s contains no run with a valid evaluation: mnist table -h describes the folder", folder)
	}
	lines := summaries(append(published(), results...))
	text := header
	for _, s := range lines {
		text += s.String() + "\n"
	}
	_, err := io.WriteString(stdout, text)
	if left != nil {
		err = cmp.Or(err, fmt.Errorf("%d runs are left out", len(left)))
	}
	differences, budget := figures(lines)
	return cmp.Or(
		command.WriteFile(filepath.Join(folder, "table1.svg"), differences, os.Rename),
		command.WriteFile(filepath.Join(folder, "budget.svg"), budget, os.Rename),
		err)
}

// published returns the results of Table 1: first the VAEs, then the HVAEs, ordered by K, tempering and ε.
func published() (results []result) {
	for line := range strings.Lines(publishedCSV) {
		r := result{protocol: publishedName}
		var seed uint64
		var elboSD, nllSD float64 // over evaluations
		fields := strings.ReplaceAll(line, ",", " ")
		n, _ := fmt.Sscan(fields, &r.row, &seed, &r.epochs, &r.ELBO, &elboSD, &r.NLL, &nllSD)
		if n == 7 { // not the header
			r.ELBO = -r.ELBO
			r.Settings, _ = parseRow(r.row)
			r.Settings.Seed = seed
			results = append(results, r)
		}
	}
	return results
}

// readResults returns the results of the runs in a folder. It leaves out a run without a valid evaluation, and all but
// the first of several runs with the same settings and seed, and returns the reasons.
func readResults(folder string) (results []result, left []string) {
	names, _ := fs.Glob(os.DirFS(folder), "*/"+evaluationFile) // returns no error, because the pattern is valid
	for _, name := range names {
		run := filepath.Dir(name)
		r, err := readResult(filepath.Join(folder, run))
		for _, o := range results {
			if err == nil && r.row == o.row && r.protocol == o.protocol && r.Settings.Seed == o.Settings.Seed {
				err = fmt.Errorf("it has the settings and the seed of %s", o.folder)
			}
		}
		if err != nil {
			left = append(left, fmt.Sprintf("%s is left out: %v", run, err))
			continue
		}
		results = append(results, r)
	}
	return results, left
}

const maxResult = 16 << 20 // bytes, the maximum size of evaluation.json and of metrics.jsonl

// readResult reads the result of the run in a folder. It returns an error if the evaluation or the metrics are invalid,
// if the run has not ended, if its best epoch was not evaluated, if the model in the folder is from another run, or if
// it was evaluated on a dataset other than the one it was trained on.
func readResult(folder string) (r result, err error) {
	b, _, err := command.ReadFile(filepath.Join(folder, evaluationFile), maxResult)
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(b, &r.evaluation)
	s := r.Settings
	if err == nil {
		err = s.Check()
	}
	if err == nil && (!(r.NLL > 0) || r.ELBO >= 0 || min(r.Images, r.Samples) < 1) {
		err = errors.New("numbers are missing")
	}
	if err != nil {
		return r, fmt.Errorf("%s is damaged, or not the evaluation of a run's folder (%w): evaluate the folder", evaluationFile, err)
	}
	r.metrics, err = readMetrics(filepath.Join(folder, metricsFile))
	switch {
	case err != nil:
		return r, err
	case model.Ended(r.metrics, s.Epochs, s.Patience) == "":
		return r, errors.New("its training has not ended")
	case model.Best(r.metrics).Epoch != r.Epoch:
		return r, errors.New("its best epoch has not been evaluated")
	case r.Trained != r.Data:
		return r, fmt.Errorf("it was trained on %.40q, but evaluated on %.40q", r.Trained, r.Data)
	}
	c, err := readModel(filepath.Join(folder, modelFile))
	if err == nil && c.Network != nil && (c.Epoch != r.Epoch || c.ELBO != model.Best(r.metrics).ValELBO) {
		err = fmt.Errorf("its %s is from another run", modelFile)
	}
	if err != nil { // not if there is no model, because results can be kept without it
		return r, err
	}
	usual, _ := parseRow(rowName(s.Config))
	other := strings.Join(differences(", -%s %[3]v", usual, s, []string{"epochs", "seed", "data", "recompute"}), "")
	r.folder = filepath.Base(folder)
	r.row = rowName(s.Config)
	r.protocol = fmt.Sprintf("%s, %d epochs%s, %d images, %d samples", r.Data, s.Epochs, other, r.Images, r.Samples)
	r.epochs = len(r.metrics)
	return r, nil
}

// readMetrics reads the metrics of all epochs.
func readMetrics(name string) (all []model.Metrics, err error) {
	b, _, err := command.ReadFile(name, maxResult)
	for line := range bytes.Lines(b) {
		var m model.Metrics
		err := json.Unmarshal(line, &m)
		if err == nil && (m.Epoch != len(all)+1 || m.ValELBO >= 0) {
			err = errors.New("the epoch or the ELBO is wrong")
		}
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w: train -resume writes the file again", name, len(all)+1, err)
		}
		all = append(all, m)
	}
	return all, err
}

// A summary contains all runs of a row of Table 1 that have the same protocol, and their results.
type summary struct {
	row, protocol       string
	config              model.Config
	runs                []result
	epochs, elbos, nlls []float64
	differences         []float64 // NLL of a run minus NLL of the VAE with the same seed and protocol; nil without VAEs
}

// summaries returns a summary for each row and protocol, ordered by row.
func summaries(results []result) (all []summary) {
	for _, r := range results {
		same := func(s summary) bool { return s.row == r.row && s.protocol == r.protocol }
		if !slices.ContainsFunc(all, same) {
			all = append(all, summary{row: r.row, protocol: r.protocol, config: r.Settings.Config})
		}
		s := &all[slices.IndexFunc(all, same)]
		s.runs = append(s.runs, r)
		s.epochs = append(s.epochs, float64(r.epochs))
		s.elbos = append(s.elbos, float64(r.ELBO))
		s.nlls = append(s.nlls, float64(r.NLL))
		for _, v := range results {
			if v.row == "vae" && r.row != "vae" && v.protocol == r.protocol && v.Settings.Seed == r.Settings.Seed {
				s.differences = append(s.differences, float64(r.NLL-v.NLL))
			}
		}
	}
	first := func(s summary) int {
		return slices.IndexFunc(results, func(r result) bool { return r.row == s.row })
	}
	slices.SortStableFunc(all, func(a, b summary) int { return first(a) - first(b) })
	return all
}

// String returns a line of the table.
func (s summary) String() string {
	epochs, _ := eval.MeanSD(s.epochs)
	elbo, _ := eval.MeanSD(s.elbos)
	nll := eval.PlusMinus(eval.MeanSD(s.nlls))
	difference := "–"
	if s.differences != nil {
		difference = eval.PlusMinus(eval.MeanSE(s.differences))
	}
	const format = "%-22s%-46s %5d %6.0f %7v %14s %13s"
	return fmt.Sprintf(format, s.row, s.protocol, len(s.runs), epochs, elbo, nll, difference)
}

// figures returns table1.svg and budget.svg. Each has one chart per protocol. table1.svg omits charts without a line,
// because their few points are easier to read in the table, and budget.svg omits the published results, which have no
// curves.
func figures(lines []summary) (table1, budget []byte) {
	byProtocol := func(a, b summary) int { return strings.Compare(a.protocol, b.protocol) }
	difference := plot.Chart{XLabel: "K", YLabel: "NLL minus the VAE's ± s.e. (nats)"}
	elbo := plot.Chart{XLabel: "work (epochs of a VAE)", YLabel: "validation ELBO (nats)", LogX: true}
	var differences, elbos []plot.Chart
	for _, s := range slices.SortedStableFunc(slices.Values(lines), byProtocol) {
		if difference.Title != s.protocol {
			difference.Title, elbo.Title = s.protocol, s.protocol
			differences, elbos = append(differences, difference), append(elbos, elbo)
		}
		s.plotDifference(&differences[len(differences)-1])
		s.plotELBO(&elbos[len(elbos)-1])
	}
	differences = slices.DeleteFunc(differences, func(c plot.Chart) bool {
		return !slices.ContainsFunc(c.Series, func(s plot.Series) bool { return len(s.X) > 1 })
	})
	elbos = slices.DeleteFunc(elbos, func(c plot.Chart) bool { return c.Title == publishedName })
	return plot.Panels(2, differences...), plot.Panels(2, elbos...)
}

// plotDifference adds a point for the NLL difference from the VAE. A line joins the points of rows that differ only in
// K. The chart shows the difference because the NLL itself depends more on the number of epochs than on the model.
func (s summary) plotDifference(c *plot.Chart) {
	if s.differences == nil {
		return
	}
	label := strings.NewReplacer("-shared", "", fmt.Sprintf("-k%d", s.config.K), "").Replace(s.row)
	mean, se := eval.MeanSE(s.differences)
	c.Add(label, plot.Line, float64(s.config.K), float64(mean), float64(se))
}

// plotELBO adds the curve of the validation ELBO for each run.
func (s summary) plotELBO(c *plot.Chart) {
	work := float64(s.config.StepCost()) / float64(model.Defaults().StepCost())
	for _, r := range s.runs {
		line := plot.Series{Label: s.row}
		for _, m := range r.metrics {
			if m.ValELBO >= -120 { // lower values would compress the rest of the figure
				line.X = append(line.X, work*float64(m.Epoch))
				line.Y = append(line.Y, m.ValELBO)
			}
		}
		c.Series = append(c.Series, line)
	}
}
