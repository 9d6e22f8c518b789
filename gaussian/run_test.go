package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hvae/ad"
	"hvae/gaussian/model"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// An experiment holds the values of the flags. Its methods compute the expected output from exported
// functions of package model, independently of the program.
type experiment struct {
	dims    []int
	methods []string
	datasets, points,
	iterations, draws int
	rate float64
	seed uint64
}

// base is a small experiment with three methods. Only hvae-k1 learns an inverse temperature β₀.
var base = experiment{dims: []int{2}, methods: []string{"hvae-k1", "nf-k1", "vb"}, datasets: 3, points: 50, iterations: 20, draws: 3, rate: 0.01, seed: 3}

// args returns the experiment's flags as command-line arguments.
func (e experiment) args() []string {
	var dims []string
	for _, d := range e.dims {
		dims = append(dims, fmt.Sprint(d))
	}
	return []string{"-d", strings.Join(dims, ","), "-methods", strings.Join(e.methods, ","), "-datasets", fmt.Sprint(e.datasets), "-n", fmt.Sprint(e.points),
		"-iters", fmt.Sprint(e.iterations), "-batch", fmt.Sprint(e.draws), "-lr", fmt.Sprint(e.rate), "-seed", fmt.Sprint(e.seed)}
}

// An estimate holds the results of one method and of maximum likelihood for one dataset.
type estimate struct{ deltaErr, sigmaErr, beta0, volume, elbo, evidence, mleDeltaErr, mleSigmaErr, mleEvidence float64 }

// estimates trains a method on each dataset in d dimensions. Datasets, initial values and noise use
// separate random streams.
func (e experiment) estimates(t *testing.T, d int, name string) (all []estimate) {
	t.Helper()
	// The true Δ increases from −(d−1)/10 to (d−1)/10. The true σ is 1 at the ends and 0.1 in the
	// middle.
	delta, sigma := make([]float64, d), make([]float64, d)
	for j := range d {
		delta[j], sigma[j] = float64(2*j-d+1)/10, 1
		if d > 1 {
			u := float64(2*j)/float64(d-1) - 1
			sigma[j] = 0.9*u*u + 0.1
		}
	}
	distance := func(a, b []float64) (sum float64) {
		for j := range a {
			sum += (a[j] - b[j]) * (a[j] - b[j])
		}
		return sum
	}
	for k := range e.datasets {
		dataset := model.Draw(model.Theta{Delta: delta, Sigma: sigma}, e.points, random.Stream(e.seed, "gaussian data", d, k))
		start := random.Stream(e.seed, "gaussian start "+name, d, k)
		method := map[string]func() *model.Method{
			"hvae-k1":         func() *model.Method { return model.NewHVAE(dataset, 1, "fixed") },
			"hvae-k10":        func() *model.Method { return model.NewHVAE(dataset, 10, "fixed") },
			"hvae-untied-k1":  func() *model.Method { return model.NewHVAE(dataset, 1, "untied") },
			"hvae-untied-k10": func() *model.Method { return model.NewHVAE(dataset, 10, "untied") },
			"hvae-notemp-k1":  func() *model.Method { return model.NewHVAE(dataset, 1, "none") },
			"hvae-notemp-k10": func() *model.Method { return model.NewHVAE(dataset, 10, "none") },
			"nf-k1":           func() *model.Method { return model.NewPlanar(dataset, 1, start) },
			"nf-k30":          func() *model.Method { return model.NewPlanar(dataset, 30, start) },
			"vb":              func() *model.Method { return model.NewMeanField(dataset) },
		}[name]()
		var tape ad.Tape[float64]
		var leaves []*ad.Var[float64]
		seed := random.Stream(e.seed, "gaussian noise "+name, d, k).Uint64()
		bound := func(batch random.Batch, lo, draws int) *ad.Var[float64] {
			noise := linalg.New[float64](method.NoiseRows, draws)
			for j := range draws {
				var pcg rand.PCG
				batch.Start(&pcg, lo+j)
				random.FillNormalColumn(rand.New(&pcg), noise, j)
			}
			tape.Reset()
			leaves = nil
			for _, p := range method.Params {
				leaves = append(leaves, tape.Leaf(p.Value))
			}
			return ad.Mean(method.ELBO(leaves, tape.Const(noise)))
		}
		optimiser := hvae.RMSProp[float64]{Rate: e.rate}
		var averages [][][]float64 // the running averages of the optimiser for each parameter
		for _, p := range method.Params {
			averages = append(averages, [][]float64{slices.Repeat(optimiser.Start(), len(p.Value.Data))})
		}
		for i := range e.iterations {
			gradients := ad.Backward(nil, bound(random.NewBatch(seed, "algorithm 2 step", i), 0, e.draws), leaves...)
			for j, p := range method.Params {
				optimiser.Ascend(i+1, p.Value.Data, gradients[j].Data, averages[j])
			}
		}
		var s estimate
		for i := range 100 { // blocks of 100 draws
			s.elbo += bound(random.NewBatch(seed, "algorithm 2 evaluation"), 100*i, 100).Scalar() / 100
		}
		params := method.Params
		learned := model.Theta{Delta: params[0].Value.Data}
		for _, v := range params[1].Value.Data {
			learned.Sigma = append(learned.Sigma, math.Exp(v))
		}
		best := dataset.MaximumLikelihood()
		s.deltaErr, s.sigmaErr, s.evidence = distance(learned.Delta, delta), distance(learned.Sigma, sigma), dataset.LogEvidence(learned)
		s.mleDeltaErr, s.mleSigmaErr, s.mleEvidence = distance(best.Delta, delta), distance(best.Sigma, sigma), dataset.LogEvidence(best)
		s.volume = 1 // s·Π α_k
		switch {
		case strings.HasPrefix(name, "hvae-untied"): // the last parameters are log α and log s
			logSD := params[4].Value.Data[0]
			s.beta0, s.volume = math.Exp(-2*logSD), math.Exp(logSD)
			for _, logAlpha := range params[3].Value.Data {
				s.volume *= math.Exp(logAlpha)
			}
		case strings.HasPrefix(name, "hvae-notemp"):
			s.beta0 = 1
		case strings.HasPrefix(name, "hvae"): // 1/√β₀ = 1 + exp of the last parameter
			s.beta0 = math.Pow(1+math.Exp(params[len(params)-1].Value.Data[0]), -2)
		default:
			s.beta0, s.volume = math.NaN(), math.NaN()
		}
		all = append(all, s)
	}
	return all
}

