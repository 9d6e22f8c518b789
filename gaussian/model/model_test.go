package model

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

var small = Config{Points: 100, Iterations: 250, Draws: 4, Rate: 1e-2, Seed: 3}

func TestMeanFieldLearnsMaximumLikelihoodScale(t *testing.T) {
	// The family of approximate posteriors contains the exact posterior, so the maximum of the bound
	// is the maximum of the evidence.
	c := Config{Points: 100, Iterations: 6050, Draws: 1, Rate: 2e-3, Seed: 4}
	best := c.Dataset(2, 0).MaximumLikelihood()
	iterations := 0
	o, err := c.Train(t.Context(), Run{Dims: 2, Method: "vb"}, func(n int) { iterations += n })
	if err != nil {
		t.Fatal(err)
	}
	if iterations != c.Iterations {
		t.Errorf("Train reported %d iterations to progress, want %d", iterations, c.Iterations)
	}
	for j := range 2 {
		if r := o.Theta.Sigma[j] / best.Sigma[j]; !(math.Abs(r-1) <= 0.005) {
			t.Errorf("σ_%d = %.4f, want the maximum-likelihood estimate %.4f", j, o.Theta.Sigma[j], best.Sigma[j])
		}
	}
}

func TestDivergenceErrorDescribesRunAndParameters(t *testing.T) {
	c := small
	c.Rate = 1e4
	for _, name := range MethodNames() {
		_, err := c.Train(t.Context(), Run{Dims: 2, Method: name, Dataset: 6}, func(int) {})
		if err == nil {
			t.Errorf("%s: training with the learning rate 1e4 returns no error", name)
			continue
		}
		for _, want := range []string{name, "dataset 7", "d = 2", "iteration", "delta = [", "log_sigma = [", "-lr"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not contain %q: %v", name, want, err)
			}
		}
		if p := err.Error()[strings.Index(err.Error(), "\n"):]; strings.Contains(p, "NaN") {
			t.Errorf("%s: the error contains NaN, so the failed step changed the parameters: %s", name, p)
		}
	}
}

func TestTrainReturnsWhenContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err := small.Train(ctx, Run{Dims: 1, Method: "vb"}, func(int) {
		if n++; n == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || n != 2 {
		t.Errorf("Train returned the error %v after %d calls of progress, want context.Canceled after 2 calls", err, n)
	}
}

func TestMeanOfExactBoundIsTheBound(t *testing.T) {
	data := Draw(Truth(3), 20, random.Stream(1, "data"))
	trainer := NewTrainer(NewMeanField(data), 1e-3, 1)
	meanELBO := func(n int) float64 {
		elbo, _, err := trainer.Evaluate(t.Context(), make([]int, n), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return elbo
	}
	want := meanELBO(1)
	for _, n := range []int{7, 100, 250} {
		if got := meanELBO(n); !(math.Abs(got-want) <= 1e-12*math.Abs(want)) {
			t.Errorf("the mean of %d draws of the bound is %v, want %v", n, got, want)
		}
	}
}

func TestCostIncreasesWithDimensionAndK(t *testing.T) {
	for _, m := range MethodNames() {
		if !(Cost(m, 1) > 0) || !(Cost(m, 100) > Cost(m, 1)) {
			t.Errorf("the cost of %s is %v for d = 1 and %v for d = 100, want positive and increasing costs", m, Cost(m, 1), Cost(m, 100))
		}
	}
	for _, pair := range [][2]string{{"hvae-k1", "hvae-k10"}, {"hvae-notemp-k1", "hvae-notemp-k10"}, {"nf-k1", "nf-k30"}} {
		if !(Cost(pair[0], 50) < Cost(pair[1], 50)) {
			t.Errorf("the cost of %s is %v, not less than the cost of %s, %v", pair[0], Cost(pair[0], 50), pair[1], Cost(pair[1], 50))
		}
	}
}

// root returns a method that has one parameter θ and the bound √θ + constant.
func root(theta, constant float64) *Method {
	m := &Method{ELBO: func(params []*ad.Var[float64], _ *ad.Var[float64]) *ad.Var[float64] {
		return ad.AddConst(ad.Exp(ad.Scale(ad.Log(params[0]), 0.5)), constant)
	}}
	m.add("theta", 1, 1, theta)
	return m
}

func TestStepChangesParametersOnlyIfBoundAndGradientAreFinite(t *testing.T) {
	for _, c := range []struct {
		theta, constant float64
		finite          bool
	}{
		{1, 0, true},
		{1, math.Inf(1), false},
		{1, math.Inf(-1), false},
		{1, math.NaN(), false},
		{0, 0, false}, // the derivative is infinite
	} {
		m := root(c.theta, c.constant)
		_, err := NewTrainer(m, 0.1, 1).Step(t.Context(), []int{0})
		theta := m.Params[0].Value.Data[0]
		if (err == nil) != c.finite || (theta != c.theta) != c.finite {
			t.Errorf("for the bound √%v + %v, Step returns the error %v and sets θ to %v; want an error and no change only if the bound or its gradient is not finite", c.theta, c.constant, err, theta)
		}
	}
}

func TestTwoModesReturnsTheRequestedNumberOfDraws(t *testing.T) {
	f := TwoModesFlow{K: 2, StepSize: 0.1, InvSqrtBeta0: 3, Tempering: "fixed"}
	for _, draws := range []int{1, 500, 700} { // Draw computes batches of 500
		if l, changed, err := f.Draw(t.Context(), draws, random.Stream(1, "draws")); err != nil || len(l) != draws || changed > draws {
			t.Errorf("for n = %d, Draw returns %d estimates, %d changes of mode and the error %v; want n estimates and at most n changes", draws, len(l), changed, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if l, _, err := f.Draw(ended, math.MaxInt, random.Stream(1, "draws")); err != context.Canceled {
		t.Errorf("after cancellation, Draw returns %d draws and the error %v, want context.Canceled", len(l), err)
	}
}

func TestTwoModesPathsFollowLeapfrogScheme(t *testing.T) {
	// The positions z_k of the leapfrog steps must satisfy
	//	z_{k+1} − z_k = α_k (z_k − z_{k−1}) − ½ε²(1 + α_k) ∇U(z_k).
	const K, n = 30, 60
	gradU := func(x, y float64) [2]float64 { // the gradient of U = −log p, where s² = ¼
		right := 1 / (1 + math.Exp(-2*3*x/0.25)) // posterior probability of the right mode
		return [2]float64{(x + 3 - 6*right) / 0.25, y / 0.25}
	}
	potential := func(x, y float64) float64 {
		left, right := math.Exp(-2*(x+3)*(x+3)), math.Exp(-2*(x-3)*(x-3))
		return 2*y*y - math.Log((left+right)/math.Pi)
	}
	for _, f := range []TwoModesFlow{{K, 0.1, 3, "fixed"}, {K, 0.1, 3, "none"}, {K, 0.15, 2, "free"}} {
		invSqrtBeta := func(k int) float64 {
			u, r := float64(k)/K, f.InvSqrtBeta0
			return map[string]float64{"none": 1, "fixed": (1-r)*u*u + r, "free": math.Pow(r, 1-u)}[f.Tempering]
		}
		changed := 0
		paths := f.Paths(n, random.Stream(1, "paths"))
		if len(paths) != n {
			t.Fatalf("Paths returns %d paths, want %d", len(paths), n)
		}
		for _, p := range paths {
			if len(p.X) != K+1 || len(p.Y) != K+1 || len(p.H) != K+1 || len(p.InvBeta) != K+1 {
				t.Fatalf("the path %+v does not contain %d + 1 values of each quantity", p, K)
			}
			for k := range K + 1 {
				if want := invSqrtBeta(k) * invSqrtBeta(k); !(math.Abs(p.InvBeta[k]-want) <= 1e-10) {
					t.Errorf("%v: 1/β_%d is %v, want %v", f, k, p.InvBeta[k], want)
				}
				if k == K {
					break
				}
				g, H := gradU(p.X[k], p.Y[k]), potential(p.X[k], p.Y[k])
				for j, z := range [][]float64{p.X, p.Y} {
					rho := (z[k+1]-z[k])/f.StepSize + f.StepSize/2*g[j]
					H += rho * rho / 2
					if k == 0 {
						continue
					}
					alpha := invSqrtBeta(k) / invSqrtBeta(k-1)
					if want := z[k] + alpha*(z[k]-z[k-1]) - 0.5*f.StepSize*f.StepSize*(1+alpha)*g[j]; !(math.Abs(z[k+1]-want) <= 1e-10) {
						t.Fatalf("%v: z_%d is %v, want %v", f, k+1, z[k+1], want)
					}
				}
				if !(math.Abs(p.H[k]-H) <= 1e-8) {
					t.Errorf("%v: H at step %d is %v, want %v", f, k, p.H[k], H)
				}
			}
			if p.ChangesMode() {
				changed++
			}
		}
		if _, want, _ := f.Draw(t.Context(), n, random.Stream(1, "paths")); changed != want || want == 0 {
			t.Errorf("%v: %d paths change mode, but Draw counts %d; want equal positive numbers", f, changed, want)
		}
	}
}

func TestBothModesHaveProbabilityOneHalf(t *testing.T) {
	var tape ad.Tape[float64]
	const n, width, height = 400, 20.0, 8.0
	z := tape.Matrix(2, (n+1)*(n+1))
	for i := range n + 1 {
		for j := range n + 1 {
			z.Data[i*(n+1)+j] = width * (float64(i)/n - 0.5)
			z.Data[z.Cols+i*(n+1)+j] = height * (float64(j)/n - 0.5)
		}
	}
	left, right := 0.0, 0.0
	for i, l := range TwoModes.LogJoint(tape.Const(z)).Value.Data {
		p := math.Exp(l) * width / n * height / n
		switch x := z.Data[i]; {
		case x < 0:
			left += p
		case x > 0:
			right += p
		}
	}
	if !(math.Abs(left-0.5) <= 1e-6) || !(math.Abs(right-0.5) <= 1e-6) {
		t.Errorf("the probabilities of the modes are %.9f and %.9f, want 0.5", left, right)
	}
}

func TestSummariseAvoidsCancellation(t *testing.T) {
	x := linalg.New[float64](1, 50)
	random.FillNormal(random.Stream(11, "points"), x)
	base := Summarise(x)
	linalg.AddConst(x, x, 1e7)
	moved := Summarise(x) // the shifted points are rounded to about 10⁻⁹
	if !(math.Abs(moved.Scatter[0]/base.Scatter[0]-1) <= 1e-8) || !(math.Abs(moved.Mean[0]-1e7-base.Mean[0]) <= 1e-7) {
		t.Errorf("after a shift by 10⁷, the scatter changes from %v to %v, and the mean from %v to %v", base.Scatter, moved.Scatter, base.Mean, moved.Mean)
	}
}

// RMSProp must follow TensorFlow 1: v ← v + (1 − 0.9)(g² − v), θ ← θ + rate·g/√(v + 10⁻¹⁰), where v = 1 at the start.
func TestRMSPropMatchesItsFormula(t *testing.T) {
	o := hvae.RMSProp[float64]{Rate: 0.01}
	theta, averages, want, v := []float64{1}, [][]float64{o.Start()}, 1.0, 1.0
	gradients := append([]float64{3, -1, 0, 100}, make([]float64, 300)...) // the zeros reduce v below 10⁻¹⁰,
	for i, g := range append(gradients, 1e-5) {                            // so 10⁻¹⁰ matters in the last step
		o.Ascend(i+1, theta, []float64{g}, averages)
		v += (g*g - v) * (1 - 0.9)
		want += 0.01 * g / math.Sqrt(v+1e-10)
		if !(math.Abs(theta[0]-want) <= 1e-12) {
			t.Fatalf("θ is %v after step %d, want %v", theta[0], i+1, want)
		}
	}
}

// The parameters must start at the values of the authors' code. The elements of u and w are drawn from N(0, 0.1²)
// truncated at two standard deviations, whose variance is 0.1²·(1 − 4φ(2)/(2Φ(2) − 1)) = 0.1²·0.7737.
func TestParametersStartAtTheAuthorsValues(t *testing.T) {
	data := Draw(Truth(3), 100, random.Stream(23, "start"))
	check := func(m *Method, starts ...float64) {
		t.Helper()
		for i, want := range append([]float64{0, 3}, starts...) { // Δ and log σ come first
			for _, v := range m.Params[i].Value.Data {
				if !(math.Abs(v-want) < 1e-12) {
					t.Errorf("the parameter %s starts at %v, want %v", m.Params[i].Name, v, want)
				}
			}
		}
	}
	tempered := NewHVAE(data, 10, "fixed")
	check(tempered, math.Log(0.01/0.99), math.Log(4)) // ε = 0.5·0.01 and 1/√β₀ = 1 + 4
	check(NewHVAE(data, 10, "none"), math.Log(0.01/0.99))
	check(NewMeanField(data), 0, 1)
	check(NewHVAE(data, 10, "untied"), math.Log(0.01/0.99), -math.Log(5)/10, math.Log(5))
	for tempering, want := range map[string]float64{"none": 1, "fixed": 5, "untied": 5} {
		if sd, volume := NewHVAE(data, 10, tempering).Momentum(); !(math.Abs(sd-want) <= 1e-14 && math.Abs(volume-1) <= 1e-14) {
			t.Errorf("tempering %s: s and s·Π α_k start at %v and %v, want %v and 1", tempering, sd, volume, want)
		}
	}
	sum, n := 0.0, 0.0
	for k := range 500 {
		p := NewPlanar(data, 1, random.Stream(25, "start", k)).Params
		if b := p[4].Value.Data[0]; b != 0.1 {
			t.Fatalf("b starts at %v, want 0.1", b)
		}
		for _, v := range append(slices.Clone(p[2].Value.Data), p[3].Value.Data...) {
			if !(math.Abs(v) <= 0.2) {
				t.Fatalf("an element of u or w starts at %v, want −0.2 to 0.2", v)
			}
			sum, n = sum+v*v/0.01, n+1
		}
	}
	if se := 0.90 / math.Sqrt(n); !(math.Abs(sum/n-0.7737) <= 4.5*se) { // 0.90 is the standard deviation of v²/0.1²
		t.Errorf("the variance of the elements of u and w is %.4f·0.1², want 0.7737·0.1²", sum/n)
	}
}

func TestMaximumLikelihoodAvoidsCancellation(t *testing.T) {
	// The maximum-likelihood variance approaches S/N for a large scatter S, and S/(N−1) for a small S.
	for _, c := range []struct{ scatter, want float64 }{{1e20, 1e20 / 3}, {1e-20, 1e-20 / 2}} {
		d := Data{N: 3, Mean: []float64{0.5}, Scatter: []float64{c.scatter}}
		got := d.MaximumLikelihood().Sigma[0]
		if v := got * got; !(math.Abs(v/c.want-1) <= 1e-12) {
			t.Errorf("scatter %v: σ² = %v, want %v", c.scatter, v, c.want)
		}
	}
}
