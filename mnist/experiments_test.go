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
	ELBO, Lower []float64 // for each image; Lower is the lower bound on log p(x) from annealed importance sampling
	Eps0        float64   // initial ε
	Eps         []float64 // learned ε

	Result struct { // in controls.jsonl instead of the fields above
		eval.Evaluation
		KL, Moved, Widened []float64 // for each dimension of z; see provenance.txt
	}
}

// An arm is a list of models that differ only in their seeds.
type arm []trainedModel

// A statistic returns values of a model, in most cases one for each test image.
type statistic func(m trainedModel) []float64

func elbo(m trainedModel) []float64 { return append(m.ELBO, m.Result.ImageELBO...) }

func nll(m trainedModel) []float64 { return []float64{float64(m.Result.NLL)} }

func annealedNLL(m trainedModel) (nlls []float64) {
	for _, l := range m.Lower {
		nlls = append(nlls, -l)
	}
	return nlls
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
	for _, r := range storedResults(t, "table") {
		m := trainedModel{Seed: r.Settings.Seed}
		m.Result.NLL = r.NLL
		arms["table/"+r.row] = append(arms["table/"+r.row], m)
	}
	return arms
}

// meanSD returns the mean of a statistic over models and images, and the standard deviation of the models' means.
func (a arm) meanSD(of statistic) (mean, sd eval.Number) {
	var means []float64
	for _, m := range a {
		mean, _ := eval.MeanSE(of(m))
		means = append(means, float64(mean))
	}
	return eval.MeanSD(means)
}

// minus returns the mean difference in a statistic between the models of a and b with the same seed, and its standard
// errors over seeds and over images. A standard error is NaN if there is only one seed or image.
func (a arm) minus(b arm, of statistic) (mean, seedSE, imageSE eval.Number) {
	var seeds []float64
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
		mean, seedSE, imageSE := arms[a].minus(arms[b], map[string]statistic{"NLL": nll, "ELBO": elbo, "annealed NLL": annealedNLL}[c[1]])
		for i, v := range []eval.Number{seedSE, imageSE} {
			c[5+i] = strings.ReplaceAll(fmt.Sprintf("%.3f", v), "NaN", "")
		}
		c[4] = fmt.Sprintf("%+.3f", mean)
		file, _, _ := strings.Cut(a, "/")
		se, critical := seedSE, map[string]float64{"joint": 4.315, "draws": 7.649}[file] // of t, at 5 % / number of contrasts
		if math.IsNaN(float64(se)) {
			se, critical = imageSE, 2.5
		}
		ratio := math.Abs(float64(mean / se))
		if c[3] != "" && !(ratio > critical) || b == "controls/vae" && ratio > 10.886 { // 10.886 for six comparisons
			t.Errorf("%s is %.1f standard errors from 0; %s is wrong about its significance", c[2], ratio, resultsREADME)
		}
	})
}

// used returns the dimensions of z in which the encoder's KL divergence from the prior is above 0.2 nats, and the others.
func (m trainedModel) used() (used, others []int) {
	for j, kl := range m.Result.KL {
		if kl > 0.2 {
			used = append(used, j)
		} else {
			others = append(others, j)
		}
	}
	return used, others
}

