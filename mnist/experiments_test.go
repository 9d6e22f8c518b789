package main

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/bench/document"
	"hvae/bench/plot"
	"hvae/mnist/eval"
)

// These tests check the tables in results/README.md that come from the experiments in results/expectations.txt.

// A trainedModel is a model from an experiment. Values for each image are in the order of the test images.
type trainedModel struct {
	Arm         string // the settings of the experiment, such as k10-free
	Seed        uint64
	Epochs      int
	ELBO, Lower []float64 // for each image; Lower is the lower bound on log p(x) from annealed importance sampling
	Eps0        float64   // initial ε
	Eps         []float64 // learned ε

	Result struct { // of all test images, or in controls.jsonl instead of the fields above
		eval.Evaluation
		KL, Moved, Widened []float64 // for each dimension of z; see provenance.txt
	}
}

// An arm is a list of models that differ only in their seeds.
type arm []trainedModel

// statistics returns values of a model, in most cases one for each test image.
var statistics = map[string]func(m trainedModel) []float64{
	"NLL":  func(m trainedModel) []float64 { return []float64{float64(m.Result.NLL)} },
	"ELBO": func(m trainedModel) []float64 { return append(m.ELBO, m.Result.ImageELBO...) },
	"annealed NLL": func(m trainedModel) (nlls []float64) {
		for _, lower := range m.Lower {
			nlls = append(nlls, -lower)
		}
		return nlls
	},
}

// readArms returns all arms. The key of an arm is the name of its file or folder and its own name, such as
// joint/k10-free or table/vae.
func readArms(t *testing.T) map[string]arm {
	t.Helper()
	arms := map[string]arm{}
	files, _ := filepath.Glob("results/*.jsonl")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl") + "/"
		for _, m := range jsonLines[trainedModel](t, string(read(t, file))) {
			arms[name+m.Arm] = append(arms[name+m.Arm], m)
		}
	}
	for _, folder := range []string{"table/", "full/"} {
		for _, r := range storedResults(t, folder) {
			m := trainedModel{Seed: r.Settings.Seed}
			m.Result.NLL = r.NLL
			arms[folder+r.row] = append(arms[folder+r.row], m)
		}
	}
	return arms
}

// meanSD returns the mean of a statistic over models and images, and the standard deviation of the models' means.
func (a arm) meanSD(statistic string) (mean, sd eval.Number) {
	var means []float64
	for _, m := range a {
		mean, _ := eval.MeanSE(statistics[statistic](m))
		means = append(means, float64(mean))
	}
	return eval.MeanSD(means)
}

// minus returns the mean difference in a statistic between the models of a and b with the same seed, and its standard
// errors over seeds and over images. A standard error is NaN if there is only one seed or image.
func (a arm) minus(b arm, statistic string) (mean, seedSE, imageSE eval.Number) {
	var seeds []float64
	of := statistics[statistic]
	images := make([]float64, len(of(a[0])))
	for _, m := range a {
		x, y := of(m), of(b[slices.IndexFunc(b, func(n trainedModel) bool { return n.Seed == m.Seed })])
		sum := 0.0
		for i := range images {
			sum += x[i] - y[i]
			images[i] += x[i] - y[i]
		}
		seeds = append(seeds, sum/float64(len(images)))
	}
	mean, seedSE = eval.MeanSE(seeds)
	_, imageSE = eval.MeanSE(images)
	return mean, seedSE, imageSE / eval.Number(len(a))
}

// Contrasts with an expected value were planned in expectations.txt, and must be significant.
func TestContrastsMatchTheResults(t *testing.T) {
	arms := readArms(t)
	document.Rows(t, resultsREADME, "contrasts", 4, func(c []string) { // number, statistic, a − b, expected, mean, two errors
		a, b, _ := strings.Cut(c[2], " − ")
		mean, seedSE, imageSE := arms[a].minus(arms[b], c[1])
		c[4], c[5], c[6] = fmt.Sprintf("%+.3f", mean), fmt.Sprintf("%.3f", seedSE), fmt.Sprintf("%.3f", imageSE)
		file, _, _ := strings.Cut(a, "/")
		se, critical := seedSE, map[string]float64{"joint": 4.315, "draws": 7.649, "recipe": 4.303}[file] // t, Bonferroni
		if math.IsNaN(float64(se)) {
			se, critical = imageSE, 2.5
		}
		ratio := math.Abs(float64(mean / se))
		if c[3] != "" && !(ratio > critical) || b == "controls/vae" && ratio > 10.886 { // 10.886 for six comparisons
			t.Errorf("%s is %.1f standard errors from 0; %s is wrong about its significance", c[2], ratio, resultsREADME)
		}
	})
}

