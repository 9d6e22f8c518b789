package model

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/linalg/random"
)

// names lists the paper's methods and, in addition, HVAE with untied tempering.
var names = strings.Fields("hvae-k1 hvae-k10 hvae-notemp-k1 hvae-notemp-k10 hvae-untied-k1 hvae-untied-k10 nf-k1 nf-k30 vb")

var small = Config{Points: 100, Iterations: 250, Draws: 4, Rate: 1e-2, Seed: 3}

func TestDivergenceErrorDescribesTheRun(t *testing.T) {
	c := small
	c.Rate = 1e4
	for _, name := range names {
		want := name + " on dataset 7 (d = 2) failed after "
		_, err := c.Train(t.Context(), name, 2, 6, func() {})
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "try a smaller -lr") {
			t.Errorf("with the learning rate 1e4, the error is %v, want %s and advice", err, want)
		}
	}
}

// For two values x and x + 2a, the average must be x + a, and the standard error must be a.
func TestAverage(t *testing.T) {
	var values [3]Outcome
	for k := range values {
		o := &values[k]
		*o = Outcome{Method: "vb", Dims: 2, Datasets: 1}
		for i, v := range reflect.ValueOf(o).Elem().Fields() {
			if v.Kind() == reflect.Float64 {
				v.SetFloat(float64(len(i.Name) + k))
			}
		}
		o.ErrSE = 0
	}
	one, both, two := values[0], values[1], values[2]
	both.Datasets, both.ErrSE, both.Seconds = 2, 1, 2*both.Seconds
	if got := Average([]Outcome{one}); !reflect.DeepEqual(got, one) {
		t.Errorf("the average over one dataset is %+v, want %+v", got, one)
	}
	if got := Average([]Outcome{one, two}); !reflect.DeepEqual(got, both) {
		t.Errorf("the average is %+v, want %+v", got, both)
	}
}

// The errors and log densities in an outcome must match values computed from its θ̂ and its dataset.
func TestOutcomeDescribesItsEstimate(t *testing.T) {
	for _, name := range names {
		iterations := 0
		o, err := small.Train(t.Context(), name, 2, 1, func() { iterations++ })
		if err != nil || iterations != small.Iterations {
			t.Fatalf("error %v after %d iterations, want %d iterations", err, iterations, small.Iterations)
		}
		truth := Theta{[]float64{-0.1, 0.1}, []float64{1, 1}}
		data := Draw(truth, small.Points, random.Stream(small.Seed, "gaussian data", 2, 1))
		best := data.MaximumLikelihood()
		square := func(a, b []float64) float64 { return math.Pow(a[0]-b[0], 2) + math.Pow(a[1]-b[1], 2) }
		deltaErr, sigmaErr := square(o.Theta.Delta, truth.Delta), square(o.Theta.Sigma, truth.Sigma)
		for i, v := range [][2]float64{
			{o.DeltaErr, deltaErr}, {o.SigmaErr, sigmaErr}, {o.Err, deltaErr + sigmaErr},
			{o.MLEDeltaErr, square(best.Delta, truth.Delta)}, {o.MLESigmaErr, square(best.Sigma, truth.Sigma)},
			{o.LogEvidence, data.LogEvidence(o.Theta)}, {o.MLEEvidence, data.LogEvidence(best)},
			{o.TiedLimit, data.TiedLimit(o.Theta)}, {o.Gap, o.LogEvidence - o.ELBO},
		} {
			if math.Abs(v[0]-v[1]) > 1e-9*math.Abs(v[1]) {
				t.Errorf("%s: result %d is %v, want %v", name, i, v[0], v[1])
			}
		}
		if !(o.Gap > 0) {
			t.Errorf("%s: the gap is %v, want a positive number", name, o.Gap)
		}
	}
}

// TestOutcomeDescribesItsEstimate and TestDivergenceErrorDescribesTheRun fail if Train ignores another setting.
func TestOutcomeDependsOnTheNumberOfDraws(t *testing.T) {
	more := small
	more.Draws++
	a, errA := small.Train(t.Context(), "hvae-k1", 2, 0, func() {})
	b, errB := more.Train(t.Context(), "hvae-k1", 2, 0, func() {})
	if a.ELBO == b.ELBO || errA != nil || errB != nil {
		t.Errorf("with one more draw, the ELBO is %v, as before (errors %v and %v)", b.ELBO, errA, errB)
	}
}

