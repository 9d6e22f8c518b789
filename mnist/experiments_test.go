package main

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"hvae/bench/plot"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// These tests check those numbers in results/README.md that come from the experiments in results/expectations.txt.

// A trainedModel is a model from an experiment. Its per-image values are in the order of the test images.
type trainedModel struct {
	Arm         string // the settings of the experiment, such as k10-free
	Seed        uint64
	ELBO, Lower []float64 // for each test image; Lower is the lower bound on log p(x) from annealed importance sampling
	Eps, Alpha  []float64 // learned ε and α_k
	S           float64   // learned s, or 0 if the α_k determine s
}

// An arm is a list of models that differ only in their seeds. The seeds are in the same order in all arms.
type arm []trainedModel

func readArms(t *testing.T, file string) map[string]arm {
	t.Helper()
	arms := map[string]arm{}
	for _, m := range jsonLines[trainedModel](t, string(read(t, "results", file))) {
		arms[m.Arm] = append(arms[m.Arm], m)
	}
	return arms
}

// A statistic returns a value for each test image.
type statistic func(m trainedModel) []float64

func elbo(m trainedModel) []float64 { return m.ELBO }

func annealedNLL(m trainedModel) (nlls []float64) {
	for _, l := range m.Lower {
		nlls = append(nlls, -l)
	}
	return nlls
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

// A difference is the mean difference in a statistic between two arms, with standard errors over seeds and over images.
type difference struct{ mean, seedSE, imageSE eval.Number }

// String returns the difference and its standard error over seeds.
func (d difference) String() string { return signed(d.mean, d.seedSE) }

func (a arm) minus(b arm, of statistic) (d difference) {
	seeds := make([]float64, len(a))
	images := make([]float64, len(of(a[0])))
	for i := range a {
		if a[i].Seed != b[i].Seed {
			panic(fmt.Sprintf("%s and %s have different seeds", a[i].Arm, b[i].Arm))
		}
		x, y := of(a[i]), of(b[i])
		for j := range images {
			seeds[i] += (x[j] - y[j]) / float64(len(images))
			images[j] += (x[j] - y[j]) / float64(len(a))
		}
	}
	d.mean, d.seedSE = eval.MeanSE(seeds)
	_, d.imageSE = eval.MeanSE(images)
	return d
}

// holm returns the number of differences that are significant by Holm's method at a family-wise level of 5 %. The
// argument critical contains the critical values of Student's t at 5 %/n, …, 5 %/2 and 5 % for n differences.
func holm(differences []difference, critical ...float64) (significant int) {
	var quotients []float64
	for _, d := range differences {
		quotients = append(quotients, math.Abs(float64(d.mean/d.seedSE)))
	}
	slices.Sort(quotients)
	slices.Reverse(quotients)
	for significant < len(quotients) && quotients[significant] > critical[significant] {
		significant++
	}
	return significant
}

func (a arm) medianEps() float64 {
	var all []float64
	for _, m := range a {
		all = append(all, m.Eps...)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// product returns the mean of Π α_k over the models.
func (a arm) product() (mean float64) {
	for _, m := range a {
		product := 1.0
		for _, alpha := range m.Alpha {
			product *= alpha
		}
		mean += product / float64(len(a))
	}
	return mean
}

// Experiment 1: All models share one frozen decoder.
func TestFrozenDecoderMatchesTheResults(t *testing.T) {
	arms := readArms(t, "flow.jsonl")
	minus := func(name, other string, seed int) difference {
		return arms[name][seed:seed+1].minus(arms[other][seed:seed+1], elbo)
	}
	text := func(d difference) string { return fmt.Sprintf("%+.3f ± %.3f", float64(d.mean), float64(d.imageSE)) }
	temperings := []string{"none", "fixed", "free", "untied"}
	for _, K := range []string{"1", "5", "10", "15", "20"} {
		line := "| " + K + " |"
		for _, tempering := range temperings {
			line += " " + text(minus("k"+K+"-"+tempering, "k0", 0)) + " |"
		}
		free, untied := arms["k"+K+"-free"][:1], arms["k"+K+"-untied"][:1]
		shows(t, resultsREADME, "%s %.3f | %.2f | %.2f |",
			line, free.medianEps(), free.product(), untied[0].S*untied.product())
	}
	for label, pair := range map[string][2]string{
		"K = 20, free, minus K = 0": {"k20-free", "k0"},
		"K = 20 minus K = 5, free":  {"k20-free", "k5-free"},
		"free minus none, K = 10":   {"k10-free", "k10-none"},
		"untied minus free, K = 10": {"k10-untied", "k10-free"},
	} {
		shows(t, resultsREADME, "%s: %s", label, text(minus(pair[0], pair[1], 0)))
	}
	largest, spread := 0.0, 0.0
	for _, tempering := range temperings {
		var gains []float64
		for seed := range 3 {
			gains = append(gains, float64(minus("k5-"+tempering, "k0", seed).mean))
		}
		largest = max(largest, slices.Max(gains))
		spread = max(spread, slices.Max(gains)-slices.Min(gains))
	}
	shows(t, resultsREADME, "gains of three seeds differ by at most %.2f", spread)
	var added []float64 // by free tempering
	for _, K := range []string{"5", "10", "15", "20"} {
		added = append(added, float64(minus("k"+K+"-free", "k"+K+"-none", 0).mean))
	}
	shows(t, resultsREADME, "free tempering adds %.2f to %.2f nats", slices.Min(added), slices.Max(added))
	vae := readArms(t, "draws.jsonl")["start"] // vae.safetensors
	lower, _ := vae.meanSD(annealedNLL)
	bound, _ := vae.meanSD(elbo)
	gap := float64(-lower - bound)
	shows(t, resultsREADME, "lacks %.1f nats", gap)
	shows(t, resultsREADME, "a flow closes at most %.0f %% of the gap", 100*largest/gap)
}

// showContrasts checks that results/README.md contains the differences in NLL (from annealed importance sampling)
// between pairs of arms, and returns them.
func showContrasts(t *testing.T, arms map[string]arm, contrasts map[string][2]string) (all []difference) {
	t.Helper()
	for label, pair := range contrasts {
		d := arms[pair[0]].minus(arms[pair[1]], annealedNLL)
		shows(t, resultsREADME, "%s: %v (%v;", label, d, d.imageSE)
		all = append(all, d)
	}
	return all
}

// showArm checks an arm's row in results/README.md: the number of seeds, the ELBO, the NLL from annealed importance
// sampling, the median of ε, and the mean of Π α_k.
func showArm(t *testing.T, label string, a arm) {
	t.Helper()
	row := fmt.Sprintf("| %s | %d | %s | %s |", label, len(a), eval.PlusMinus(a.meanSD(elbo)), eval.PlusMinus(a.meanSD(annealedNLL)))
	if a[0].Eps != nil {
		row += fmt.Sprintf(" %.3f |", a.medianEps())
	}
	if a[0].Alpha != nil {
		row += fmt.Sprintf(" %.2f |", a.product())
	}
	shows(t, resultsREADME, "%s", row)
}

// Experiment 2: All models with the same seed start from the same VAE.
func TestJointTrainingMatchesTheResults(t *testing.T) {
	arms := readArms(t, "joint.jsonl")
	work := func(K int) string { // of 10 epochs with K leapfrog steps, in epochs of a VAE
		vae := model.Defaults().Config
		hvae := vae
		hvae.K = K
		return fmt.Sprintf("%.0f", 10*float64(hvae.StepCost())/float64(vae.StepCost()))
	}
	for name, label := range map[string]string{
		"vae10":      "start | 0",
		"vae25":      "VAE | " + work(1),
		"vae115":     "VAE | " + work(10),
		"k1-free":    "K = 1, free | " + work(1),
		"k10-none":   "K = 10, none | " + work(10),
		"k10-free":   "K = 10, free | " + work(10),
		"k10-untied": "K = 10, untied | " + work(10),
		"k15-free":   "K = 15, free | " + work(15),
		"k20-free":   "K = 20, free | " + work(20),
	} {
		showArm(t, label, arms[name])
	}
	minus := func(name, other string) difference { return arms[name].minus(arms[other], annealedNLL) }
	shows(t, resultsREADME, "K = 10 minus the VAE is %v (annealed NLL", minus("k10-free", "vae115"))
	shows(t, resultsREADME, "free minus none %v, untied minus free %v", minus("k10-free", "k10-none"), minus("k10-untied", "k10-free"))
	shows(t, resultsREADME, "K = 10 minus K = 1 %v", minus("k10-free", "k1-free"))
	// Models with K = 15 and K = 20 were trained with the first seed only.
	for K, name := range map[int]string{15: "k15-free", 20: "k20-free"} {
		d := arms[name].minus(arms["k10-free"][:1], annealedNLL)
		shows(t, resultsREADME, "K = %d minus K = 10 %s", K, signed(d.mean, d.imageSE))
	}
	all := showContrasts(t, arms, map[string][2]string{
		"free minus none, K = 10":                   {"k10-free", "k10-none"},
		"K = 10 minus K = 1, free":                  {"k10-free", "k1-free"},
		"untied minus free, K = 10":                 {"k10-untied", "k10-free"},
		"K = 10, free, minus the VAE at equal work": {"k10-free", "vae115"},
	})
	if n := holm(all, 4.315, 3.961, 3.495, 2.776); n != 4 { // t with 4 degrees of freedom
		t.Errorf("%d of 4 differences are significant, but the README says 4", n)
	}
	matches(t, "results/joint.svg", plot.Panels(2, jointChart("ELBO", arms, elbo), jointChart("annealed NLL", arms, annealedNLL)))
}

// jointChart plots a statistic, averaged over seeds, against K.
func jointChart(name string, arms map[string]arm, of statistic) plot.Chart {
	chart := plot.Chart{Title: name, XLabel: "K", YLabel: name + " ± s.d. over seeds (nats)", XTicks: []float64{1, 10, 15, 20}}
	add := func(label string, steps []float64, arms ...arm) {
		s := plot.Series{Label: label, X: steps}
		for _, a := range arms {
			mean, sd := a.meanSD(of)
			s.Y = append(s.Y, float64(mean))
			s.Error = append(s.Error, float64(sd))
		}
		chart.Series = append(chart.Series, s)
	}
	add("VAE, same work", []float64{1, 10}, arms["vae25"], arms["vae115"])
	add("free", []float64{1, 10}, arms["k1-free"], arms["k10-free"])
	add("free, one seed", []float64{1, 10, 15, 20},
		arms["k1-free"][:1], arms["k10-free"][:1], arms["k15-free"], arms["k20-free"])
	add("none", []float64{10}, arms["k10-none"])
	add("untied", []float64{10}, arms["k10-untied"])
	return chart
}

// Experiment 3: The numbers of leapfrog steps K and draws L are chosen so that training costs the same.
func TestFlowsAgainstDrawsMatchTheResults(t *testing.T) {
	arms := readArms(t, "draws.jsonl")
	for name, label := range map[string]string{
		"start": "start", "k0-l12": "(0, 12)", "k1-l3": "(1, 3)", "k2-l2": "(2, 2)", "k5-l1": "(5, 1)",
	} {
		showArm(t, label, arms[name])
	}
	all := showContrasts(t, arms, map[string][2]string{
		"(1, 3) minus (0, 12)": {"k1-l3", "k0-l12"},
		"(2, 2) minus (0, 12)": {"k2-l2", "k0-l12"},
		"(5, 1) minus (0, 12)": {"k5-l1", "k0-l12"},
	})
	if n := holm(all, 7.649, 6.205, 4.303); n != 3 { // t with 2 degrees of freedom
		t.Errorf("%d of 3 differences are significant, but the README says 3", n)
	}
	var volumes []float64
	for _, name := range []string{"k1-l3", "k2-l2", "k5-l1"} {
		volumes = append(volumes, arms[name][0].S*arms[name][:1].product())
	}
	shows(t, resultsREADME, "s·Π α_k is %s (seed 85547)", list("%.2f", volumes...))
}