// over returns the mean x̄ of a quantity x over n datasets, and the standard error of the mean,
// √(Σ (x_i − x̄)²/(n − 1)/n).
func over(all []estimate, quantity func(estimate) float64) (mean, standardError float64) {
	for _, e := range all {
		mean += quantity(e) / float64(len(all))
	}
	for _, e := range all {
		standardError += math.Pow(quantity(e)-mean, 2)
	}
	return mean, math.Sqrt(standardError / float64(len(all)-1) / float64(len(all)))
}

// An expectedRow holds the expected results of a method and of maximum likelihood in d dimensions. The
// field numbers maps the name of each result to its value, or NaN if it is missing.
type expectedRow struct {
	method  string
	d       int
	numbers map[string]float64
}

// rows returns the rows that the program should print: for each dimension in e.dims, a row for each
// method in e.methods.
func (e experiment) rows(t *testing.T) (rows []expectedRow) {
	t.Helper()
	for _, d := range e.dims {
		for _, m := range e.methods {
			all, n := e.estimates(t, d, m), map[string]float64{}
			n["delta_err"], _ = over(all, func(e estimate) float64 { return e.deltaErr })
			n["sigma_err"], n["sigma_err_se"] = over(all, func(e estimate) float64 { return e.sigmaErr })
			n["err"], n["err_se"] = over(all, func(e estimate) float64 { return e.deltaErr + e.sigmaErr })
			n["volume"], _ = over(all, func(e estimate) float64 { return e.volume })
			n["beta0"], _ = over(all, func(e estimate) float64 { return e.beta0 })
			n["elbo"], _ = over(all, func(e estimate) float64 { return e.elbo })
			n["log_evidence"], _ = over(all, func(e estimate) float64 { return e.evidence })
			n["gap"] = n["log_evidence"] - n["elbo"]
			n["mle_delta_err"], _ = over(all, func(e estimate) float64 { return e.mleDeltaErr })
			n["mle_sigma_err"], _ = over(all, func(e estimate) float64 { return e.mleSigmaErr })
			n["mle sum"], n["mle_err_se"] = over(all, func(e estimate) float64 { return e.mleDeltaErr + e.mleSigmaErr })
			n["mle_log_evidence"], _ = over(all, func(e estimate) float64 { return e.mleEvidence })
			n["datasets"] = float64(e.datasets)
			rows = append(rows, expectedRow{m, d, n})
		}
	}
	return rows
}