// in returns the sorted elements of values in the given dimensions of z. There may be values for several steps.
func in[T float32 | float64](dimensions []int, values []T) (sorted []float64) {
	const latent = 64
	for i, v := range values {
		if slices.Contains(dimensions, i%latent) {
			sorted = append(sorted, float64(v))
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
	eps := c.Const(new(ad.Tape[float32])).Flow(nil).StepSize.Value.Data
	m := arms["controls/flow of hvae"][0]
	used, others := m.used()
	document.Rows(t, resultsREADME, "dimensions", 1, func(c []string) {
		group := map[string][]int{"used": used, "not used": others}[c[0]]
		c[1] = fmt.Sprint(len(group))
		for i, values := range [][]float64{m.Result.KL, m.Result.Moved, m.Result.Widened} {
			v := in(group, values)
			c[2+i] = fmt.Sprintf([]string{"%.4f to %.4f", "%.2f to %.2f", "%.0f to %.0f"}[i], v[0], v[len(v)-1])
		}
		e := in(group, eps)
		c[5], c[6] = fmt.Sprintf("%.4f", median(e)), fmt.Sprintf("%.2f", e[len(e)-1])
	})
	moved := in(used, m.Result.Moved)
	document.Sentence(t, "../README.md", "moves z by %.1f to %.1f standard deviations of the encoder in each of the %d used dimensions",
		moved[0], moved[len(moved)-1], len(used))
	gain, _, imageSE := arms["controls/hvae"].minus(arms["controls/encoder retrained without the flow"], elbo)
	first, _ := eval.MeanSE(elbo(arms["controls/encoder retrained without the flow"][0])[:200])
	gap := arms["controls/trained: `hvae`"][0].Result.Lower - first // for the first 200 images
	for _, page := range []string{resultsREADME, "../README.md"} {
		document.Sentence(t, page, "%s nats, %.0f %% of the gap", eval.PlusMinus(gain, imageSE), 100*gain/gap)
	}
}

// Experiment 1: All models share one frozen decoder.
func TestFrozenDecoderMatchesTheResults(t *testing.T) {
	arms := readArms(t)
	used, _ := arms["controls/flow of vae"][0].used()
	start := arms["draws/start"] // vae.safetensors
	bound, _ := start.meanSD(elbo)
	lower, _ := start.meanSD(annealedNLL)
	gap, least, most := -bound-lower, eval.Number(1), eval.Number(0) // gains of all seeds, relative to the gap
	document.Rows(t, resultsREADME, "frozen", 1, func(c []string) {
		prefix := "flow/k" + c[0] + "-"
		for j, tempering := range []string{"none", "fixed", "free", "untied"} {
			for i, m := range arms[prefix+tempering] {
				gain, _, se := arm{m}.minus(arms["flow/k0"], elbo)
				least, most = min(least, gain/gap), max(most, gain/gap)
				if i == 0 {
					c[1+j] = fmt.Sprintf("%+.3f ± %.3f", gain, se)
				}
			}
		}
		c[5] = fmt.Sprint(arms[prefix+"free"][0].Eps0)
		for j, tempering := range []string{"none", "free"} {
			e := in(used, arms[prefix+tempering][0].Eps)
			c[6+j], c[8+j] = fmt.Sprintf("%.3f", median(e)), fmt.Sprintf("%.3f", e[len(e)-1])
		}
	})
	document.Sentence(t, resultsREADME, "in the %d dimensions that `vae.safetensors` uses", len(used))
	document.Sentence(t, resultsREADME, "lacks %.1f nats", gap)
	for _, page := range []string{resultsREADME, "../README.md"} {
		document.Sentence(t, page, "closes %.0f to %.0f %%", 100*least, 100*most)
	}
}

// Experiments 2 and 3: The models with the same seed start from the same VAE.
func TestTrainedArmsMatchTheResults(t *testing.T) {
	arms := readArms(t)
	for _, file := range []string{"joint", "draws"} {
		document.Rows(t, resultsREADME, file, 1, func(c []string) { // arm, seeds, ELBO, annealed NLL, median ε
			a := arms[file+"/"+strings.Trim(c[0], "`")]
			c[1], c[2], c[3] = fmt.Sprint(len(a)), eval.PlusMinus(a.meanSD(elbo)), eval.PlusMinus(a.meanSD(annealedNLL))
			var eps []float64
			for _, m := range a {
				eps = append(eps, m.Eps...)
			}
			slices.Sort(eps)
			if eps != nil {
				c[4] = fmt.Sprintf("%.3f", median(eps))
			}
		})
	}
	if runtime.GOARCH == "amd64" { // other machines fuse multiplications and additions, which changes the last digits
		document.File(t, "results/joint.svg", plot.Panels(2, jointChart("ELBO", arms, elbo), jointChart("annealed NLL", arms, annealedNLL)))
	}
}

// jointChart plots a statistic, averaged over seeds, against K. It shifts each series, so that no point hides another.
func jointChart(name string, arms map[string]arm, of statistic) plot.Chart {
	chart := plot.Chart{Title: name, XLabel: "K", YLabel: name + " ± s.d. over seeds (nats)", XTicks: []float64{1, 10, 15, 20}}
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
			mean, sd := arms["joint/"+s.arms[K]][:s.seeds].meanSD(of)
			chart.Add(s.label, plot.Line, K+0.45*float64(i-2), float64(mean), float64(sd))
		}
	}
	return chart
}