// log p̂ must be log p(x, z_K) + log N(ρ_K|0, I) + ℓ log(Π α_k) − log q⁰(z₀) − log N(ρ₀|0, s²I), where ℓ = 2 and s is
// the standard deviation of ρ₀.
func TestTwoModesDrawsFollowAlgorithm1(t *testing.T) {
	logNormal := func(x, y, sd float64) float64 { return -(x*x+y*y)/(2*sd*sd) - math.Log(2*math.Pi*sd*sd) }
	for _, f := range []TwoModesFlow{
		{Tempering: "none", PriorSD: 1.5, MomentumSD: 1, InvSqrtBeta0: 1, StepSize: 0.1, K: 30},
		{Tempering: "fixed", PriorSD: 0.7, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1, K: 30},
		{Tempering: "untied", PriorSD: 1.5, MomentumSD: 2.5, InvSqrtBeta0: 9, StepSize: 0.1, K: 1},
	} {
		var tape ad.Tape[float64]
		_, sample := f.Draw(&tape, 100, random.Stream(1, "paths"))
		for i, got := range sample.LogEstimate().Value.Data {
			at := func(v *ad.Var[float64]) (x, y float64) { return v.Value.At(0, i), v.Value.At(1, i) }
			x0, y0 := at(sample.Start.Z)
			x, y := at(sample.End.Z)
			rhoX0, rhoY0 := at(sample.Start.Rho)
			rhoX, rhoY := at(sample.End.Rho)
			logJoint := math.Log(math.Exp(logNormal(x+3, y, 0.5))/2 + math.Exp(logNormal(x-3, y, 0.5))/2)
			want := logJoint + logNormal(rhoX, rhoY, 1) - 2*math.Log(f.InvSqrtBeta0) -
				logNormal(x0+3, y0, f.PriorSD) - logNormal(rhoX0, rhoY0, f.MomentumSD)
			if !(math.Abs(got-want) <= 1e-8) {
				t.Errorf("%v: log p̂ of draw %d is %v, want %v", f, i, got, want)
			}
		}
	}
}

func TestStatisticsAvoidCancellation(t *testing.T) {
	var data Data
	data.Add([]float64{0, 1, 0.5})
	data.Add([]float64{1e8, 1e8 + 1, 1e8 + 0.5})
	if want := (Data{3, []float64{0.5, 1e8 + 0.5}, []float64{0.5, 0.5}}); !reflect.DeepEqual(data, want) {
		t.Errorf("the statistics are %v, want %v", data, want)
	}
	// For a small scatter S, the maximum-likelihood variance is close to S/(N−1).
	best := Data{N: 10_000, Mean: []float64{0}, Scatter: []float64{1e-20}}.MaximumLikelihood()
	if v := best.Sigma[0] * best.Sigma[0]; !(math.Abs(v/(1e-20/9999)-1) <= 1e-12) {
		t.Errorf("σ² is %v, want 10⁻²⁰/9999", v)
	}
}

// The parameters must start at the values in the authors' code. The elements of u and w must be drawn from N(0, 0.1²)
// truncated at ±0.2. The variance of this distribution is 0.1²·(1 − 4φ(2)/(2Φ(2) − 1)) = 0.1²·0.7737.
func TestParametersStartAtTheAuthorsValues(t *testing.T) {
	data := Data{Mean: make([]float64, 1000)} // in 1000 dimensions
	epsilon := math.Log(0.01 / 0.99)          // ε = 0.5·0.01
	for name, starts := range map[string][]float64{
		"vb":              {0, 1},
		"hvae-k10":        {epsilon, math.Log(4)}, // 1/√β₀ = 1 + 4
		"hvae-notemp-k10": {epsilon},
		"hvae-untied-k10": {epsilon, -math.Log(5) / 10, math.Log(5)},
	} {
		params := NewMethod(name, data, nil).Params
		starts = append([]float64{0, 3}, starts...) // Δ and log σ come first
		if len(params) != len(starts) {
			t.Fatalf("%s has %d parameters, want %d", name, len(params), len(starts))
		}
		for i, p := range params {
			for _, v := range p.Value.Data {
				if !(math.Abs(v-starts[i]) < 1e-12) {
					t.Errorf("%s: the parameter %s starts at %v, want %v", name, p.Name, v, starts[i])
				}
			}
		}
	}
	sum, n := 0.0, 2000.0
	params := NewPlanar(data, 1, random.Stream(25, "start")).Params
	for _, v := range append(slices.Clone(params[2].Value.Data), params[3].Value.Data...) {
		if !(math.Abs(v) <= 0.2) {
			t.Errorf("an element of u or w starts at %v, want −0.2 to 0.2", v)
		}
		sum += v * v / 0.01
	}
	// 0.90 is the standard deviation of v²/0.1².
	if b := params[4].Value.Data[0]; b != 0.1 || !(math.Abs(sum/n-0.7737) <= 4.5*0.90/math.Sqrt(n)) {
		t.Errorf("b starts at %v, and the variance of u and w is %.4f·0.1², want 0.1 and 0.7737·0.1²", b, sum/n)
	}
}

// In one dimension, TiedLimit must return r − 1 − log r, where r = √(1 + N/σ²) is the ratio of the standard deviations
// of q⁰ and the posterior. In two dimensions with the ratios 2 and 8, it must return 2(√(2·8) − 1) − log(2·8).
func TestTiedLimit(t *testing.T) {
	data := Data{N: 3}
	one, two := data.TiedLimit(Theta{Sigma: []float64{1}}), data.TiedLimit(Theta{Sigma: []float64{1, math.Sqrt(3. / 63)}})
	if math.Abs(one-(1-math.Ln2)) > 1e-12 || math.Abs(two-(6-4*math.Ln2)) > 1e-12 {
		t.Errorf("the limits are %v and %v, want 1 − log 2 and 6 − 4 log 2", one, two)
	}
}