// in returns the sorted elements of values in the used or the other dimensions of z. A dimension is used if the KL
// divergence of the encoder of m from the prior is above 0.2 nats. Several steps may have values.
func (m trainedModel) in(used bool, values []float64) (sorted []float64) {
	for i, v := range values {
		if used == (m.Result.KL[i%len(m.Result.KL)] > 0.2) {
			sorted = append(sorted, v)
		}
	}
	slices.Sort(sorted)
	return sorted
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

// What the flow of hvae.safetensors does in the dimensions of z that its encoder uses, and in the others.
func TestFlowOfTheTrainedModelMatchesTheResults(t *testing.T) {
	arms := readArms(t)
	c, _, err := readCheckpoint("results/hvae.safetensors")
	noError(t, err)
	m := arms["controls/flow of hvae"][0]
	for _, eps := range c.Const(new(ad.Tape[float32])).Flow(nil).StepSize.Value.Data {
		m.Eps = append(m.Eps, float64(eps))
	}
	document.Rows(t, resultsREADME, "dimensions", 1, func(c []string) {
		for i, values := range [][]float64{m.Result.KL, m.Result.Moved, m.Result.Widened} {
			v := m.in(c[0] == "used", values)
			c[1] = fmt.Sprint(len(v))
			c[2+i] = fmt.Sprintf([]string{"%.4f to %.4f", "%.2f to %.2f", "%.0f to %.0f"}[i], v[0], v[len(v)-1])
		}
		eps := m.in(c[0] == "used", m.Eps)
		c[5], c[6] = fmt.Sprintf("%.4f", median(eps)), fmt.Sprintf("%.2f", slices.Max(eps))
	})
	moved := m.in(true, m.Result.Moved)
	document.Sentence(t, "../README.md", "moves z by %.1f to %.1f standard deviations of the encoder in each of the %d used dimensions",
		moved[0], moved[len(moved)-1], len(moved))
	retrained := arms["controls/encoder retrained without the flow"]
	gain, _, imageSE := arms["controls/hvae"].minus(retrained, "ELBO")
	first, _ := eval.MeanSE(retrained[0].Result.ImageELBO[:200])
	gap := arms["controls/trained: `hvae`"][0].Result.Lower - first // for the first 200 images
	for _, page := range []string{resultsREADME, "../README.md"} {
		document.Sentence(t, page, "%s nats, %.0f %% of the gap", eval.PlusMinus(gain, imageSE), 100*gain/gap)
	}
}

// Experiment 1: All models share one frozen decoder.
func TestFrozenDecoderMatchesTheResults(t *testing.T) {
	arms := readArms(t)
	bound, _ := arms["draws/start"].meanSD("ELBO") // of vae.safetensors
	lower, _ := arms["draws/start"].meanSD("annealed NLL")
	gap := -bound - lower
	var shares []eval.Number // of the gap, in per cent
	document.Rows(t, resultsREADME, "frozen", 1, func(c []string) {
		for j, tempering := range []string{"none", "fixed", "free", "untied"} {
			a := arms["flow/k"+c[0]+"-"+tempering]
			gain, _, se := a.minus(arms["flow/k0"], "ELBO")
			shares = append(shares, 100*gain/gap)
			c[1+j], c[5] = fmt.Sprintf("%+.3f ± %.3f", gain, se), fmt.Sprint(a[0].Eps0)
			if j%2 == 0 { // none and free
				eps := arms["controls/flow of vae"][0].in(true, a[0].Eps)
				c[6+j/2], c[8+j/2] = fmt.Sprintf("%.3f", median(eps)), fmt.Sprintf("%.3f", slices.Max(eps))
			}
		}
	})
	document.Sentence(t, resultsREADME, "lacks %.1f nats", gap)
	document.Sentence(t, resultsREADME, "closes %.0f to %.0f %%", slices.Min(shares), slices.Max(shares))
}

// Experiments 2, 3 and 5: The models with the same seed start from the same VAE.
func TestTrainedArmsMatchTheResults(t *testing.T) {
	arms := readArms(t)
	for _, file := range []string{"joint", "draws", "recipe"} {
		document.Rows(t, resultsREADME, file, 1, func(c []string) { // arm, seeds, ELBO, annealed NLL, median ε or NLL
			a := arms[file+"/"+strings.Trim(c[0], "`")]
			c[1], c[2], c[3] = fmt.Sprint(len(a)), eval.PlusMinus(a.meanSD("ELBO")), eval.PlusMinus(a.meanSD("annealed NLL"))
			var eps []float64
			for _, m := range a {
				eps = append(eps, m.Eps...)
			}
			slices.Sort(eps)
			if eps != nil {
				c[4] = fmt.Sprintf("%.3f", median(eps))
			} else if file == "recipe" {
				c[4] = eval.PlusMinus(a.meanSD("NLL"))
			}
		})
	}
	draws := arms["recipe/draws"]
	document.Sentence(t, resultsREADME, "so %d, %d and %d epochs", draws[0].Epochs, draws[1].Epochs, draws[2].Epochs)
	gain, _, _ := arms["recipe/control"].minus(draws, "annealed NLL")
	document.Sentence(t, "../README.md", "lowers the annealed NLL by %.2f nats more", gain)
	if runtime.GOARCH == "amd64" { // other machines fuse multiplications and additions, which changes the last digits
		document.File(t, "results/joint.svg", plot.Panels(2, jointChart("ELBO", arms), jointChart("annealed NLL", arms)))
	}
}

// jointChart plots a statistic, averaged over seeds, against K. It shifts each series, so that no point hides another.
func jointChart(statistic string, arms map[string]arm) plot.Chart {
	chart := plot.Chart{Title: statistic, XLabel: "K", XTicks: []float64{1, 10, 15, 20}}
	chart.YLabel = statistic + " ± s.d. over seeds (nats)"
	for i, s := range []struct {
		label string
		arms  map[float64]string // by K
		seeds int
	}{
		{"VAE, same work", map[float64]string{1: "vae25", 10: "vae115"}, 5},
		{"none", map[float64]string{10: "k10-none"}, 5},
		{"free", map[float64]string{1: "k1-free", 10: "k10-free"}, 5},
		{"untied", map[float64]string{10: "k10-untied"}, 5},
		{"free, one seed", map[float64]string{1: "k1-free", 10: "k10-free", 15: "k15-free", 20: "k20-free"}, 1},
	} {
		for _, K := range slices.Sorted(maps.Keys(s.arms)) {
			mean, sd := arms["joint/"+s.arms[K]][:s.seeds].meanSD(statistic)
			chart.Add(s.label, plot.Line, K+0.45*float64(i-2), float64(mean), float64(sd))
		}
	}
	return chart
}