// json returns the JSON objects that the flag -json should print, without running times.
func (e experiment) json(t *testing.T) (objects []map[string]any) {
	for _, r := range e.rows(t) {
		o := map[string]any{"method": r.method, "d": float64(r.d)}
		for name, v := range r.numbers {
			switch {
			case strings.Contains(name, " "): // only for the table and the figures
			case math.IsNaN(v):
				o[name] = nil
			default:
				o[name] = v
			}
		}
		objects = append(objects, o)
	}
	return objects
}

// table returns the expected fields of each line of the table, without running times.
func (e experiment) table(t *testing.T) (lines [][]string) {
	four := func(v float64) string {
		if math.IsNaN(v) {
			return "–"
		}
		return fmt.Sprintf("%.4g", v)
	}
	sum := func(v, se float64) []string {
		if math.IsNaN(se) {
			return []string{four(v)}
		}
		return []string{four(v), "±", fmt.Sprintf("%.2g", se)}
	}
	one := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	for i, r := range e.rows(t) {
		n := r.numbers
		if i%len(e.methods) == 0 {
			lines = append(lines,
				strings.Fields(fmt.Sprintf("d = %d: %d datasets of %d points, %d iterations of %d draws, learning rate %v, seed %d", r.d, e.datasets, e.points, e.iterations, e.draws, e.rate, e.seed)),
				strings.Fields("method Δ error σ error sum ± s.e. β₀ ELBO log p(D) gap seconds"))
		}
		line := append([]string{r.method, four(n["delta_err"]), four(n["sigma_err"])}, sum(n["err"], n["err_se"])...)
		lines = append(lines, append(line, four(n["beta0"]), one(n["elbo"]), one(n["log_evidence"]), one(n["gap"])))
		if i%len(e.methods) == len(e.methods)-1 {
			line := append([]string{"max.", "likelihood", four(n["mle_delta_err"]), four(n["mle_sigma_err"])}, sum(n["mle sum"], n["mle_err_se"])...)
			lines = append(lines, append(line, one(n["mle_log_evidence"])), nil)
		}
	}
	return lines
}

// printed runs the program with -json and returns the printed objects without running times. It checks that
// each running time, a sum over at most 64 cores, is positive and less than 64 times the elapsed time.
func printed(t *testing.T, args ...string) (objects []map[string]any) {
	t.Helper()
	start := time.Now()
	stdout, stderr, status := gaussianCommand(t.Context(), append(args, "-json")...)
	if status != 0 {
		t.Fatalf("%v: status %d, stderr %q", args, status, stderr)
	}
	most := time.Since(start).Seconds() * 64
	objects = decode[map[string]any](t, stdout)
	for _, o := range objects {
		if s, ok := o["seconds"].(float64); !ok || !(s > 0 && s < most) {
			t.Errorf("%v: the row contains %v seconds, want a number between 0 and %v", args, o["seconds"], most)
		}
		delete(o, "seconds")
	}
	return objects
}

// almost treats numbers with a relative difference of at most 1e-9 as equal, because the program may
// add numbers in another order.
var almost = cmpopts.EquateApprox(1e-9, 0)

func TestSecondsAreTheSumOverDatasets(t *testing.T) {
	if r := average("vb", 2, []*result{{seconds: 1}, {seconds: 2.5}, {seconds: 4}}); r.Seconds != 7.5 {
		t.Errorf("for datasets that take 1, 2.5 and 4 seconds, the row contains %v seconds, want 7.5", r.Seconds)
	}
}

func TestEveryNumberIsCorrectForEachFlag(t *testing.T) {
	for name, change := range map[string]func(*experiment){
		"no flag":     func(*experiment) {},
		"-d":          func(e *experiment) { e.dims = []int{1} },
		"-methods":    func(e *experiment) { e.methods = []string{"vb", "hvae-notemp-k1"} },
		"-datasets":   func(e *experiment) { e.datasets = 1 },
		"-n":          func(e *experiment) { e.points = 51 },
		"-iters":      func(e *experiment) { e.iterations = 21 },
		"-batch":      func(e *experiment) { e.draws = 4 },
		"-lr":         func(e *experiment) { e.rate = 0.011 },
		"-seed":       func(e *experiment) { e.seed = math.MaxUint64 },
		"-d 2,1":      func(e *experiment) { e.dims, e.methods = []int{2, 1}, []string{"vb"} },
		"all methods": func(e *experiment) { e.dims, e.methods, e.datasets = []int{3, 1}, model.MethodNames(), 2 },
	} {
		e := base
		change(&e)
		if diff := cmp.Diff(e.json(t), printed(t, append(e.args(), "-out", t.TempDir())...), almost); diff != "" {
			t.Errorf("after a change of %s, the output differs (-want +got):\n%s", name, diff)
		}
	}
}

func TestFlagsHaveDefaultsOfPaper(t *testing.T) {
	all := strings.Split("hvae-k1 hvae-k10 hvae-notemp-k1 hvae-notemp-k10 nf-k1 nf-k30 vb", " ")
	want := options{dims: []int{50}, methods: all, datasets: 10, config: model.Config{Points: 10_000, Iterations: 30_000, Draws: 10, Rate: 1e-3, Seed: 1}}
	for args, change := range map[string]func(*options){
		"":                         func(*options) {},
		"-d 3,1":                   func(o *options) { o.dims = []int{3, 1} },
		"-methods vb,nf-k1":        func(o *options) { o.methods = []string{"vb", "nf-k1"} },
		"-datasets 2":              func(o *options) { o.datasets = 2 },
		"-n 3":                     func(o *options) { o.config.Points = 3 },
		"-iters 4":                 func(o *options) { o.config.Iterations = 4 },
		"-batch 5":                 func(o *options) { o.config.Draws = 5 },
		"-lr 6":                    func(o *options) { o.config.Rate = 6 },
		"-seed 7":                  func(o *options) { o.config.Seed = 7 },
		"-out x":                   func(o *options) { o.out = "x" },
		"-json":                    func(o *options) { o.json = true },
		"-two-modes -seed 2 -json": func(o *options) { o.twoModes, o.config.Seed, o.json = true, 2, true },
	} {
		want := want
		change(&want)
		got, err := parse(strings.Fields(args))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{})); diff != "" || err != nil {
			t.Errorf("%q: error %v, options (-want +got):\n%s", args, err, diff)
		}
	}
}

func TestTableShowsExpectedNumbers(t *testing.T) {
	for _, change := range []func(*experiment){
		func(e *experiment) { e.dims = []int{2, 1} },
		func(e *experiment) { e.datasets = 1 },
	} {
		e := base
		change(&e)
		stdout, stderr, status := gaussianCommand(t.Context(), append(e.args(), "-out", t.TempDir())...)
		if status != 0 {
			t.Fatalf("status %d, stderr %q", status, stderr)
		}
		var got [][]string
		widths := map[int]bool{}
		for line := range strings.Lines(stdout) {
			fields := strings.Fields(line)
			if len(fields) == 0 {
				fields = nil
			} else if fields[0] != "d" {
				widths[len([]rune(line))] = true
			}
			if len(fields) > 0 && slices.Contains(e.methods, fields[0]) {
				fields = fields[:len(fields)-1] // remove the running time
			}
			got = append(got, fields)
		}
		if diff := cmp.Diff(e.table(t), got); diff != "" {
			t.Errorf("the fields of the table differ (-want +got):\n%s", diff)
		}
		if len(widths) != 1 {
			t.Errorf("the lines have the different widths %v:\n%s", slices.Sorted(maps.Keys(widths)), stdout)
		}
	}
}
