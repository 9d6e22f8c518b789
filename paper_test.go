// The paper as an executable specification: sections 2 to 5.2 of
//
//	Caterini, Doucet, Sejdinovic: Hamiltonian Variational Auto-Encoder, NeurIPS 2018,
//
// section by section and statement by statement, in its order, each with the number and
// the label of its equation.
//
//	go test -v -run Paper .        prints it
//	go test -run 'Paper/2.3' .     checks a section (section 3: 'Paper/^3')
//
// A statement passes only if the test computes it. Two statements are skipped, because only
// a command of minutes or days checks them; the report names the command.
//
// Statistical statements are tested by z-scores of at least thousands of draws from
// fixed seeds (hvaetest.ZBound). Where a test must be able to see a mistake, it also
// bounds the standard error. Conditions read !(error <= bound), which NaN fails.
package paper_test

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/ad"
	"hvae/gaussian/model"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/mnist/data"
	mnist "hvae/mnist/model"
)

type (
	matrix   = linalg.Matrix[float64]
	variable = *ad.Var[float64]
	tape     = ad.Tape[float64]
)

func TestPaper(t *testing.T) {
	t.Run("2.1 Unbiased likelihood and evidence lower bound estimators", section21)
	t.Run("2.2 Unbiased likelihood estimator using time-inhomogeneous MCMC", section22)
	t.Run("2.3 Using Hamiltonian dynamics", section23)
	t.Run("3 Stochastic Variational Inference", section3)
	t.Run("5.1 Gaussian Model", section51)
	t.Run("5.2 Generative Model for MNIST", section52)
}

func section21(t *testing.T) {
	t.Run("eq. 1, eq:unbiased: the mean of p̂ is p(x)", func(t *testing.T) {
		for _, target := range targets() {
			for _, s := range hvaetest.Schemes() {
				raw, _ := hvaetest.Draws(s, target.bind, 2, 40000, 1)
				ratio := hvaetest.Apply(raw, func(l float64) float64 { return math.Exp(l - target.logEvidence) })
				mean, se := hvaetest.MeanSE(ratio)
				if z := (mean - 1) / se; !(math.Abs(z) <= hvaetest.ZBound) {
					t.Errorf("%s, %v: E[p̂]/p = %.4f ± %.4f, z = %.1f", target.name, s, mean, se, z)
				}
				if se > 0.03 {
					t.Errorf("%s, %v: standard error %.3f is too large to see a mistake", target.name, s, se)
				}
			}
		}
	})

	t.Run("eq. 2, eqn:ELBO_single: the mean of log p̂ is a lower bound of log p(x)", func(t *testing.T) {
		for _, target := range targets() {
			for _, s := range hvaetest.Schemes() {
				raw, _ := hvaetest.Draws(s, target.bind, 2, 20000, 2)
				mean, se := hvaetest.MeanSE(raw)
				// The variational prior is not the posterior: the bound is strict.
				if z := (mean - target.logEvidence) / se; z > -hvaetest.ZBound {
					t.Errorf("%s, %v: ELBO %.4f ± %.4f, log p(x) %.4f", target.name, s, mean, se, target.logEvidence)
				}
			}
		}
	})

	t.Run("the standard framework: p̂ = p(x,z)∕q(z|x)", func(t *testing.T) {
		// With K = 0, or as ε → 0, p̂ = p(x, z₀)/q⁰(z₀).
		for _, s := range hvaetest.Schemes() {
			for _, epsilon := range []float64{1e-5, 1e-6} {
				var tp tape
				f := s.Flow(&tp, hvaetest.Bimodal{Dims: 2}, 2)
				if s.K > 0 {
					f.StepSize = tp.Fill(f.StepSize.Rows(), 2, epsilon)
				}
				sample := hvaetest.HIS(&tp, f, 2, 100, hvae.Stream(12, "plain"))
				plain := hvaetest.Bimodal{Dims: 2}.LogJoint(sample.Start.Z).Value.Data
				prior := hvae.LogNormal(ad.Scale(ad.AddConst(sample.Start.Z, -0.2), 1/1.1)).Value.Data
				tol := 100 * epsilon * float64(s.K) // the distance is of order ε a step
				for i, got := range sample.LogEstimate().Value.Data {
					if want := plain[i] - prior[i] + 2*math.Log(1.1); !(math.Abs(got-want) <= tol+1e-13) {
						t.Fatalf("%v, ε = %v: log p̂ = %v, log p/q = %v", s, epsilon, got, want)
					}
				}
			}
		}
	})

	t.Run("IWAE: with more samples p̂ varies less", importanceEstimateVariesLess)

	t.Run("IWAE: with more samples the bound is tighter", func(t *testing.T) {
		// In expectation the estimate from L draws increases with L and stays below
		// log p(x). The same draws serve every L, so differences are precise.
		bimodal := targets()[0]
		logEvidence := bimodal.logEvidence
		raw, _ := hvaetest.Draws(hvaetest.Scheme{Tempering: "fixed", K: 2}, bimodal.bind, 2, 1<<16, 7)
		var last []float64
		const blocks = 1 << 10
		for _, L := range []int{1, 4, 16, 64} {
			estimates := make([]float64, blocks) // each a mean of 64/L estimates
			for i := range estimates {
				for b := 0; b < 64; b += L {
					e := hvae.ImportanceEstimate(raw[64*i+b : 64*i+b+L]).Log
					estimates[i] += e * float64(L) / 64
				}
			}
			if last != nil {
				if mean, se := hvaetest.MeanSE(hvaetest.Differences(estimates, last)); mean/se < hvaetest.ZBound {
					t.Errorf("L = %d is above the last by %.4f ± %.4f, want it larger", L, mean, se)
				}
			}
			if mean, se := hvaetest.MeanSE(estimates); !((mean-logEvidence)/se <= hvaetest.ZBound) {
				t.Errorf("L = %d: %.4f ± %.4f exceeds log p(x) = %.4f", L, mean, se, logEvidence)
			}
			last = estimates
		}

		// With many draws it is log p(x) within its own standard error.
		importance := hvae.ImportanceEstimate(raw)
		e, se := importance.Log, importance.StandardError
		if z := (e - logEvidence) / se; !(math.Abs(z) <= hvaetest.ZBound) || se > 0.02 {
			t.Errorf("estimate %.4f ± %.4f, log p(x) = %.4f", e, se, logEvidence)
		}
	})

	t.Run("IWAE: log p̂ from L samples, and its standard error", importanceEstimate)
	t.Run("IWAE: the standard error is the spread of estimates", importanceStandardError)

	t.Run("the reparameterised gradient of log p̂ is unbiased for the gradient of the ELBO, K = 0", func(t *testing.T) {
		// Where the bound is a formula, the mean of sampled gradients must be its slope:
		// E[log p(D, z₀) − log q⁰(z₀)] for z₀ ~ N(μ, s²), which MeanField knows exactly.
		x, theta := points(1, 20)
		data := model.Summarise(x)
		vb := model.NewMeanField(data)
		mean, logScale := linalg.Column(0.4), linalg.Column(-0.6)
		delta, logSigma := linalg.Column(theta.Delta...), linalg.Column(math.Log(theta.Sigma[0]))

		var exact tape
		leaves := []variable{exact.Leaf(delta), exact.Leaf(logSigma), exact.Leaf(mean), exact.Leaf(logScale)}
		wants := ad.Backward(vb.ELBO(leaves, nil), leaves...)

		const batches = 4000
		var samples [4][]float64
		rng := hvae.Stream(17, "unbiased")
		var tp tape
		for range batches {
			tp.Reset()
			l := []variable{tp.Leaf(delta), tp.Leaf(logSigma), tp.Leaf(mean), tp.Leaf(logScale)}
			g := model.NewTarget(data, l[0], l[1])
			epsilon, gamma0 := hvae.Noise(&tp, rng, 1, 10), hvae.Noise(&tp, rng, 1, 10)
			z0 := ad.Add(ad.Mul(ad.Exp(l[3]), epsilon), l[2])
			logPrior := ad.Sub(hvae.LogNormal(epsilon), l[3])
			f := &hvae.Flow[float64]{Target: g} // K = 0: the plain bound
			for i, g := range ad.Backward(ad.Mean(hvae.HIS(f, drawn{z0, logPrior}, epsilon, gamma0).ELBO()), l...) {
				samples[i] = append(samples[i], g.Data[0])
			}
		}
		for i, name := range []string{"Δ", "log σ", "μ", "log s"} {
			want := wants[i].Data[0]
			if mean, se := hvaetest.MeanSE(samples[i]); !(math.Abs(mean-want)/se <= hvaetest.ZBound) || se > 0.03*math.Abs(want) {
				t.Errorf("%s: mean gradient %.4f ± %.4f, want %.4f", name, mean, se, want)
			}
		}
	})

	t.Run("the reparameterised gradient of log p̂ is unbiased for the gradient of the ELBO, K ≥ 1", gradientThroughTheFlow)
}

// importanceEstimateVariesLess checks
//
//	p̂(x) = 1/L Σᵢ p(x, zᵢ)/q(zᵢ|x),   Var p̂ = Var(p/q)/L,
//
// "|L_ELBO − L| decreases as the variance of p̂ decreases", for L importance samples.
func importanceEstimateVariesLess(t *testing.T) {
	const draws = 1 << 16
	bimodal := targets()[0]
	raw, _ := hvaetest.Draws(hvaetest.Scheme{Tempering: "fixed", K: 2}, bimodal.bind, 2, draws, 7)
	var single float64
	for _, L := range []int{1, 4, 16, 64} {
		var squares []float64 // (p̂/p − 1)²
		for lo := 0; lo < draws; lo += L {
			e := hvae.ImportanceEstimate(raw[lo : lo+L]).Log
			squares = append(squares, math.Pow(math.Expm1(e-bimodal.logEvidence), 2))
		}
		variance, se := hvaetest.MeanSE(squares)
		if L == 1 {
			single = variance
		}
		if z := (variance - single/float64(L)) / se; !(math.Abs(z) <= hvaetest.ZBound) || !(se <= 0.15*variance) {
			t.Errorf("L = %d: the relative variance of p̂ is %.4f ± %.4f, want %.4f/L", L, variance, se, single)
		}
	}
}

// importanceEstimate checks log p̂(x) = log 1/L Σᵢ p(x, zᵢ)/q(zᵢ|x) with the samples' weights
// given. Weights 1 and 3 have the mean 2 and the standard error √2/√2 = 1, relatively 1/2.
func importanceEstimate(t *testing.T) {
	for _, shift := range []float64{0, 1000, -1000} {
		e := hvae.ImportanceEstimate([]float64{shift, shift + math.Log(3)})
		if !(math.Abs(e.Log-shift-math.Log(2)) <= 1e-12) || !(math.Abs(e.StandardError-0.5) <= 1e-12) {
			t.Errorf("shifted by %v: %+v, want log 2 and 1/2", shift, e)
		}
	}
	if e := hvae.ImportanceEstimate([]float64{-7}); e.Log != -7 || !math.IsInf(e.StandardError, 1) {
		t.Errorf("one draw: %+v, want −7 ± Inf", e)
	}
	if e := hvae.ImportanceEstimate([]float64{5, 5, 5}); e.Log != 5 || e.StandardError != 0 {
		t.Errorf("equal draws: %+v, want 5 ± 0", e)
	}
}

// importanceStandardError checks that the standard error sd(p̂)/(√L·mean p̂) is the spread of
// log p̂ over repetitions, where log p(x, z)/q(z|x) ~ N(−s²/2, s²), so that E[p̂] = 1.
func importanceStandardError(t *testing.T) {
	const s, draws, repeats = 0.5, 400, 2000
	rng := hvae.Stream(1, "importance")
	logs := make([]float64, draws)
	var estimates []float64
	claimed := 0.0
	for range repeats {
		for i := range logs {
			logs[i] = s*rng.NormFloat64() - s*s/2
		}
		e := hvae.ImportanceEstimate(logs)
		estimates = append(estimates, e.Log)
		claimed += e.StandardError / repeats
	}
	_, se := hvaetest.MeanSE(estimates)
	// A standard deviation from n values has the relative standard error 1/√2n.
	if ratio := claimed / (se * math.Sqrt(repeats)); !(math.Abs(ratio-1) <= hvaetest.ZBound/math.Sqrt(2*repeats)) {
		t.Errorf("the mean standard error is %.3f times the spread of the estimates", ratio)
	}
}

// gradientThroughTheFlow checks
//
//	E[∇ log p̂(x)] = ∇ E[log p̂(x)]
//
// in θ, ε and β₀ for K ≥ 1: "an unbiased estimator of ∇L_ELBO is given by ∇ log p̂ if the
// reparameterization trick is used". In the Gaussian model (z_K, ρ_K) is affine in the noise,
// so that the right side is a formula, differentiated by differences.
func gradientThroughTheFlow(t *testing.T) {
	x, theta := points(1, 8)
	data := model.Summarise(x)
	for _, K := range []int{1, 2, 5} {
		h := model.NewHVAE(data, K, true)
		setTheta(theta)(h.Params())
		h.Params()[2].Value.Fill(0.8)
		h.Params()[3].Value.Fill(math.Log(0.6))
		var samples [4][]float64
		rng := hvae.Stream(34, "through the flow", K)
		var tp tape
		for range 3000 {
			tp.Reset()
			var leaves []variable
			for _, p := range h.Params() {
				leaves = append(leaves, tp.Leaf(p.Value))
			}
			elbo := ad.Mean(h.ELBO(leaves, hvae.Noise(&tp, rng, h.NoiseRows(), 10)))
			for i, g := range ad.Backward(elbo, leaves...) {
				samples[i] = append(samples[i], g.Data[0])
			}
		}
		for i, p := range h.Params() {
			want := hvaetest.Slope(func(h float64) float64 {
				v := [4]float64{theta.Delta[0], math.Log(theta.Sigma[0]), 0.8, math.Log(0.6)}
				v[i] += h
				moved := model.Theta{Delta: v[:1], Sigma: []float64{math.Exp(v[1])}}
				return affineELBO(data, moved, 0, K, 0.5/(1+math.Exp(-v[2])), 1+math.Exp(v[3]))
			}, 1e-2)
			if mean, se := hvaetest.MeanSE(samples[i]); !(math.Abs(mean-want)/se <= hvaetest.ZBound) || !(se <= 0.03) { // most slopes are 0.3 to 2
				t.Errorf("K = %d, %s: the mean gradient is %.4f ± %.4f, the slope of the ELBO %.4f", K, p.Name, mean, se, want)
			}
		}
	}
}

// points returns a small dataset [d×N] of the Gaussian model, and θ to look at it with.
func points(d, n int) (x matrix, t model.Theta) {
	rng := hvae.Stream(11, "points", d, n)
	x = linalg.New[float64](d, n)
	t = model.Theta{Delta: make([]float64, d), Sigma: make([]float64, d)}
	for j := range d {
		z := rng.NormFloat64()
		t.Delta[j], t.Sigma[j] = 0.3*float64(j)-0.2, 1.4+0.3*float64(j)
		for i := range n {
			x.Row(j)[i] = z + t.Delta[j] + t.Sigma[j]*rng.NormFloat64()
		}
	}
	return x, t
}

// gaussian binds the Gaussian model's target for a dataset to θ.
func gaussian(t *tape, data model.Data, theta model.Theta) *model.Target {
	logSigma := linalg.New[float64](len(theta.Sigma), 1)
	linalg.Log(logSigma, linalg.Column(theta.Sigma...))
	return model.NewTarget(data, t.Leaf(linalg.Column(theta.Delta...)), t.Leaf(logSigma))
}

// A target has a known evidence. bind puts its parameters, if it has any, on a tape.
type target struct {
	name        string
	bind        func(t *tape) hvae.Target[float64]
	logEvidence float64
	posterior   func(rng *rand.Rand, z matrix) // fills the columns with exact draws
}

// targets returns the targets of sections 2 and 3, in two dimensions: one with two modes,
// and a dataset of the Gaussian model with few points, so that prior and posterior overlap.
func targets() []target {
	x, theta := points(2, 3)
	data := model.Summarise(x)
	mean, variance := data.Posterior(theta)
	return []target{
		{
			"bimodal", func(*tape) hvae.Target[float64] { return hvaetest.Bimodal{Dims: 2} }, hvaetest.BimodalLogEvidence,
			hvaetest.Bimodal{Dims: 2}.FillPosterior,
		},
		{
			"gaussian", func(t *tape) hvae.Target[float64] { return gaussian(t, data, theta) }, data.LogEvidence(theta),
			func(rng *rand.Rand, z matrix) {
				hvae.FillNormal(rng, z)
				linalg.Mul(z, linalg.Column(hvaetest.Apply(variance, math.Sqrt)...), z)
				linalg.Add(z, linalg.Column(mean...), z)
			},
		},
	}
}

func section22(t *testing.T) {
	t.Run("eq. 3, eq:generalizedJarzynski: unbiased with any reverse kernels; eq. 4, eq:optimalestimator: r^opt gives the least variance", func(t *testing.T) {
		// A chain z_k = a·z_{k−1} + s·ξ_k whose marginals N(0, v_k) are known. Any reverse
		// kernels give an unbiased estimate; the optimal ones, the chain's own backwards,
		// give p(x, z_K)/q_K(z_K), the least variance and the tightest bound.
		const draws, evidence = 100000, 1.7
		logJoint := func(z float64) float64 { return math.Log(evidence) + logNormal(z, 0.4, 0.5) }
		var best, bestSquares []float64                // of the optimal kernels: log p̂, and (p̂ − p(x))²
		for _, wrong := range []float64{1, 0.9, 0.7} { // factor of the reverse kernels' means and variances
			rng := hvae.Stream(50, "chain")
			chain, z0, qK := autoregressions(rng, wrong, logJoint)
			estimates := make([]float64, draws)
			for i := range estimates {
				zK, logEstimate := chain.Forward(z0.draw(rng))
				estimates[i] = math.Exp(logEstimate[0])
				if optimal := logJoint(zK) - qK.log(zK); wrong == 1 && !(math.Abs(logEstimate[0]-optimal) <= 1e-12) {
					t.Fatalf("with the optimal kernels log p̂ = %v, want log p(x, z_K) − log q_K(z_K) = %v", logEstimate, optimal)
				}
			}
			if mean, se := hvaetest.MeanSE(estimates); !(math.Abs(mean-evidence) <= hvaetest.ZBound*se) || se > 0.02 {
				t.Errorf("reverse kernels off by %v: E[p̂] = %.4f ± %.4f, want %v", wrong, mean, se, evidence)
			}
			logs := hvaetest.Apply(estimates, math.Log)
			squares := hvaetest.Apply(estimates, func(p float64) float64 { return (p - evidence) * (p - evidence) })
			if wrong == 1 {
				best, bestSquares = logs, squares
				continue
			}
			// The chains are the same, so differences are precise.
			if more, se := hvaetest.MeanSE(hvaetest.Differences(squares, bestSquares)); !(more > hvaetest.ZBound*se) {
				t.Errorf("reverse kernels off by %v: the variance is %.4f ± %.4f above that of the optimal ones", wrong, more, se)
			}
			if less, se := hvaetest.MeanSE(hvaetest.Differences(best, logs)); !(less > hvaetest.ZBound*se) {
				t.Errorf("reverse kernels off by %v: the bound is %.4f ± %.4f below that of the optimal ones", wrong, less, se)
			}
		}
		if mean, se := hvaetest.MeanSE(best); !(mean < math.Log(evidence)-hvaetest.ZBound*se) {
			t.Errorf("the bound is %.4f ± %.4f, log p(x) is %.4f", mean, se, math.Log(evidence))
		}
	})

	t.Run("eq. 3 from the posterior backwards: the mean of 1∕p̂ is 1∕p(x), and log p̂ an upper bound", func(t *testing.T) {
		const draws, evidence = 50000, 1.7
		posterior := normal{0.4, 2}
		logJoint := func(z float64) float64 { return math.Log(evidence) + posterior.log(z) }
		for _, wrong := range []float64{1, 0.9} {
			rng := hvae.Stream(51, "chain")
			chain, _, _ := autoregressions(rng, wrong, logJoint)
			logs := make([]float64, draws)
			for i := range logs {
				_, logEstimate := chain.Reverse(posterior.draw(rng))
				logs[i] = logEstimate[0]
			}
			inverse := hvaetest.Apply(logs, func(l float64) float64 { return evidence * math.Exp(-l) })
			if mean, se := hvaetest.MeanSE(inverse); !(math.Abs(mean-1) <= hvaetest.ZBound*se) || se > 0.01 {
				t.Errorf("reverse kernels off by %v: p(x)·E[1/p̂] = %.4f ± %.4f", wrong, mean, se)
			}
			if z := hvaetest.Z(logs, math.Log(evidence)); z < hvaetest.ZBound {
				t.Errorf("reverse kernels off by %v: the mean of log p̂ is %.1f standard errors above log p(x)", wrong, z)
			}
		}
	})

	t.Run("annealed importance sampling: its reverse kernels are suboptimal", reversalsAreSuboptimal)

	t.Run("annealed importance sampling: the kernels leave p^k invariant and are their own reversals", func(t *testing.T) {
		// Exact draws of p^k ∝ q⁰^(1−β) p^β, p normalised: by rejection from the mixture
		// (1−β)q⁰ + βp, which is larger. What a kernel does to them must not change any
		// expectation; for its own reversal, exchanging before and after must not, either.
		const K, draws = 4, 20000
		target := targets()[0]
		a, streams := annealing(target, K, draws, 52)
		prior, posterior := linalg.New[float64](2, 1), linalg.New[float64](2, 1)
		for k := 1; k < K; k++ {
			beta, rng := float64(k)/K, hvae.Stream(53, "bridge", k)
			z := linalg.New[float64](2, draws)
			for j := 0; j < draws; {
				hvae.FillNormal(rng, prior)
				hvaetest.Bimodal{Dims: 2}.FillPosterior(rng, posterior)
				linalg.Scale(prior, hvaetest.PriorSD, prior)
				linalg.AddConst(prior, prior, hvaetest.PriorMean)
				proposal := prior
				if rng.Float64() < beta {
					proposal = posterior
				}
				a.Tape.Reset()
				q := logNormal(proposal.Data[0], hvaetest.PriorMean, hvaetest.PriorSD*hvaetest.PriorSD) +
					logNormal(proposal.Data[1], hvaetest.PriorMean, hvaetest.PriorSD*hvaetest.PriorSD)
				p := target.bind(a.Tape).LogJoint(a.Tape.Const(proposal)).Scalar() - target.logEvidence
				if rng.Float64() < math.Exp((1-beta)*q+beta*p)/((1-beta)*math.Exp(q)+beta*math.Exp(p)) {
					z.Row(0)[j], z.Row(1)[j] = proposal.Data[0], proposal.Data[1]
					j++
				}
			}
			chain := a.Chain(streams)
			end := chain.Kernels[k-1].Forward(a.At(z.Clone()), make([]float64, draws))
			after := end.Z
			moved := hvaetest.Distance(after.Data, z.Data) / math.Sqrt(draws)
			if rate := end.Acceptance(); rate < 0.4 || rate > 0.9 || moved < 0.5 {
				t.Errorf("k = %d: the kernel accepts %.2f and moves by %.2f: nothing was tested", k, rate, moved)
			}
			functions := []func(x, y float64) float64{
				func(x, y float64) float64 { return x },
				func(x, y float64) float64 { return x * x },
				func(x, y float64) float64 { return x * y },
				func(x, y float64) float64 { return math.Exp(-2 * ((x-1)*(x-1) + (y-1)*(y-1))) },
				func(x, y float64) float64 { return math.Cos(3 * x) },
			}
			for i, f := range functions {
				g := functions[(i+1)%len(functions)]
				invariant, reversible := make([]float64, draws), make([]float64, draws)
				for j := range draws {
					x, y, x2, y2 := z.At(0, j), z.At(1, j), after.At(0, j), after.At(1, j)
					invariant[j] = f(x2, y2) - f(x, y)
					reversible[j] = f(x, y)*g(x2, y2) - f(x2, y2)*g(x, y)
				}
				if z := hvaetest.Z(invariant, 0); !(math.Abs(z) <= hvaetest.ZBound) {
					t.Errorf("k = %d: the mean of function %d changes, z = %.1f", k, i, z)
				}
				if z := hvaetest.Z(reversible, 0); !(math.Abs(z) <= hvaetest.ZBound) {
					t.Errorf("k = %d: functions %d and %d tell before from after, z = %.1f", k, i, (i+1)%len(functions), z)
				}
			}
		}
	})

	t.Run("annealed importance sampling: unbiased, forwards for p(x) and backwards for 1∕p(x)", func(t *testing.T) {
		const draws = 3000
		for _, target := range targets() {
			for _, K := range []int{16, 64} {
				a, streams := annealing(target, K, draws, 54)
				_, forward := a.Forward(streams)
				z := linalg.New[float64](2, draws)
				target.posterior(hvae.Stream(55, "posterior"), z)
				_, backward := a.Reverse(z, streams)
				for direction, logRatio := range map[string][]float64{
					"E[p̂]/p":   hvaetest.Apply(forward, func(l float64) float64 { return l - target.logEvidence }),
					"p·E[1/p̂]": hvaetest.Apply(backward, func(l float64) float64 { return target.logEvidence - l }),
				} {
					mean, se := hvaetest.MeanSE(hvaetest.Apply(logRatio, math.Exp))
					if !(math.Abs(mean-1) <= hvaetest.ZBound*se) || se > 0.05 {
						t.Errorf("%s, K = %d: %s = %.4f ± %.4f", target.name, K, direction, mean, se)
					}
				}
			}
		}
	})

	t.Run("annealed importance sampling: both bounds enclose log p(x) and close as K grows", func(t *testing.T) {
		const draws = 1000
		for _, target := range targets() {
			last, lastSE := math.Inf(1), 0.0
			for _, K := range []int{1, 4, 16, 64} {
				a, streams := annealing(target, K, draws, 56)
				_, forward := a.Forward(streams)
				z := linalg.New[float64](2, draws)
				target.posterior(hvae.Stream(57, "posterior"), z)
				lower, lowerSE := hvaetest.MeanSE(forward)
				_, backward := a.Reverse(z, streams)
				upper, upperSE := hvaetest.MeanSE(backward)
				if !(lower < target.logEvidence-hvaetest.ZBound*lowerSE) || !(upper > target.logEvidence+hvaetest.ZBound*upperSE) {
					t.Errorf("%s, K = %d: %.4f ± %.4f and %.4f ± %.4f do not enclose log p(x) = %.4f",
						target.name, K, lower, lowerSE, upper, upperSE, target.logEvidence)
				}
				gap, se := upper-lower, math.Hypot(lowerSE, upperSE)
				if !(gap < last-hvaetest.ZBound*math.Hypot(se, lastSE)) {
					t.Errorf("%s, K = %d: the gap is %.4f ± %.4f, with fewer steps %.4f ± %.4f", target.name, K, gap, se, last, lastSE)
				}
				last, lastSE = gap, se
			}
			if !(last < 0.35) {
				t.Errorf("%s: a gap of %.4f is left", target.name, last)
			}
		}
	})

	t.Run("with Metropolis steps the gradient of log p̂ is not unbiased, although p̂ is", func(t *testing.T) {
		// AIS of two steps in one dimension, K = 2 with one leapfrog step, written out: from
		// z₀ ~ N(0, 1) to p_θ(x, z) = N(z | θ, ½²). The exact ELBO is an integral over z₀
		// and ρ, its slope that of differences. The gradient on the tape takes the proposals
		// that were accepted as given, and so loses how their probability depends on θ.
		const theta, epsilon, draws = 1.2, 1.5, 100000
		estimates := func(t *tape, theta, z0, rho variable) (accepted, rejected variable, rate []float64) {
			joint := func(z variable) variable {
				return ad.AddConst(hvae.LogNormal(ad.Scale(ad.Sub(z, theta), 2)), math.Log(2))
			}
			bridge := between{joint}
			s := hvae.Leapfrog(bridge, t.Scalar(epsilon), hvae.Phase[float64]{Z: z0, Rho: rho})
			ratio := ad.Sub(bridge.LogJoint(z0), hvae.LogNormal(z0)) // p¹(z₀)/q⁰(z₀)
			estimate := func(z1 variable) variable { return ad.Add(ad.Sub(ratio, bridge.LogJoint(z1)), joint(z1)) }
			gain := ad.Sub(ad.Add(bridge.LogJoint(s.Z), hvae.LogNormal(s.Rho)), ad.Add(bridge.LogJoint(z0), hvae.LogNormal(rho)))
			rate = hvaetest.Apply(gain.Value.Data, func(g float64) float64 { return math.Exp(min(0, g)) })
			return estimate(s.Z), estimate(z0), rate
		}
		for _, metropolis := range []bool{true, false} {
			elbo := func(theta float64) float64 {
				const n, edge = 300, 7.0
				grid := linalg.New[float64](1, n)
				for i := range grid.Data {
					grid.Data[i] = edge * (2*float64(i)/(n-1) - 1)
				}
				var tp tape
				sum, weights := 0.0, 0.0
				for _, rho := range grid.Data {
					tp.Reset()
					accepted, rejected, rate := estimates(&tp, tp.Scalar(theta), tp.Const(grid), tp.Fill(1, n, rho))
					for i, a := range rate {
						if !metropolis {
							a = 1
						}
						weight := math.Exp(-(grid.Data[i]*grid.Data[i] + rho*rho) / 2)
						sum += weight * (a*accepted.Value.Data[i] + (1-a)*rejected.Value.Data[i])
						weights += weight
					}
				}
				return sum / weights
			}
			want := hvaetest.Slope(func(h float64) float64 { return elbo(theta + h) }, 1e-2)

			var tp tape
			rng := hvae.Stream(58, "metropolis")
			each := tp.Leaf(linalg.New[float64](1, draws))
			each.Value.Fill(theta)
			z0, rho := hvae.Noise(&tp, rng, 1, draws), hvae.Noise(&tp, rng, 1, draws)
			accepted, rejected, rate := estimates(&tp, each, z0, rho)
			yes, no := tp.Fill(1, draws, 1), tp.Fill(1, draws, 0)
			for i, a := range rate {
				if metropolis && rng.Float64() >= a {
					yes.Value.Data[i], no.Value.Data[i] = 0, 1
				}
			}
			logEstimates := ad.Add(ad.Mul(yes, accepted), ad.Mul(no, rejected))
			gradients := ad.Grad(logEstimates, each).Value.Data
			z := hvaetest.Z(gradients, want)
			if metropolis {
				if p, se := hvaetest.MeanSE(hvaetest.Apply(logEstimates.Value.Data, math.Exp)); !(math.Abs(p-1) <= hvaetest.ZBound*se) || se > 0.01 {
					t.Errorf("E[p̂] = %.4f ± %.4f, want 1", p, se)
				}
				if mean, _ := hvaetest.MeanSE(gradients); !(math.Abs(z) > 4*hvaetest.ZBound) {
					t.Errorf("the mean gradient is %.4f, the ELBO's slope %.4f, z = %.1f: no bias is to be seen", mean, want, z)
				}
			} else if !(math.Abs(z) <= hvaetest.ZBound) {
				t.Errorf("without rejections the gradient is biased, z = %.1f", z)
			}
		}
	})
}

// reversalsAreSuboptimal checks that AIS's choice of reverse kernels,
//
//	r^{k−1}(z_{k−1}|z_k) = p^k(z_{k−1}) q^k(z_k|z_{k−1}) / p^k(z_k),
//
// "is suboptimal but leads to a simple expression for estimator (3)": for the same chains, p̂
// has a larger variance and log p̂ a smaller mean than p(x, z_K)/q^K(z_K), equation 4. All
// bridges p^k and all marginals q^k are normal here, so that both estimates are formulas.
func reversalsAreSuboptimal(t *testing.T) {
	const K, a, draws, evidence = 4, 0.5, 50000, 1.7
	q0, posterior := normal{0, 1.2}, normal{0.9, 0.5}
	logJoint := func(z float64) float64 { return math.Log(evidence) + posterior.log(z) }
	rng := hvae.Stream(63, "reversals")
	chain := hvae.Chain[float64]{
		LogPrior: func(z float64) []float64 { return []float64{q0.log(z)} },
		LogJoint: func(z float64) []float64 { return []float64{logJoint(z)} },
	}
	marginal := q0
	for k := 1; k <= K; k++ {
		beta := float64(k) / K
		precision := (1-beta)/q0.variance + beta/posterior.variance
		bridge := normal{((1-beta)*q0.mean/q0.variance + beta*posterior.mean/posterior.variance) / precision, 1 / precision}
		chain.Kernels = append(chain.Kernels, reversible{rng, bridge, a})
		marginal = normal{bridge.mean + a*(marginal.mean-bridge.mean), a*a*marginal.variance + (1-a*a)*bridge.variance}
	}
	var reversals, optimal []float64 // p̂/p(x)
	for range draws {
		zK, logEstimate := chain.Forward(q0.draw(rng))
		reversals = append(reversals, math.Exp(logEstimate[0])/evidence)
		optimal = append(optimal, math.Exp(posterior.log(zK)-marginal.log(zK)))
	}
	for name, p := range map[string][]float64{"the reversals": reversals, "the optimal kernels": optimal} {
		if z := hvaetest.Z(p, 1); !(math.Abs(z) <= hvaetest.ZBound) {
			t.Errorf("with %s p̂ is biased, z = %.1f", name, z)
		}
	}
	square := func(p float64) float64 { return (p - 1) * (p - 1) }
	more, se := hvaetest.MeanSE(hvaetest.Differences(hvaetest.Apply(reversals, square), hvaetest.Apply(optimal, square)))
	if !(more > 2*hvaetest.ZBound*se) {
		t.Errorf("the variance of p̂/p is %.4f ± %.4f above the optimal kernels'", more, se)
	}
	less, se := hvaetest.MeanSE(hvaetest.Differences(hvaetest.Apply(optimal, math.Log), hvaetest.Apply(reversals, math.Log)))
	if !(less > 2*hvaetest.ZBound*se) {
		t.Errorf("the bound is %.4f ± %.4f below the optimal kernels'", less, se)
	}
}

// reversible is the kernel z′ = m + a(z − m) + √(v(1 − a²))·ξ, which leaves the bridge N(m, v)
// invariant and is its own reversal.
type reversible struct {
	rng    *rand.Rand
	bridge normal
	a      float64
}

func (k reversible) Forward(z float64, logRatio []float64) float64 {
	next := normal{k.bridge.mean + k.a*(z-k.bridge.mean), k.bridge.variance * (1 - k.a*k.a)}.draw(k.rng)
	logRatio[0] += k.bridge.log(z) - k.bridge.log(next)
	return next
}

func (k reversible) Reverse(z float64, logRatio []float64) float64 { panic("not needed") }

// normal is a normal distribution in one dimension.
type normal struct{ mean, variance float64 }

func (n normal) draw(rng *rand.Rand) float64 { return n.mean + math.Sqrt(n.variance)*rng.NormFloat64() }
func (n normal) log(x float64) float64       { return logNormal(x, n.mean, n.variance) }

func logNormal(x, mean, variance float64) float64 {
	return -(x-mean)*(x-mean)/(2*variance) - math.Log(2*math.Pi*variance)/2
}

// autoregression is the kernel z_k = a·z_{k−1} + s·ξ with a normal reverse kernel.
type autoregression struct {
	rng                     *rand.Rand
	a, s, back, backwardVar float64
}

func (k autoregression) forward(z float64) normal { return normal{k.a * z, k.s * k.s} }
func (k autoregression) reverse(z float64) normal { return normal{k.back * z, k.backwardVar} }

func (k autoregression) Forward(z float64, logRatio []float64) float64 {
	next := k.forward(z).draw(k.rng)
	logRatio[0] += k.reverse(next).log(z) - k.forward(z).log(next)
	return next
}

func (k autoregression) Reverse(z float64, logRatio []float64) float64 {
	last := k.reverse(z).draw(k.rng)
	logRatio[0] += k.reverse(z).log(last) - k.forward(last).log(z)
	return last
}

// autoregressions returns a chain of three, whose marginals are known, with the first and
// the last of them. Its reverse kernels are the optimal ones but for a factor of their
// means and variances.
func autoregressions(rng *rand.Rand, wrong float64, logJoint func(float64) float64) (c hvae.Chain[float64], q0, qK normal) {
	const K, a, s = 3, 0.8, 0.8
	q0 = normal{0, 1.2}
	v := q0.variance
	for range K {
		next := a*a*v + s*s
		back := a * v / next
		c.Kernels = append(c.Kernels, autoregression{rng, a, s, wrong * back, wrong * (v - back*back*next)})
		v = next
	}
	c.LogPrior = func(z float64) []float64 { return []float64{q0.log(z)} }
	c.LogJoint = func(z float64) []float64 { return []float64{logJoint(z)} }
	return c, q0, normal{0, v}
}

// annealing returns K steps of AIS from the variational prior of hvaetest.HIS, and streams for
// a number of chains. It is tuned with other streams.
func annealing(target target, K, chains int, seed uint64) (a *hvae.AIS[float64], streams []*rand.Rand) {
	a = &hvae.AIS[float64]{
		Tape: new(tape), Target: target.bind,
		Mean: linalg.Column(hvaetest.PriorMean, hvaetest.PriorMean), SD: linalg.Column(hvaetest.PriorSD, hvaetest.PriorSD),
		Steps: K, Leapfrogs: 3,
	}
	of := func(purpose string, n int) (streams []*rand.Rand) {
		for j := range n {
			streams = append(streams, hvae.Stream(seed, purpose, K, j))
		}
		return streams
	}
	a.StepSizes = a.Tune(of("tuning", 100), 10)
	return a, of("chain", chains)
}

// between is halfway between N(0, 1) and a joint density: √(q⁰p).
type between struct{ logJoint func(z variable) variable }

func (b between) LogJoint(z variable) variable {
	return ad.Scale(ad.Add(hvae.LogNormal(z), b.logJoint(z)), 0.5)
}

func section23(t *testing.T) {
	t.Run("eq. 5, eq:estimatorHMC, left: q^K is a density", func(t *testing.T) {
		// q^K(s) = q⁰(H⁻¹(s))/|det ∇H| over the plane of (z, ρ) for ℓ = 1.
		for _, s := range hvaetest.Schemes() {
			const edge = 10.0
			n := 200
			if s.K > 2 { // which bends the plane more
				n = 400
			}
			h := 2 * edge / float64(n)
			z := linalg.New[float64](1, n+1)
			for i := range z.Data {
				z.Data[i] = -edge + h*float64(i)
			}
			var tp tape
			total := 0.0
			for _, rho := range z.Data {
				tp.Reset()
				f := s.Flow(&tp, hvaetest.Bimodal{Dims: 1}, 1)
				start := f.Inverse(hvae.Phase[float64]{Z: tp.Const(z), Rho: tp.Fill(1, n+1, rho)})
				hot, _ := heat(f.Tempering, s.K)
				logQ := ad.Add(hvae.LogNormal(start.Z), hvae.LogNormal(ad.Scale(start.Rho, 1/hot)))
				logVolume := math.Log(hot) + f.LogDet(&tp, 1).Scalar()
				for _, l := range logQ.Value.Data {
					total += math.Exp(l-logVolume) * h * h
				}
			}
			if !(math.Abs(total-1) <= 1e-5) { // the grid's own error is 2e-6 at worst
				t.Errorf("%v: q^K integrates to %.8f", s, total)
			}
		}
	})

	t.Run("eq. 5, eq:estimatorHMC, right, and eq. 6, eqn:reparameterization: p̂ = p̄∕q^K", func(t *testing.T) {
		// p̂ = p̄(x, z_K, ρ_K)/q^K(z_K, ρ_K), put together from scalar formulas.
		normal := func(x, sd float64) float64 {
			return math.Exp(-x*x/(2*sd*sd)) / (sd * math.Sqrt(2*math.Pi))
		}
		for _, s := range hvaetest.Schemes() {
			var tp tape
			const dims, n = 5, 20
			f := s.Flow(&tp, hvaetest.Bimodal{Dims: dims}, dims)
			sample := hvaetest.HIS(&tp, f, dims, n, hvae.Stream(10, "density"))
			hot, alpha := heat(f.Tempering, s.K)
			logJoint := hvaetest.Bimodal{Dims: dims}.LogJoint(sample.End.Z).Value.Data
			for i := range n {
				q, p := 1.0, math.Exp(logJoint[i])
				for j := range dims {
					q *= normal(sample.Start.Z.Value.At(j, i)-0.2, 1.1) * normal(sample.Start.Rho.Value.At(j, i), hot)
					p *= normal(sample.End.Rho.Value.At(j, i), 1)
				}
				for _, a := range alpha {
					q /= math.Pow(a, dims)
				}
				if got := math.Exp(sample.LogEstimate().Value.Data[i]); !(hvaetest.Relative(got, p/q) <= 1e-10) {
					t.Errorf("%v: p̂ = %v, p̄/q^K = %v", s, got, p/q)
				}
			}
		}
	})

	t.Run("eq. 5 is eq. 3 in (z, ρ) with the maps Φ^k and their inverses as kernels", func(t *testing.T) {
		// The optimal reverse kernels of a map are its inverse. Forwards eq. 3 is what
		// Algorithm 1 returns; back from where that ended, it is the same again.
		const dims, n = 2, 50
		for _, s := range hvaetest.Schemes() {
			var tp tape
			f := s.Flow(&tp, hvaetest.Bimodal{Dims: dims}, dims)
			sample := hvaetest.HIS(&tp, f, dims, n, hvae.Stream(59, "deterministic"))
			hot, alpha := heat(f.Tempering, s.K)
			chain := hvae.Chain[hvae.Phase[float64]]{
				LogPrior: func(s hvae.Phase[float64]) []float64 {
					z := hvae.LogNormal(ad.Scale(ad.AddConst(s.Z, -hvaetest.PriorMean), 1/hvaetest.PriorSD))
					rho := hvae.LogNormal(ad.Scale(s.Rho, 1/hot))
					return ad.AddConst(ad.Add(z, rho), -dims*math.Log(hvaetest.PriorSD*hot)).Value.Data
				},
				LogJoint: func(s hvae.Phase[float64]) []float64 {
					return ad.Add(f.Target.LogJoint(s.Z), hvae.LogNormal(s.Rho)).Value.Data
				},
			}
			for k := range s.K {
				epsilon := f.StepSize.Value.Row(min(k, f.StepSize.Rows()-1))
				phi := transition{f.Target, tp.Const(linalg.Of(1, dims, epsilon)), 1}
				if alpha != nil {
					phi.alpha = alpha[k]
				}
				chain.Kernels = append(chain.Kernels, phi)
			}
			end, forward := chain.Forward(sample.Start)
			if d := hvaetest.Distance(forward, sample.LogEstimate().Value.Data) / hvaetest.Norm(forward); !(d <= 1e-12) {
				t.Errorf("%v: eq. 3 and Algorithm 1 differ by %.1e", s, d)
			}
			start, backward := chain.Reverse(end)
			if d := hvaetest.Distance(backward, forward) / hvaetest.Norm(forward); !(d <= 1e-11) {
				t.Errorf("%v: forwards and backwards eq. 3 differs by %.1e", s, d)
			}
			if d := hvaetest.Distance(start.Z.Value.Data, sample.Start.Z.Value.Data); !(d <= 1e-11) {
				t.Errorf("%v: the way back misses the start by %.1e", s, d)
			}
		}
	})

	t.Run("the maps Φ^k are diffeomorphisms", func(t *testing.T) {
		for _, s := range hvaetest.Schemes() {
			forward := hvaetest.OnTape(3, func(t *tape, p hvae.Phase[float64]) hvae.Phase[float64] {
				return s.Flow(t, hvaetest.Bimodal{Dims: 3}, 3).Forward(p)
			})
			inverse := hvaetest.OnTape(3, func(t *tape, p hvae.Phase[float64]) hvae.Phase[float64] {
				return s.Flow(t, hvaetest.Bimodal{Dims: 3}, 3).Inverse(p)
			})
			if d := hvaetest.Distance(inverse(forward(phasePoint)), phasePoint); !(d <= 1e-13) {
				t.Errorf("%v: H⁻¹(H(s)) misses s by %.1e", s, d)
			}
			if d := hvaetest.Distance(forward(inverse(phasePoint)), phasePoint); !(d <= 1e-13) {
				t.Errorf("%v: H(H⁻¹(s)) misses s by %.1e", s, d)
			}
		}
	})

	t.Run("a homogeneous flow gives the standard estimate", homogeneousFlow)
	t.Run("a homogeneous flow has a high variance", homogeneousVariance)

	t.Run("leapfrog discretises Hamiltonian dynamics: energy is conserved to second order", func(t *testing.T) {
		// Over a fixed time the error of H = U + ½ρᵀρ shrinks with ε².
		target := hvaetest.Bimodal{Dims: 3}
		energy := func(s []float64) float64 {
			var tp tape
			return -target.LogJoint(tp.Const(linalg.Column(s[:3]...))).Scalar() + 0.5*math.Pow(hvaetest.Norm(s[3:]), 2)
		}
		drift := func(steps int) float64 {
			e := 0.8 / float64(steps)
			step, s := leapfrog(target, []float64{e, e, e}), phasePoint
			for range steps {
				s = step(s)
			}
			return energy(s) - energy(phasePoint)
		}
		last := drift(8)
		if math.Abs(last) < 1e-5 {
			t.Fatalf("energy error %.1e: nothing to measure", last)
		}
		for _, steps := range []int{16, 32, 64} {
			d := drift(steps)
			if order := math.Log2(last / d); !(math.Abs(order-2) <= 0.1) {
				t.Errorf("from %d to %d steps the energy error falls from %.2e to %.2e: order %.3f, want 2", steps/2, steps, last, d, order)
			}
			last = d
		}
	})

	t.Run("leapfrog discretises Hamiltonian dynamics: reversible under momentum flip", func(t *testing.T) {
		step := leapfrog(hvaetest.Bimodal{Dims: 3}, stepSizes)
		flip := func(s []float64) []float64 { return []float64{s[0], s[1], s[2], -s[3], -s[4], -s[5]} }
		back := flip(step(flip(step(phasePoint))))
		if d := hvaetest.Distance(back, phasePoint); !(d <= 1e-14) {
			t.Errorf("flip, step, flip after a step misses the start by %.1e", d)
		}
		if d := hvaetest.Distance(flip(step(phasePoint)), flip(phasePoint)); d < 0.1 {
			t.Error("the step hardly moves: nothing was tested")
		}
	})

	t.Run("leapfrog discretises Hamiltonian dynamics: symplectic", func(t *testing.T) {
		// JᵀΩJ = Ω for the form Σ dz_j ∧ dρ_j when all ε_j are equal. With a step size for
		// each dimension the conserved form is Σ ε_j⁻¹ dz_j ∧ dρ_j, as of a system with masses
		// (see the footnote's statement below).
		for _, epsilon := range [][]float64{{0.3, 0.3, 0.3}, stepSizes} {
			J := hvaetest.Jacobian(leapfrog(hvaetest.Bimodal{Dims: 3}, epsilon), phasePoint)
			omega := linalg.New[float64](6, 6)
			for j := range 3 {
				omega.Row(j)[3+j], omega.Row(3 + j)[j] = 1/epsilon[j], -1/epsilon[j]
			}
			oj, joj := linalg.New[float64](6, 6), linalg.New[float64](6, 6)
			linalg.MatMul(oj, omega, J)
			linalg.MatMulTA(joj, J, oj)
			if d := hvaetest.Distance(joj.Data, omega.Data); !(d <= 1e-8) {
				t.Errorf("ε = %v: JᵀΩJ differs from Ω by %.1e", epsilon, d)
			}
		}
	})

	t.Run("tempering explores isolated modes, and the variance falls", func(t *testing.T) {
		const draws = 20000
		type result struct{ mean, variance, varianceSE, changed float64 }
		run := func(K int, invSqrtBeta0 float64) (r result) {
			f := model.TwoModesFlow{K: K, StepSize: 0.1, InvSqrtBeta0: invSqrtBeta0, Tempering: "fixed"}
			l, changed, err := f.Draw(t.Context(), draws, hvae.Stream(41, "two modes", K))
			if err != nil {
				t.Fatal(err)
			}
			r.mean, _ = hvaetest.MeanSE(l)
			r.variance, r.varianceSE = hvaetest.MeanSE(hvaetest.Apply(l, func(v float64) float64 { return (v - r.mean) * (v - r.mean) }))
			r.changed = float64(changed) / draws
			return r
		}
		z := func(a, b, seA, seB float64) float64 { return (a - b) / math.Hypot(seA, seB) }
		var last, first result
		for i, K := range []int{4, 8, 16, 32, 64} {
			with, without := run(K, 3), run(K, 1)
			if i == 0 {
				first = without
			} else if d := z(last.variance, with.variance, last.varianceSE, with.varianceSE); !(d > hvaetest.ZBound) {
				t.Errorf("tempered, K = %d: the variance of log p̂ goes from %.2f to %.2f, z = %.1f: it must fall", K, last.variance, with.variance, d)
			}
			if d := z(first.variance, without.variance, first.varianceSE, without.varianceSE); !(math.Abs(d) < hvaetest.ZBound) || !(without.varianceSE < 0.05*without.variance) {
				t.Errorf("not tempered, K = %d: the variance of log p̂ goes from %.2f to %.2f, z = %.1f: it must stay", K, first.variance, without.variance, d)
			}
			se := func(p float64) float64 { return math.Sqrt(p * (1 - p) / draws) }
			if d := z(with.changed, without.changed, se(with.changed), se(without.changed)); !(d > hvaetest.ZBound) || !(without.changed < 0.04) {
				t.Errorf("K = %d: %.2f %% of the draws change modes with tempering, %.2f %% without", K, 100*with.changed, 100*without.changed)
			}
			if with.mean > 0 || without.mean > 0 {
				t.Errorf("K = %d: ELBO %.3f with tempering, %.3f without, log p(x) = 0", K, with.mean, without.mean)
			}
			last = with
		}
		if last.variance > first.variance/5 {
			t.Errorf("tempering ends at a variance of %.2f, the untempered flow has %.2f", last.variance, first.variance)
		}
	})

	t.Run("eqs. 7 to 9, eqn:lf1, eqn:lf2, eqn:lf3: the leapfrog step", func(t *testing.T) {
		target := hvaetest.Bimodal{Dims: 3}
		lf1, lf2, lf3 := leapfrogByHand(target, stepSizes)
		want := lf3(lf2(lf1(phasePoint)))
		got := leapfrog(target, stepSizes)(phasePoint)
		if d := hvaetest.Distance(got, want); !(d <= 1e-10) {
			t.Errorf("one step ends at %v, the equations at %v", got, want)
		}
	})

	t.Run("eqs. 7 to 9: each is a shear, and a step has unit Jacobian", func(t *testing.T) {
		target := hvaetest.Bimodal{Dims: 3}
		lf1, lf2, lf3 := leapfrogByHand(target, stepSizes)
		for i, lf := range []func([]float64) []float64{lf1, lf2, lf3} {
			// A shear changes z or ρ by a function of the other: its Jacobian is the
			// identity but for one off-diagonal block.
			J := hvaetest.Jacobian(lf, phasePoint)
			for r := range 6 {
				for c := range 6 {
					shear := r >= 3 && c < 3 // ρ by z
					if i == 1 {
						shear = r < 3 && c >= 3
					}
					want := 0.0
					if r == c {
						want = 1
					}
					if !shear && !(math.Abs(J.At(r, c)-want) <= 1e-6) {
						t.Errorf("equation lf%d: ∂%d/∂%d = %v, want %v", i+1, r, c, J.At(r, c), want)
					}
				}
			}
		}
		if det := hvaetest.Determinant(hvaetest.Jacobian(leapfrog(target, stepSizes), phasePoint)); !(math.Abs(det-1) <= 1e-9) {
			t.Errorf("the Jacobian of a step is %v", det)
		}
	})

	t.Run("α_k are in (0,1): 0 < β_0 < … < β_K = 1", func(t *testing.T) {
		for _, K := range []int{1, 2, 3, 10, 30} {
			for _, s := range []float64{1.001, 1.5, 5, 40} {
				var tp tape
				fixed := hvae.FixedTempering(tp.Scalar(s))
				if hot, _ := heat(fixed, K); !(hvaetest.Relative(hot, s) <= 1e-15) {
					t.Errorf("1/√β₀ = %v, want %v", hot, s)
				}
				for _, tempering := range []hvae.Tempering[float64]{fixed, hvaetest.Scheme{Tempering: "free", K: K}.Cooling(&tp)} {
					beta := betas(tempering, K)
					if len(beta) != K+1 || !(math.Abs(beta[K]-1) <= 1e-12) {
						t.Fatalf("K = %d: %d inverse temperatures, the last %v", K, len(beta)-1, beta[len(beta)-1])
					}
					for k := 1; k <= K; k++ {
						if !(0 < beta[k-1] && beta[k-1] < beta[k]) {
							t.Errorf("K = %d: β_%d = %v, β_%d = %v", K, k-1, beta[k-1], k, beta[k])
						}
					}
				}
			}
		}
	})

	t.Run("fixed and free tempering coincide where their α_k agree: β_0 = Πα_k²", func(t *testing.T) {
		for _, K := range []int{1, 2, 5} {
			var tp tape
			fixed := hvae.FixedTempering(tp.Scalar(2.5))
			free := hvae.FreeTempering(fixed.Schedule(K).Alpha)
			var results [2][]float64
			for i, tempering := range []hvae.Tempering[float64]{fixed, free} {
				f := hvaetest.Scheme{K: K}.Flow(&tp, hvaetest.Bimodal{Dims: 2}, 2)
				f.Tempering = tempering
				s := hvaetest.HIS(&tp, f, 2, 100, hvae.Stream(8, "coincide"))
				results[i] = append(append([]float64{}, s.LogEstimate().Value.Data...), s.ELBO().Value.Data...)
			}
			if d := hvaetest.Distance(results[0], results[1]) / hvaetest.Norm(results[0]); !(d <= 1e-12) {
				t.Errorf("K = %d: the estimates differ by %.1e", K, d)
			}
		}
	})

	t.Run("Φ^k is a leapfrog step, then cooling", func(t *testing.T) {
		// Step by step by the equations, with the schedule's own α_k.
		for _, s := range hvaetest.Schemes() {
			var tp tape
			f := s.Flow(&tp, hvaetest.Bimodal{Dims: 3}, 3)
			want := append([]float64{}, phasePoint...)
			for k := range s.K {
				lf1, lf2, lf3 := leapfrogByHand(hvaetest.Bimodal{Dims: 3}, f.StepSize.Value.Row(min(k, f.StepSize.Rows()-1)))
				want = lf3(lf2(lf1(want)))
				if _, alpha := heat(f.Tempering, s.K); alpha != nil {
					for j := 3; j < 6; j++ {
						want[j] *= alpha[k]
					}
				}
			}
			end := f.Forward(hvae.Phase[float64]{Z: tp.Const(linalg.Column(phasePoint[:3]...)), Rho: tp.Const(linalg.Column(phasePoint[3:]...))})
			if d := hvaetest.Distance(append(append([]float64{}, end.Z.Value.Data...), end.Rho.Value.Data...), want); !(d <= 1e-9) {
				t.Errorf("%v: the flow misses the equations by %.1e", s, d)
			}
		}
	})

	t.Run("the Jacobians are α_k^ℓ, their product is β_0^(ℓ∕2)", func(t *testing.T) {
		for _, dims := range []int{1, 2, 3} {
			s0 := append(append([]float64{}, phasePoint[:dims]...), phasePoint[3:3+dims]...)
			for _, s := range hvaetest.Schemes() {
				var tp tape
				f := s.Flow(&tp, hvaetest.Bimodal{Dims: dims}, dims)
				logDet := f.LogDet(&tp, dims).Scalar()
				invSqrtBeta0, alpha := heat(f.Tempering, s.K)

				product := 1.0
				for _, a := range alpha {
					product *= math.Pow(a, float64(dims))
				}
				if want := math.Pow(invSqrtBeta0, -float64(dims)); !(hvaetest.Relative(product, want) <= 1e-12) {
					t.Errorf("%v: Π α^ℓ = %v, β₀^(ℓ/2) = %v", s, product, want)
				}
				flow := hvaetest.OnTape(dims, func(t *tape, p hvae.Phase[float64]) hvae.Phase[float64] {
					return s.Flow(t, hvaetest.Bimodal{Dims: dims}, dims).Forward(p)
				})
				det := hvaetest.Determinant(hvaetest.Jacobian(flow, s0))
				if !(hvaetest.Relative(math.Exp(logDet), det) <= 1e-7) || !(hvaetest.Relative(det, product) <= 1e-7) {
					t.Errorf("%v, ℓ = %d: det ∇H = %.9f, LogDet says %.9f, Π α^ℓ = %.9f", s, dims, det, math.Exp(logDet), product)
				}
			}
		}
	})

	t.Run("ρ_0 ~ N(0, β_0⁻¹I), the canonical momentum distribution", func(t *testing.T) {
		var tp tape
		for _, s := range hvaetest.Schemes() {
			tp.Reset()
			const dims, n = 2, 20000
			f := s.Flow(&tp, hvaetest.Bimodal{Dims: dims}, dims)
			sample := hvaetest.HIS(&tp, f, dims, n, hvae.Stream(9, "momentum"))
			beta0 := betas(f.Tempering, s.K)[0]
			for j := range dims {
				rho := sample.Start.Rho.Value.Row(j)
				mean, se := hvaetest.MeanSE(rho)
				if !(math.Abs(mean/se) <= hvaetest.ZBound) {
					t.Errorf("%v: mean momentum %v ± %v", s, mean, se)
				}
				m2, se2 := hvaetest.MeanSE(hvaetest.Apply(rho, func(r float64) float64 { return r * r }))
				m4, se4 := hvaetest.MeanSE(hvaetest.Apply(rho, func(r float64) float64 { return r * r * r * r }))
				if !(math.Abs(m2-1/beta0)/se2 <= hvaetest.ZBound) || !(math.Abs(m4-3/(beta0*beta0))/se4 <= hvaetest.ZBound) {
					t.Errorf("%v: E[ρ²] = %.4f ± %.4f, E[ρ⁴] = %.3f ± %.3f, want 1/β₀ = %.4f, 3/β₀² = %.3f", s, m2, se2, m4, se4, 1/beta0, 3/(beta0*beta0))
				}
			}
		}
	})

	t.Run("footnote: step sizes per dimension are a mass matrix", func(t *testing.T) {
		// Leapfrog with one step size η and masses m, where z moves by η p/m, is leapfrog
		// with ε = η/√m when the momentum is measured as ρ = p/√m.
		const eta = 0.35
		masses := []float64{0.5, 2, 1.3}
		target := hvaetest.Bimodal{Dims: 3}
		epsilon := make([]float64, 3)
		start := append([]float64{}, phasePoint...)
		z, p := start[:3], start[3:]
		s := append([]float64{}, phasePoint...)
		for j, m := range masses {
			epsilon[j] = eta / math.Sqrt(m)
			s[3+j] = p[j] / math.Sqrt(m)
		}
		step := leapfrog(target, epsilon)
		for range 5 {
			s = step(s)
			for j, g := range hvaetest.PotentialGradient(target, z) {
				p[j] -= eta / 2 * g
			}
			for j := range z {
				z[j] += eta * p[j] / masses[j]
			}
			for j, g := range hvaetest.PotentialGradient(target, z) {
				p[j] -= eta / 2 * g
			}
		}
		for j, m := range masses {
			if !(math.Abs(s[j]-z[j]) <= 1e-9) || !(math.Abs(s[3+j]-p[j]/math.Sqrt(m)) <= 1e-9) {
				t.Errorf("dimension %d: (z, ρ) = (%v, %v), with a mass (%v, %v)", j, s[j], s[3+j], z[j], p[j]/math.Sqrt(m))
			}
		}
	})

	t.Run("Algorithm 1, alg:his: 1∕√β_k is quadratic in k", func(t *testing.T) {
		// Not in 1/β, as in the authors' MNIST code: of 1/√β_k, first differences grow
		// linearly and second differences are all 2(1 − 1/√β₀)/K².
		const K, s = 8, 3.0
		var tp tape
		beta := betas(hvae.FixedTempering(tp.Scalar(s)), K)
		r := hvaetest.Apply(beta, func(b float64) float64 { return 1 / math.Sqrt(b) })
		for k := range r {
			if want := (1-s)*float64(k*k)/(K*K) + s; !(hvaetest.Relative(r[k], want) <= 1e-12) {
				t.Errorf("1/√β_%d = %v, want %v", k, r[k], want)
			}
			if k >= 2 {
				if second, want := r[k]-2*r[k-1]+r[k-2], 2*(1-s)/(K*K); !(hvaetest.Relative(second, want) <= 1e-10) {
					t.Errorf("second difference %v at k = %d, want %v", second, k, want)
				}
			}
		}
	})

	t.Run("Algorithm 1, alg:his: K steps take K+1 gradients", func(t *testing.T) {
		for _, s := range hvaetest.Schemes() {
			want := s.K + 1
			if s.K == 0 {
				want = 1 // no gradient; the density at z₀
			}
			var tp tape
			c := &hvaetest.Counter{Target: hvaetest.Bimodal{Dims: 2}}
			sample := hvaetest.HIS(&tp, s.Flow(&tp, c, 2), 2, 5, hvae.Stream(1, "count"))
			sample.LogEstimate()
			// The tape's gradient at z_K computed log p(x, z_K) too: it is not done again.
			if c.Evaluations != want {
				t.Errorf("%v: the log joint density was evaluated %d times, want %d", s, c.Evaluations, want)
			}

			x, theta := points(2, 3)
			g := &hvaetest.ClosedFormCounter{ClosedForm: gaussian(&tp, model.Summarise(x), theta)}
			hvaetest.HIS(&tp, s.Flow(&tp, g, 2), 2, 5, hvae.Stream(1, "count")).ELBO()
			if s.K > 0 && g.Gradients != want || s.K == 0 && g.Gradients != 0 {
				t.Errorf("%v: ∇U was evaluated %d times", s, g.Gradients)
			}
		}
	})
}

// homogeneousFlow checks the estimate of time-homogeneous dynamics. The leapfrog conserves
// U(z) + ½ρᵀρ to second order, and then
//
//	log p̂(x) = log p(x, z₀) − log q⁰(z₀) + O(ε²):
//
// the flow's steps add nothing to the standard estimate.
func homogeneousFlow(t *testing.T) {
	const n, length = 400, 2.0
	bimodal := hvaetest.Bimodal{Dims: 2}
	standard := flowDraws(bimodal, 1, 0, 1, n) // one step of length zero
	var last float64
	for _, K := range []int{20, 40, 80, 160} {
		d := hvaetest.Distance(flowDraws(bimodal, K, length/float64(K), 1, n), standard)
		if ratio := last / d; K > 20 && (ratio < 3.8 || ratio > 4.2) {
			t.Errorf("K = %d: half the step size divides the difference by %.2f, want 4", K, ratio)
		}
		last = d
	}
}

// homogeneousVariance checks that a homogeneous flow "yields a high-variance estimator of the
// normalizing constants even if r^opt is used": for a posterior much narrower than q⁰, its
// Var(p̂/p) is the standard estimate's, whatever K is, and tempering divides it by 1.8.
func homogeneousVariance(t *testing.T) {
	const n, K, epsilon = 20000, 40, 0.05
	narrow := hvaetest.Quadratic{Omega: 4}
	variance := func(K int, epsilon, hot float64) (v, se float64) {
		logs := flowDraws(narrow, K, epsilon, hot, n)
		return hvaetest.MeanSE(hvaetest.Apply(logs, func(l float64) float64 { return math.Pow(math.Expm1(l-narrow.LogEvidence(2)), 2) }))
	}
	standard, standardSE := variance(1, 0, 1)
	for _, K := range []int{10, 40} {
		v, se := variance(K, epsilon, 1)
		if !(math.Abs(v-standard) <= hvaetest.ZBound*math.Hypot(se, standardSE)) || !(se <= 0.1*v) {
			t.Errorf("K = %d: Var(p̂/p) = %.3f ± %.3f, of the standard estimate %.3f ± %.3f", K, v, se, standard, standardSE)
		}
	}
	if v, se := variance(K, epsilon, 4); !(1.5*(v+hvaetest.ZBound*se) < standard) {
		t.Errorf("tempered, Var(p̂/p) = %.3f ± %.3f, homogeneous %.3f", v, se, standard)
	}
}

// flowDraws returns n draws of log p̂ in two dimensions from K steps of size ε, tempered from
// 1/√β₀ = hot, with the same noise for any K, ε and hot.
func flowDraws(target hvae.Target[float64], K int, epsilon, hot float64, n int) []float64 {
	var tp tape
	f := &hvae.Flow[float64]{Target: target, K: K, StepSize: tp.Fill(1, 2, epsilon)}
	if hot > 1 {
		f.Tempering = hvae.FixedTempering(tp.Scalar(hot))
	}
	return hvaetest.HIS(&tp, f, 2, n, hvae.Stream(40, "homogeneous")).LogEstimate().Value.Data
}

var phasePoint = []float64{0.4, -0.9, 0.3, 0.8, -0.5, 1.2} // (z, ρ) in three dimensions

var stepSizes = []float64{0.3, 0.15, 0.4} // for phasePoint

// leapfrogByHand is eqn:lf1 to eqn:lf3, each a func([]float64) []float64 of its own.
func leapfrogByHand(target hvae.Target[float64], epsilon []float64) (lf1, lf2, lf3 func([]float64) []float64) {
	n := len(epsilon)
	kick := func(s []float64) []float64 {
		out := append([]float64{}, s...)
		for j, g := range hvaetest.PotentialGradient(target, s[:n]) {
			out[n+j] -= epsilon[j] / 2 * g
		}
		return out
	}
	drift := func(s []float64) []float64 {
		out := append([]float64{}, s...)
		for j := range n {
			out[j] += epsilon[j] * s[n+j]
		}
		return out
	}
	return kick, drift, kick
}

// leapfrog is the step under test as a func([]float64) []float64.
func leapfrog(target hvae.Target[float64], epsilon []float64) func([]float64) []float64 {
	return hvaetest.OnTape(len(epsilon), func(t *tape, s hvae.Phase[float64]) hvae.Phase[float64] {
		return hvae.Leapfrog(target, t.Const(linalg.Of(1, len(epsilon), epsilon)), s)
	})
}

// transition is a leapfrog step and the cooling by α after it, as a kernel of eq. 3.
type transition struct {
	target  hvae.Target[float64]
	epsilon variable
	alpha   float64
}

func (k transition) Forward(s hvae.Phase[float64], logRatio []float64) hvae.Phase[float64] {
	s = hvae.Leapfrog(k.target, k.epsilon, s)
	k.addLogDet(s, logRatio)
	return hvae.Phase[float64]{Z: s.Z, Rho: ad.Scale(s.Rho, k.alpha)}
}

func (k transition) Reverse(s hvae.Phase[float64], logRatio []float64) hvae.Phase[float64] {
	k.addLogDet(s, logRatio)
	step := hvae.Flow[float64]{Target: k.target, K: 1, StepSize: k.epsilon}
	return step.Inverse(hvae.Phase[float64]{Z: s.Z, Rho: ad.Scale(s.Rho, 1/k.alpha)})
}

// addLogDet adds log |det ∇Φ| = ℓ log α.
func (k transition) addLogDet(s hvae.Phase[float64], logRatio []float64) {
	for i := range logRatio {
		logRatio[i] += float64(s.Z.Rows()) * math.Log(k.alpha)
	}
}

// heat returns 1/√β₀ and α_1 … α_K of a flow of K steps; alpha is nil without tempering.
func heat(t hvae.Tempering[float64], K int) (invSqrtBeta0 float64, alpha []float64) {
	if s := t.Schedule(K); s.Alpha != nil {
		return s.InvSqrtBeta0.Scalar(), s.Alpha.Value.Data
	}
	return 1, nil
}

// betas returns β_0 … β_K, from β₀ and α_k = √(β_{k−1}/β_k).
func betas(t hvae.Tempering[float64], K int) []float64 {
	invSqrtBeta0, alpha := heat(t, K)
	beta := []float64{math.Pow(invSqrtBeta0, -2)}
	for _, a := range alpha {
		beta = append(beta, beta[len(beta)-1]/(a*a))
	}
	return beta
}

func section3(t *testing.T) {
	t.Run("eq. 10, eqn:inference_objective, and eq. 11, eqn:ELBO: the surrogate touches the objective", surrogateObjective)
	t.Run("eq. 11, eqn:ELBO: minibatches estimate the mean over the data and its gradient without bias", minibatches)
	t.Run("eq. 12, eqn:H_ELBO_simplified: every gradient is the raw bound's, draw by draw", rawGradient)

	t.Run("eq. 12, eqn:H_ELBO_simplified: the same mean as the raw bound", func(t *testing.T) {
		for _, s := range hvaetest.Schemes() {
			raw, rb := hvaetest.Draws(s, targets()[0].bind, 2, 40000, 3)
			mean, se := hvaetest.MeanSE(hvaetest.Differences(raw, rb))
			if !(math.Abs(mean/se) <= hvaetest.ZBound) || se > 0.01 {
				t.Errorf("%v: the two differ by %.4f ± %.4f", s, mean, se)
			}
		}
	})

	t.Run("eq. 12 is said to reduce the variance: not for quadratic potentials and one ε for all steps", func(t *testing.T) {
		// The paper calls the step from the raw bound to the other Rao-Blackwellisation, which
		// cannot increase a variance. But the expectation that it takes is of one term alone,
		// not conditional on the rest, with which the term is correlated. As
		// raw − rb = ½γ₀ᵀγ₀ − ℓ/2, whose variance is ℓ/2,
		//
		//	Var(rb) = Var(raw) + ℓ/2 − 2 Cov(raw, ½γ₀ᵀγ₀),
		//
		// so that rb varies less only if the covariance exceeds ℓ/4. For quadratic potentials
		// and one ε for all steps the covariance is at most zero, since raw loses at least as
		// much by the energy that the momentum brings as it gains by the term (the next
		// statement): the variance of rb is larger by at least ℓ/2. The condition is needed
		// (the counterexample below). Training loses nothing: the gradients are the same.
		const dims = 2
		for _, s := range hvaetest.Schemes() {
			if s.PerLayer { // one step size for all steps, as in the argument
				continue
			}
			raw, rb := hvaetest.Draws(s, targets()[1].bind, dims, 40000, 5)
			excess, se := hvaetest.VarianceExcess(raw, rb)
			if z := (excess - dims/2.) / se; z < -hvaetest.ZBound || s.K == 0 && z > hvaetest.ZBound {
				t.Errorf("%v: Var(rb) − Var(raw) = %.3f ± %.3f, want at least ℓ/2 (and just that for K = 0)", s, excess, se)
			}
		}
	})

	t.Run("eq. 12, quadratic potentials and one ε for all steps: momentum brings at least its own energy", func(t *testing.T) {
		// For U(z) = ½ω²z², leapfrog steps of one size ε < 2/ω conserve the energy
		// ½ρ² + ½ω²(1 − ε²ω²/4)z², and tempering step k takes at most all but α_k² of it. From
		// z₀ = 0 and ρ₀ = γ₀/√β₀ it is therefore at least ½γ₀² in the end, and so is U + ½ρ².
		for _, s := range hvaetest.Schemes() {
			if s.PerLayer {
				continue
			}
			for _, omega := range []float64{0.1, 1, 2, 4} {
				var tp tape
				target := hvaetest.Quadratic{Omega: omega}
				f := s.Flow(&tp, target, 1)
				gamma0 := tp.Scalar(1)
				sample := hvae.HIS(f, drawn{tp.Scalar(0), tp.Scalar(0)}, nil, gamma0)
				energy := 0.5*math.Pow(sample.End.Rho.Scalar(), 2) - target.LogJoint(sample.End.Z).Scalar()
				if energy < 0.5-1e-12 {
					t.Errorf("%v, ω = %v: γ₀ = 1 ends with energy %.4f", s, omega, energy)
				}
			}
		}
	})

	t.Run("eq. 12, quadratic potentials and one ε for all steps: the variance grows by at least ℓ∕2", quadraticVariance)
	t.Run("eq. 12 reduces the variance for a quadratic potential with an ε for each step", quadraticCounterexample)

	t.Run("eq. 12 reduces the variance where the momentum's term stands out", func(t *testing.T) {
		// Where one leapfrog step in a steep potential happens to use up what the momentum
		// brings, the term ½γ₀ᵀγ₀ stands out in the raw bound, and taking its expectation does
		// reduce the variance: here E_K as a function of ½γ₀ᵀγ₀ has a slope near −0.3.
		const dims, n = 200, 4000
		var tp tape
		rng := hvae.Stream(6, "steep")
		z0 := ad.Scale(hvae.Noise(&tp, rng, dims, n), 0.01)
		f := &hvae.Flow[float64]{Target: steep{}, K: 1, StepSize: tp.Fill(1, dims, 1)}
		sample := hvae.HIS(f, drawn{z0, tp.Fill(1, n, 0)}, nil, hvae.Noise(&tp, rng, dims, n))
		excess, se := hvaetest.VarianceExcess(sample.LogEstimate().Value.Data, sample.ELBO().Value.Data)
		if z := excess / se; z > -hvaetest.ZBound {
			t.Errorf("Var(rb) − Var(raw) = %.3f ± %.3f, want it negative", excess, se)
		}
	})

	t.Run("Algorithm 2, alg:vi: the gradient of the average is its slope in every θ and φ", func(t *testing.T) {
		// The average over a batch is a smooth function of θ and φ for fixed noise: the
		// gradient that training follows is its slope, in every parameter, for a target
		// without closed form, where it passes through ∇U by the tape, and for each method
		// of section 5.1. As the noise does not depend on them, its expectation is the
		// ELBO's gradient.
		const dims, n = 2, 30
		for _, s := range hvaetest.Schemes() {
			mean, logSD := linalg.Column(0.2, -0.1), linalg.Column(0.1, -0.2)
			logit := linalg.New[float64](s.Flow(new(tape), nil, dims).StepSize.Rows(), dims)
			hot, alpha := linalg.Column(math.Log(0.6)), linalg.New[float64](s.K, 1)
			alpha.Fill(1.5)
			logit.Fill(0.2)
			e := hvaetest.GradientError([]matrix{mean, logSD, logit, hot, alpha}, func(t *tape, p []variable) variable {
				rng := hvae.Stream(16, "common random numbers")
				epsilon := hvae.Noise(t, rng, dims, n)
				z0 := ad.Add(ad.Mul(ad.Exp(p[1]), epsilon), p[0]) // section 5.2's reparameterisation
				logPrior := ad.Sub(hvae.LogNormal(epsilon), ad.Sum(p[1]))
				f := &hvae.Flow[float64]{Target: hvaetest.Bimodal{Dims: dims}, K: s.K, StepSize: ad.Scale(ad.Sigmoid(p[2]), 0.5)}
				switch s.Tempering {
				case "fixed":
					f.Tempering = hvae.FixedTempering(ad.AddConst(ad.Exp(p[3]), 1))
				case "free":
					f.Tempering = hvae.FreeTempering(ad.Sigmoid(p[4]))
				}
				return hvae.HIS(f, drawn{z0, logPrior}, epsilon, hvae.Noise(t, rng, dims, n)).ELBO()
			})
			if !(e <= 1e-7) {
				t.Errorf("%v: the gradient is off by %.1e", s, e)
			}
		}
		for _, name := range model.MethodNames() {
			x, _ := points(3, 20)
			m, err := model.NewMethod(name, model.Summarise(x), hvae.Stream(13, name))
			if err != nil {
				t.Fatal(err)
			}
			rng := hvae.Stream(14, name)
			var params []matrix
			for _, p := range m.Params() {
				if p.Name == "log_sigma" {
					p.Value.Fill(0.5) // of the data's order, so that every term matters
				}
				for i := range p.Value.Data {
					p.Value.Data[i] += 0.3 * rng.NormFloat64()
				}
				params = append(params, p.Value)
			}
			e := hvaetest.GradientError(params, func(t *tape, params []variable) variable {
				return m.ELBO(params, hvae.Noise(t, hvae.Stream(15, "common random numbers"), m.NoiseRows(), 10))
			})
			if !(e <= 1e-7) {
				t.Errorf("%s: the gradient is off by %.1e", name, e)
			}
		}
	})

	t.Run("Algorithm 2, alg:vi: training climbs the ELBO", func(t *testing.T) {
		for _, name := range model.MethodNames() {
			x, _ := points(2, 30)
			m, err := model.NewMethod(name, model.Summarise(x), hvae.Stream(18, name))
			if err != nil {
				t.Fatal(err)
			}
			trainer := model.NewTrainer(m, 10, 1e-2, hvae.Stream(19, name))
			before, err := trainer.MeanELBO(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}
			for range 500 {
				if err := trainer.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if after, err := trainer.MeanELBO(t.Context(), 1000); err != nil || after < before+30 {
				t.Errorf("%s: the ELBO went from %.1f to %.1f in 500 steps", name, before, after)
			}
		}
	})
}

// quadraticCovariance returns Cov(log p̂, ½γ₀²) and Var(rb) − Var(log p̂), where rb is equation
// 12's estimate, for U = ½ω²z², q⁰ = N(0, 1), steps of size ε_k and 1/√β₀ = hot. For x = (z₀, γ₀)
// both estimates are quadratic forms xᵀAx and xᵀBx plus constants, and Cov = 2 tr AB.
func quadraticCovariance(t *testing.T, omega, hot float64, epsilon ...float64) (covariance, excess float64) {
	var tp tape
	K := len(epsilon)
	f := &hvae.Flow[float64]{Target: hvaetest.Quadratic{Omega: omega}, K: K, StepSize: tp.Const(linalg.Of(K, 1, epsilon))}
	if hot > 1 {
		f.Tempering = hvae.FixedTempering(tp.Scalar(hot))
	}
	z0, gamma0 := tp.Const(linalg.Of(1, 5, []float64{0, 1, 0, 1, 0.7})), tp.Const(linalg.Of(1, 5, []float64{0, 0, 1, 1, -1.3}))
	sample := hvae.HIS(f, hvae.StandardNormal[float64]{}, z0, gamma0)
	form := func(l []float64) (zz, zg, gg float64) {
		zz, gg = l[1]-l[0], l[2]-l[0]
		zg = (l[3] - l[0] - zz - gg) / 2
		if want := l[0] + zz*0.49 - 2*zg*0.91 + gg*1.69; !(math.Abs(l[4]-want) <= 1e-10*math.Abs(want)) {
			t.Fatalf("ω = %v, ε = %v: the estimate is %v, a quadratic form %v", omega, epsilon, l[4], want)
		}
		return zz, zg, gg
	}
	variance := func(zz, zg, gg float64) float64 { return 2 * (zz*zz + 2*zg*zg + gg*gg) }
	raw, rb := sample.LogEstimate().Value.Data, sample.ELBO().Value.Data
	_, _, covariance = form(raw)
	return covariance, variance(form(rb)) - variance(form(raw))
}

// quadraticVariance checks, without sampling, that for U = ½ω²z² and one ε < 2/ω for all steps
//
//	Cov(log p̂, ½γ₀²) ≤ 0,   Var(rb) ≥ Var(log p̂) + ½.
func quadraticVariance(t *testing.T) {
	for _, omega := range []float64{0.3, 1, 3.9, 20} {
		for _, K := range []int{1, 2, 3, 10, 30} {
			for _, hot := range []float64{1, 1.5, 4} {
				for stability := 0.05; stability < 1; stability += 0.05 { // εω/2
					epsilon := slices.Repeat([]float64{2 * stability / omega}, K)
					if c, e := quadraticCovariance(t, omega, hot, epsilon...); !(c <= 1e-12) || !(e >= 0.5-1e-9) {
						t.Errorf("ω = %v, K = %d, 1/√β₀ = %v, ε = %v: covariance %v, Var(rb) − Var(log p̂) = %v", omega, K, hot, epsilon[0], c, e)
					}
				}
			}
		}
	}
}

// quadraticCounterexample checks that the condition "one ε for all steps" is needed: with
// ω = 3.9, K = 2, no tempering and ε = (0.275, 0.499), both below the stability limit 2/ω,
//
//	Cov(log p̂, ½γ₀²) = 0.37 > ¼,   Var(rb) < Var(log p̂).
func quadraticCounterexample(t *testing.T) {
	c, e := quadraticCovariance(t, 3.9, 1, 0.275, 0.499)
	if !(math.Abs(c-0.37) <= 0.005) || !(math.Abs(e+0.24) <= 0.005) {
		t.Errorf("the covariance is %.4f and Var(rb) − Var(log p̂) = %.4f, want 0.37 and −0.24", c, e)
	}
}

// rawGradient checks that, draw by draw,
//
//	log p̂(x) − [log p(x, z_K) − ½ρ_Kᵀρ_K − log q⁰(z₀) + ℓ/2] = ½γ₀ᵀγ₀ − ℓ/2,
//
// in which there is no parameter: both sides of equation 12 have the same gradient in θ (here
// Δ and σ of the Gaussian model), in the variational prior's μ and σ, in ε and in tempering.
func rawGradient(t *testing.T) {
	const dims, n = 5, 50
	x, _ := points(dims, 3)
	stats := model.Summarise(x)
	for _, s := range hvaetest.Schemes() {
		var tp tape
		leaf := func(rows, cols int, v float64) variable {
			m := linalg.New[float64](rows, cols)
			m.Fill(v)
			return tp.Leaf(m)
		}
		delta, logSigma, mean, sd := leaf(dims, 1, 0.3), leaf(dims, 1, 0.2), leaf(dims, 1, -0.1), leaf(dims, 1, 0.8)
		leaves := []variable{delta, logSigma, mean, sd}
		f := s.Flow(&tp, model.NewTarget(stats, delta, logSigma), dims)
		switch {
		case s.K == 0:
		case s.Tempering == "fixed":
			hot := leaf(1, 1, 1.4)
			f.Tempering, leaves = hvae.FixedTempering(hot), append(leaves, hot)
		case s.Tempering == "free":
			alpha := leaf(s.K, 1, 0.9)
			f.Tempering, leaves = hvae.FreeTempering(alpha), append(leaves, alpha)
		}
		if s.K > 0 {
			leaves = append(leaves, f.StepSize)
		}
		rng := hvae.Stream(4, "gradient")
		epsilon, gamma0 := hvae.Noise(&tp, rng, dims, n), hvae.Noise(&tp, rng, dims, n)
		sample := hvae.HIS(f, hvae.DiagonalNormal[float64]{Mean: mean, SD: sd}, epsilon, gamma0)
		raw, rb := sample.LogEstimate(), sample.ELBO()
		for i := range n {
			want := -dims / 2.
			for j := range dims {
				want += gamma0.Value.At(j, i) * gamma0.Value.At(j, i) / 2
			}
			if got := raw.Value.Data[i] - rb.Value.Data[i]; !(math.Abs(got-want) <= 1e-11) {
				t.Errorf("%v: draw by draw they differ by %v, want %v", s, got, want)
			}
		}
		a, b := ad.Mean(raw), ad.Mean(rb)
		for i, l := range leaves {
			ga, gb := ad.Grad(a, l).Value.Data, ad.Grad(b, l).Value.Data
			if d := hvaetest.Distance(ga, gb); !(d <= 1e-11*hvaetest.Norm(gb)) || hvaetest.Norm(gb) == 0 {
				t.Errorf("%v: gradients %v and %v in parameter %d", s, ga, gb, i)
			}
		}
	}
}

// An observation of section 3's data is x ~ N(z + Δ, σ²) with z ~ N(0, 1): each x has its
// own z, p(x) = N(x | Δ, 1 + σ²), and the posterior is N((x − Δ)/(1 + σ²), σ²/(1 + σ²)).
type observations struct{ x, delta, logSigma variable }

func (o observations) LogJoint(z variable) variable {
	r := ad.Div(ad.Sub(ad.Sub(o.x, z), o.delta), ad.Exp(o.logSigma))
	return ad.Add(ad.Sub(hvae.LogNormal(r), o.logSigma), hvae.LogNormal(z))
}

// autoEncoder returns the trainer of a small HVAE on the data x, and the optimiser that stores
// its gradients. q⁰(z|x) = N(w(x − Δ), s²), K steps are tempered
// from 1/√β₀ = 1.4, and the noise of an observation does not depend on the rest of the batch.
func autoEncoder(x []float64, K, blockSize int, params ...float64) (tr *hvae.Trainer[float64], seen *gradient) {
	var all hvae.Params[float64]
	for i, name := range []string{"delta", "log_sigma", "w", "log_s", "step_size_logit"} {
		all.Add(name, linalg.Column(params[i]))
	}
	seen = new(gradient)
	tr = hvae.NewTrainer(all, seen, func(b *hvae.Block[float64]) variable {
		noise := b.Tape.Matrix(2, len(b.Batch))
		for j, i := range b.Batch {
			hvae.FillNormalColumn(hvae.Stream(65, "observation", i), noise, j)
		}
		p, epsilon := b.Params, b.Tape.Const(noise)
		target := observations{b.Columns(linalg.Of(1, len(x), x)), p[0], p[1]}
		e0 := ad.RowRange(epsilon, 0, 1)
		z0 := ad.Add(ad.Mul(ad.Exp(p[3]), e0), ad.Mul(p[2], ad.Sub(target.x, p[0])))
		f := &hvae.Flow[float64]{Target: target, K: K, StepSize: hvae.Constrain(p[4], 0, 0.5)}
		if K > 0 {
			f.Tempering = hvae.FixedTempering(b.Tape.Scalar(1.4))
		} else { // a trainer does not accept a parameter without a path to the bound
			z0 = ad.Add(z0, ad.Scale(p[4], 0))
		}
		return hvae.HIS(f, drawn{z0, ad.Sub(hvae.LogNormal(e0), p[3])}, e0, ad.RowRange(epsilon, 1, 2)).LogEstimate()
	})
	tr.BlockSize = blockSize
	return tr, seen
}

// gradient is an optimiser that stores the last gradient and changes no parameter.
type gradient struct{ last []float64 }

func (g *gradient) Start() []float64 { return nil }

func (g *gradient) Ascend(_ int, _, gradient []float64, _ [][]float64) {
	g.last = slices.Clone(gradient)
}

// surrogateObjective checks
//
//	θ* = argmax E_{x~ν_D}[log p_θ(x)],   L_ELBO(θ, φ) = E_{x~ν_D}[L_ELBO(θ, φ; x)] ≤ E_{x~ν_D}[log p_θ(x)]
//
// for the empirical measure ν_D: with the posterior as q⁰ and K = 0 the two agree for any θ and
// any noise, with another q⁰ or a flow the ELBO is lower.
func surrogateObjective(t *testing.T) {
	x := []float64{-1.3, 0.2, 0.5, 0.9, 2.1, 2.2, 3.8}
	for _, theta := range [][2]float64{{0, 0}, {1.2, 0.4}, {-0.5, -0.7}} {
		v := math.Exp(2 * theta[1])
		objective := 0.0
		for _, xi := range x {
			objective += logNormal(xi, theta[0], 1+v) / float64(len(x))
		}
		w, logS := 1/(1+v), math.Log(v/(1+v))/2
		tr, _ := autoEncoder(x, 0, 2, theta[0], theta[1], w, logS, 0)
		if elbo, _, err := tr.Evaluate(t.Context(), []int{0, 1, 2, 3, 4, 5, 6}, 1, nil); err != nil || !(math.Abs(elbo-objective) <= 1e-13) {
			t.Errorf("θ = %v: with the posterior as q⁰ the ELBO is %v, the objective %v, %v", theta, elbo, objective, err)
		}
		for _, K := range []int{0, 3} { // each observation a thousand times, with fresh noise
			many := slices.Repeat(x, 1000)
			tr, _ := autoEncoder(many, K, 700, theta[0], theta[1], w+0.2, logS+0.3, 0)
			var all []int
			for i := range many {
				all = append(all, i)
			}
			elbo, _, err := tr.Evaluate(t.Context(), all, 1, nil)
			if gap := objective - elbo; err != nil || !(gap > 0.003 && gap < 1) {
				t.Errorf("θ = %v, K = %d: the ELBO is %.4f, the objective %.4f, %v", theta, K, elbo, objective, err)
			}
		}
	}
}

// minibatches checks "approximating the expectation over ν_D using minibatches": the ELBO and
// its gradient over the data are the mean over observations one by one, and the mean over
// minibatches that part the data, however a batch is cut into blocks.
func minibatches(t *testing.T) {
	const N = 30
	x := make([]float64, N)
	for i := range x {
		x[i] = 1.5 + 2*hvae.Stream(66, "data", i).NormFloat64()
	}
	for _, K := range []int{0, 3} {
		over := func(size, blockSize int) (elbo float64, mean []float64) {
			tr, seen := autoEncoder(x, K, blockSize, 0.4, -0.2, 0.6, -0.3, 0.5)
			mean = make([]float64, 5)
			for lo := 0; lo < N; lo += size {
				var batch []int
				for i := lo; i < lo+size; i++ {
					batch = append(batch, 7*i%N) // in another order
				}
				e, err := tr.Step(t.Context(), batch)
				if err != nil {
					t.Fatal(err)
				}
				elbo += e * float64(size) / N
				for j, g := range seen.last {
					mean[j] += g * float64(size) / N
				}
			}
			return elbo, mean
		}
		elbo, gradient := over(1, 1)
		for _, cut := range [][2]int{{N, N}, {N, 7}, {10, 4}, {5, 5}, {2, 1}} {
			e, g := over(cut[0], cut[1])
			if !(math.Abs(e-elbo) <= 1e-12*math.Abs(elbo)) || !(hvaetest.Distance(g, gradient) <= 1e-12*hvaetest.Norm(gradient)) {
				t.Errorf("K = %d, batches of %d in blocks of %d: ELBO %v, gradient %v; one by one %v and %v", K, cut[0], cut[1], e, g, elbo, gradient)
			}
		}
		if zero := slices.Index(gradient, 0); zero >= 0 && (K > 0 || zero != 4) {
			t.Errorf("K = %d: the gradient %v is zero in parameter %d", K, gradient, zero)
		}
	}
}

// drawn is a variational prior whose draw and log density are given.
type drawn struct{ z0, logDensity variable }

func (d drawn) Draw(variable) (z0, logDensity variable) { return d.z0, d.logDensity }

// steep is the potential U(z) = 1.34e-8·(zᵀz)⁴.
type steep struct{}

func (steep) LogJoint(z variable) variable {
	return ad.Scale(ad.Square(ad.Square(ad.MulSumTo(z, z, 1, z.Cols()))), -1.34e-8)
}

func section51(t *testing.T) {
	t.Run("the model: z ~ N(0,I), x_i ~ N(z+Δ,Σ)", func(t *testing.T) {
		truth := model.Truth(3)
		const n, datasets = 5, 4000
		for j := range 3 {
			var means, scatters []float64
			for k := range datasets {
				data := model.Draw(truth, n, hvae.Stream(22, "distribution", k))
				means = append(means, data.Mean[j])
				scatters = append(scatters, data.Scatter[j]/(truth.Sigma[j]*truth.Sigma[j]))
			}
			m, se := hvaetest.MeanSE(means)
			v, vse := hvaetest.MeanSE(hvaetest.Apply(means, func(x float64) float64 { return (x - truth.Delta[j]) * (x - truth.Delta[j]) }))
			s, sse := hvaetest.MeanSE(scatters)
			if !(math.Abs(m-truth.Delta[j])/se <= hvaetest.ZBound) || !(math.Abs(v-1-truth.Sigma[j]*truth.Sigma[j]/n)/vse <= hvaetest.ZBound) || !(math.Abs(s-(n-1))/sse <= hvaetest.ZBound) {
				t.Errorf("dimension %d: E[x̄] = %.3f ± %.3f, Var = %.3f ± %.3f, E[S/σ²] = %.3f ± %.3f", j, m, se, v, vse, s, sse)
			}
		}
	})

	t.Run("the data enter through their mean and their scatter", func(t *testing.T) {
		x, _ := points(2, 50)
		base := model.Summarise(x)
		linalg.AddConst(x, x, 1e7)
		moved := model.Summarise(x)
		for j := range 2 {
			if !(hvaetest.Relative(moved.Scatter[j], base.Scatter[j]) <= 1e-8) || !(math.Abs(moved.Mean[j]-1e7-base.Mean[j]) <= 1e-7) {
				t.Errorf("1e7 away the statistics are %v and %v, not %v and %v", moved.Mean[j]-1e7, moved.Scatter[j], base.Mean[j], base.Scatter[j])
			}
		}
	})

	t.Run("log p(D) can be calculated exactly, and so can the posterior", func(t *testing.T) {
		const d, n = 3, 7
		x, theta := points(d, n)
		data := model.Summarise(x)
		mean, variance := data.Posterior(theta)
		logEvidence := 0.0
		for j := range d {
			density := func(z float64) float64 {
				return math.Exp(logJointOfPoints(x.Row(j), theta.Delta[j], theta.Sigma[j], z))
			}
			evidence := hvaetest.Integrate(density, -12, 12, 4000)
			logEvidence += math.Log(evidence)
			m := hvaetest.Integrate(func(z float64) float64 { return z * density(z) }, -12, 12, 4000) / evidence
			v := hvaetest.Integrate(func(z float64) float64 { return (z - m) * (z - m) * density(z) }, -12, 12, 4000) / evidence
			if !(hvaetest.Relative(mean[j], m) <= 1e-11) || !(hvaetest.Relative(variance[j], v) <= 1e-11) {
				t.Errorf("dimension %d: posterior N(%v, %v), by quadrature N(%v, %v)", j, mean[j], variance[j], m, v)
			}
		}
		if got := data.LogEvidence(theta); !(hvaetest.Relative(got, logEvidence) <= 1e-12) {
			t.Errorf("log p(D) = %v, by quadrature %v", got, logEvidence)
		}
	})

	t.Run("θ* maximises log p(D)", func(t *testing.T) {
		for _, n := range []int{2, 3, 20, 10000} {
			data := model.Draw(model.Truth(3), n, hvae.Stream(21, "ml", n))
			best := data.MaximumLikelihood()
			top := data.LogEvidence(best)
			for j := range 3 {
				for _, p := range [][]float64{best.Delta, best.Sigma} {
					at := func(h float64) float64 {
						defer func(v float64) { p[j] = v }(p[j])
						p[j] += h * best.Sigma[j]
						return data.LogEvidence(best)
					}
					if g := hvaetest.Slope(at, 1e-3); !(math.Abs(g) <= 1e-6*float64(n)) {
						t.Errorf("N = %d: the evidence has the slope %.1e in dimension %d at its maximum", n, g, j)
					}
					for _, h := range []float64{-0.3, -0.01, 0.01, 0.3} {
						if at(h) >= top {
							t.Errorf("N = %d: log p(D) is larger %v away from its maximum in dimension %d", n, h, j)
						}
					}
				}
			}
		}
	})

	t.Run("log p(D,z) is the sum over points", func(t *testing.T) {
		const d, n = 3, 7
		x, theta := points(d, n)
		var tp tape
		g := gaussian(&tp, model.Summarise(x), theta)
		z := hvae.Noise(&tp, hvae.Stream(20, "z"), d, 4)
		for i, got := range g.LogJoint(z).Value.Data {
			want := 0.0
			for j := range d {
				want += logJointOfPoints(x.Row(j), theta.Delta[j], theta.Sigma[j], z.Value.At(j, i))
			}
			if !(hvaetest.Relative(got, want) <= 1e-13) {
				t.Errorf("log p(D, z) = %v, the sum over points is %v", got, want)
			}
		}
	})

	t.Run("∇U = z + NΣ⁻¹(z+Δ−x̄), and U = −log p(D,z) in spite of the sign in the text", func(t *testing.T) {
		// U = −log p(D, z). The paper's line for U lacks the sign, its gradient does not:
		// ∇U = z + NΣ⁻¹(z + Δ − x̄).
		const d, n = 3, 7
		x, theta := points(d, n)
		data := model.Summarise(x)
		var tp tape
		g := gaussian(&tp, data, theta)
		z := tp.Leaf(linalg.Column(0.3, -1.2, 0.8))
		closed, _ := hvae.PotentialGradient[float64](g, z)
		taped, logJoint := hvae.PotentialGradient[float64](hvaetest.LogJointOnly{Target: g}, z)
		if logJoint == nil || !(hvaetest.Relative(logJoint.Scalar(), g.LogJoint(z).Scalar()) <= 1e-15) {
			t.Error("the tape's gradient must leave log p(x, z) behind")
		}
		constant := model.NewTarget(data, tp.Const(linalg.Column(theta.Delta...)), ad.Log(tp.Const(linalg.Column(theta.Sigma...))))
		numeric := hvaetest.PotentialGradient(constant, z.Value.Data)
		for j := range d {
			zj := z.Value.At(j, 0)
			want := zj + n/(theta.Sigma[j]*theta.Sigma[j])*(zj+theta.Delta[j]-data.Mean[j])
			for name, got := range map[string]float64{"closed form": closed.Value.At(j, 0), "tape": taped.Value.At(j, 0), "differences": numeric[j]} {
				if !(math.Abs(got-want) <= 1e-9) {
					t.Errorf("%s: ∂U/∂z_%d = %v, the paper's formula gives %v", name, j, got, want)
				}
			}
		}
	})

	t.Run("HVAE: the ELBO is at most log p(D)", func(t *testing.T) {
		// The experiment's own estimate against the flow's linear algebra: for a quadratic
		// potential (z_K, ρ_K) is affine in the noise, which gives the mean exactly.
		for hot, tempered := range map[float64]bool{1.4: true, 1: false} {
			for _, K := range []int{1, 10} {
				x, theta := points(2, 3)
				data := model.Summarise(x)
				h := model.NewHVAE(data, K, tempered)
				elbo := methodELBO(h, func(params []*model.Param) {
					setTheta(theta)(params)
					params[2].Value.Fill(-0.4)
					if tempered {
						params[3].Value.Fill(math.Log(0.4))
					}
				}, 60000, 30)
				want := 0.0
				for j := range 2 {
					want += affineELBO(data, theta, j, K, 0.5/(1+math.Exp(0.4)), hot)
				}
				mean, se := hvaetest.MeanSE(elbo)
				if !(math.Abs(mean-want)/se <= hvaetest.ZBound) || se > 0.2 {
					t.Errorf("tempered %v, K = %d: ELBO %.4f ± %.4f, want %.4f", tempered, K, mean, se, want)
				}
				if mean > data.LogEvidence(theta) {
					t.Errorf("tempered %v, K = %d: ELBO %.4f above log p(D) = %.4f", tempered, K, mean, data.LogEvidence(theta))
				}
			}
		}
	})

	t.Run("HVAE: what the bound loses is the divergence from the posterior", func(t *testing.T) {
		// log p(D) − ELBO = KL(q^K(z, ρ) ‖ p(z|D) N(ρ|0, I)), both normal in each dimension.
		// From (z₀, γ₀), whose covariance is I, to (z_K, ρ_K) volumes stay the same, as
		// tempering takes back what heating the momentum added: q^K's covariance has unit
		// determinant.
		x, theta := points(2, 3)
		data := model.Summarise(x)
		mean, variance := data.Posterior(theta)
		for _, hot := range []float64{1.4, 1} {
			for _, K := range []int{1, 2, 10} {
				const epsilon = 0.3
				elbo, gap := 0.0, 0.0
				for j := range 2 {
					z, rho := affineFlow(data, theta, j, K, epsilon, hot)
					away := z[0] - mean[j]
					gap += ((z[1]*z[1]+z[2]*z[2]+away*away)/variance[j] + rho[1]*rho[1] + rho[2]*rho[2] + rho[0]*rho[0] - 2 + math.Log(variance[j])) / 2
					elbo += affineELBO(data, theta, j, K, epsilon, hot)
					if det := z[1]*rho[2] - z[2]*rho[1]; !(math.Abs(det-1) <= 1e-11) {
						t.Errorf("1/√β₀ = %v, K = %d: volumes grow by %v from (z₀, γ₀) to (z_K, ρ_K)", hot, K, det)
					}
				}
				if got := data.LogEvidence(theta) - elbo; !(math.Abs(got-gap) <= 1e-10*gap) {
					t.Errorf("1/√β₀ = %v, K = %d: the gap is %v, the divergence %v", hot, K, got, gap)
				}
			}
		}
	})

	t.Run("φ has d+1 parameters, a planar flow 2d+1, and where they start", func(t *testing.T) {
		data := model.Draw(model.Truth(3), 100, hvae.Stream(23, "start"))
		constant := func(rows, cols int, v float64) matrix {
			m := linalg.New[float64](rows, cols)
			m.Fill(v)
			return m
		}
		for _, tempered := range []bool{true, false} {
			h := model.NewHVAE(data, 10, tempered)
			want := []*model.Param{
				{Name: "delta", Value: constant(3, 1, 0)},
				{Name: "log_sigma", Value: constant(3, 1, 3)},
				{Name: "step_size_logit", Value: constant(1, 3, math.Log(0.01/0.99))}, // ε = 0.5·0.01
				{Name: "log_temperature", Value: constant(1, 1, math.Log(4))},         // 1/√β₀ = 1 + 4
			}
			beta0 := 1.0 / 25
			if !tempered {
				want, beta0 = want[:3], 1
			}
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })
			if diff := cmp.Diff(want, h.Params(), near); diff != "" {
				t.Error(diff)
			}
			if !(math.Abs(h.Beta0()-beta0) <= 1e-14) {
				t.Errorf("β₀ starts at %v, want %v", h.Beta0(), beta0)
			}
		}
		p := model.NewPlanar(data, 30, hvae.Stream(24, "start")).Params()
		if len(p) != 5 || p[4].Value.At(0, 0) != 0.1 { // 2d + 1 parameters u, w, b
			t.Errorf("the planar flow has the parameters %v", p)
		}
		var uw []float64
		for k := range 500 {
			for _, m := range model.NewPlanar(data, 1, hvae.Stream(25, "start", k)).Params()[2:4] {
				uw = append(uw, m.Value.Data...)
			}
		}
		for _, v := range uw {
			if !(math.Abs(v) <= 0.2) {
				t.Fatalf("u or w starts at %v, beyond two standard deviations", v)
			}
		}
		// The variance of a normal cut off at ±2 is 1 − 4φ(2)/(2Φ(2) − 1).
		want := 1 - 4*math.Exp(-2)/math.Sqrt(2*math.Pi)/math.Erf(math.Sqrt2)
		if v, se := hvaetest.MeanSE(hvaetest.Apply(uw, func(x float64) float64 { return x * x / 0.01 })); !(math.Abs(v-want)/se <= hvaetest.ZBound) {
			t.Errorf("u and w start with variance %.4f ± %.4f of 0.1², want %.4f", v, se, want)
		}
		vb := model.NewMeanField(data).Params()
		if len(vb) != 4 || vb[2].Value.At(1, 0) != 0 || vb[3].Value.At(1, 0) != 1 {
			t.Errorf("mean-field VB starts from %v", vb)
		}
	})

	t.Run("VB: the ELBO is the mean of its estimate", func(t *testing.T) {
		const d, n = 2, 40000
		x, theta := points(d, 6)
		data := model.Summarise(x)
		mean, sd := []float64{0.3, -0.4}, []float64{0.5, 0.8}
		exact := methodELBO(model.NewMeanField(data), func(params []*model.Param) {
			setTheta(theta)(params)
			copy(params[2].Value.Data, mean)
			copy(params[3].Value.Data, hvaetest.Apply(sd, math.Log))
		}, 1, 0)[0]
		rng := hvae.Stream(29, "mean field")
		sampled := make([]float64, n)
		for i := range sampled {
			for j := range d {
				epsilon := rng.NormFloat64()
				z := mean[j] + sd[j]*epsilon
				logQ := -epsilon*epsilon/2 - math.Log(sd[j]*math.Sqrt(2*math.Pi))
				sampled[i] += logJointOfPoints(x.Row(j), theta.Delta[j], theta.Sigma[j], z) - logQ
			}
		}
		if m, se := hvaetest.MeanSE(sampled); !(math.Abs(m-exact)/se <= hvaetest.ZBound) || se > 0.05 {
			t.Errorf("the bound is %.4f, its estimate %.4f ± %.4f", exact, m, se)
		}
	})

	t.Run("VB: what the bound loses is the divergence from the posterior", func(t *testing.T) {
		// log p(D) − ELBO = KL(q ‖ p(z|D)), which is zero only at the posterior itself.
		x, theta := points(3, 6)
		data := model.Summarise(x)
		mean, variance := data.Posterior(theta)
		for _, q := range []struct{ away, scale float64 }{{0, 1}, {0.2, 1}, {0, 1.7}, {-0.3, 0.4}} {
			elbo := methodELBO(model.NewMeanField(data), func(params []*model.Param) {
				setTheta(theta)(params)
				copy(params[2].Value.Data, hvaetest.Apply(mean, func(m float64) float64 { return m + q.away }))
				copy(params[3].Value.Data, hvaetest.Apply(variance, func(v float64) float64 { return math.Log(q.scale) + math.Log(v)/2 }))
			}, 1, 0)[0]
			gap := 0.0
			for _, v := range variance {
				gap += (q.scale*q.scale + q.away*q.away/v - 1 - 2*math.Log(q.scale)) / 2
			}
			if got := data.LogEvidence(theta) - elbo; !(math.Abs(got-gap) <= 1e-11) {
				t.Errorf("%v from the posterior's mean and %v times as wide the gap is %v, want %v", q.away, q.scale, got, gap)
			}
		}
	})

	t.Run("planar flow: Rezende and Mohamed's eqs. 10 to 12 and appendix A.1, layer by layer", planarLayers)

	t.Run("planar flow: Rezende and Mohamed's eqs. 11 and 12, the log determinant", func(t *testing.T) {
		for _, d := range []int{1, 2, 4} {
			for _, K := range []int{1, 3} {
				for seed := range 5 {
					u, w, b := planarParams(d, seed)
					flow := func(s []float64) (z []float64, logDet float64) {
						var tp tape
						zK, l := model.PlanarFlow(tp.Const(linalg.Column(s...)), tp.Const(u), tp.Const(w), tp.Const(b), K)
						return append([]float64{}, zK.Value.Data...), l.Scalar()
					}
					z0 := phasePoint[:d]
					det := hvaetest.Determinant(hvaetest.Jacobian(func(s []float64) []float64 { z, _ := flow(s); return z }, z0))
					if _, logDet := flow(z0); !(math.Abs(logDet-math.Log(det)) <= 1e-6) {
						t.Errorf("d = %d, K = %d: log det %v, numerically %v", d, K, logDet, math.Log(det))
					}
				}
			}
		}
	})

	t.Run("planar flow: Rezende and Mohamed's eq. 13, the density", func(t *testing.T) {
		// q_K(y) = q⁰(z)/|dy/dz| on a grid of y, where z solves f(z) = y by bisection:
		// layers with admissible û are increasing.
		const n, edge = 20000, 15.0
		for seed := range 4 {
			u, w, b := planarParams(1, seed)
			var tp tape
			flow := func(z matrix) (y, logDet []float64) {
				tp.Reset()
				v, l := model.PlanarFlow(tp.Const(z), tp.Const(u), tp.Const(w), tp.Const(b), 2)
				return v.Value.Data, l.Value.Data
			}
			z := linalg.New[float64](1, n+1)
			for width := 20.0; width > 1e-13; width /= 2 {
				y, _ := flow(z)
				for i := range y {
					if y[i] < -edge+2*edge*float64(i)/n {
						z.Data[i] += width
					} else {
						z.Data[i] -= width
					}
				}
			}
			_, logDet := flow(z)
			total := 0.0
			for i, v := range z.Data {
				total += math.Exp(-v*v/2-logDet[i]) / math.Sqrt(2*math.Pi) * 2 * edge / n
			}
			if !(math.Abs(total-1) <= 1e-5) {
				t.Errorf("seed %d: q_K integrates to %v", seed, total)
			}
		}
	})

	t.Run("planar flow: the bound is that of an unbiased estimate", func(t *testing.T) {
		// E[exp(log p(D, z_K) − log q_K(z_K))] = p(D). It is not without the factor ½ of
		// the data term, which the authors' code forgets.
		for _, K := range []int{1, 4, 30} {
			x, theta := points(2, 3)
			data := model.Summarise(x)
			p := model.NewPlanar(data, K, hvae.Stream(27, "planar"))
			log := methodELBO(p, func(params []*model.Param) {
				setTheta(theta)(params)
				// A gentle flow, for a small variance: wᵀû = softplus(wᵀu) − 1 = 0.6/K.
				wu := math.Log(math.Expm1(1 + 0.6/float64(K)))
				copy(params[2].Value.Data, []float64{wu, 0.3 / float64(K)})
				copy(params[3].Value.Data, []float64{1, 0})
			}, 60000, 28)
			logEvidence := data.LogEvidence(theta)
			mean, se := hvaetest.MeanSE(hvaetest.Apply(log, func(l float64) float64 { return math.Exp(l - logEvidence) }))
			if !(math.Abs(mean-1)/se <= hvaetest.ZBound) || se > 0.03 {
				t.Errorf("K = %d: E[p̂]/p = %.4f ± %.4f", K, mean, se)
			}
		}
	})

	t.Run("the true Δ and σ", func(t *testing.T) {
		got := model.Truth(5)
		want := model.Theta{Delta: []float64{-0.4, -0.2, 0, 0.2, 0.4}, Sigma: []float64{1, 0.325, 0.1, 0.325, 1}}
		if d := hvaetest.Distance(got.Delta, want.Delta) + hvaetest.Distance(got.Sigma, want.Sigma); !(d <= 1e-14) {
			t.Error(cmp.Diff(want, got))
		}
		for _, d := range []int{1, 2, 11, 50, 301} {
			truth := model.Truth(d)
			if !(math.Abs(truth.Sigma[0]-1) <= 1e-14) || !(math.Abs(truth.Sigma[d-1]-1) <= 1e-14) || !(math.Abs(truth.Delta[d-1]-float64(d-1)/10) <= 1e-12) {
				t.Errorf("d = %d: ends are σ = %v, %v and Δ = %v", d, truth.Sigma[0], truth.Sigma[d-1], truth.Delta[d-1])
			}
		}
	})

	t.Run("N = 10⁴ points, ten datasets, learning rate 10⁻³, ε in (0, ξ)", gaussianHyperParameters)

	t.Run("RMSProp", rmsProp)

	t.Run("figure 1a is not computed here", func(t *testing.T) {
		t.Skip("a command of minutes: go run ./gaussian -d 1,2,3,5,11,25,51,101,201,301")
	})

	t.Run("figure 1b, for d = 2 and N = 1000: tempered methods perform better", func(t *testing.T) {
		// On every dataset, small here, the error in σ without tempering is ten times
		// that with it, and larger for K = 10 than for K = 1; with tempering the bound is
		// tighter, and Δ̂ is the maximum-likelihood estimate but for the optimiser's noise.
		c := model.Config{Points: 1000, Iterations: 6000, Draws: 10, Rate: 2e-3, Seed: 1}
		for dataset := range 2 {
			results := map[string]model.Outcome{}
			for _, name := range []string{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10"} {
				o, err := c.Train(t.Context(), model.Run{Dims: 2, Method: name, Dataset: dataset}, func(int) {})
				if err != nil {
					t.Fatal(err)
				}
				results[name] = o
			}
			best := c.Dataset(2, dataset).MaximumLikelihood()
			for _, K := range []string{"k1", "k10"} {
				with, without := results["hvae-"+K], results["hvae-notemp-"+K]
				if !(10*with.SigmaErr < without.SigmaErr) {
					t.Errorf("dataset %d, %s: σ error %.2g with tempering, %.2g without", dataset, K, with.SigmaErr, without.SigmaErr)
				}
				if !(with.ELBO > without.ELBO) {
					t.Errorf("dataset %d, %s: ELBO %.1f with tempering, %.1f without", dataset, K, with.ELBO, without.ELBO)
				}
				if d := hvaetest.Distance(with.Theta.Delta, best.Delta); !(d <= 0.1) {
					t.Errorf("dataset %d, %s: Δ̂ is %.2g from the maximum-likelihood estimate", dataset, K, d)
				}
			}
			if k1, k10 := results["hvae-notemp-k1"].SigmaErr, results["hvae-notemp-k10"].SigmaErr; !(k1 < k10) {
				t.Errorf("dataset %d: untempered σ error %.2g for K = 1, %.2g for K = 10", dataset, k1, k10)
			}
		}
	})
}

// gaussianHyperParameters checks the defaults of the command's flags: "all experiments have
// N = 10,000", "we train each method ten times on different datasets", "a learning rate of
// 10⁻³"; iterations and draws are the authors' code's. ε_j = ξ·sigmoid(·) is in (0, ξ), ξ = ½,
// and takes every value there.
func gaussianHyperParameters(t *testing.T) {
	got := defaults(t, "./gaussian")
	for name, want := range map[string]string{"n": "10000", "datasets": "10", "lr": "0.001", "iters": "30000", "batch": "10"} {
		if got[name] != want {
			t.Errorf("gaussian has -%s %q without flags, want %s", name, got[name], want)
		}
	}
	var tp tape
	const xi = 0.5
	last := 0.0
	for logit := -30.0; logit <= 30; logit++ {
		epsilon := hvae.Constrain(tp.Scalar(logit), 0, xi).Scalar()
		if want := xi / (1 + math.Exp(-logit)); !(hvaetest.Relative(epsilon, want) <= 1e-12) || !(epsilon > last && epsilon < xi) {
			t.Errorf("the logit %v gives ε = %v, want %v, between %v and %v", logit, epsilon, want, last, xi)
		}
		last = epsilon
	}
	if !(last > 0.999*xi) {
		t.Errorf("ε ends at %v, far from ξ = %v", last, xi)
	}
}

// rmsProp checks TensorFlow 1's form of Tieleman and Hinton's lecture 6.5,
//
//	v ← v + (1 − 0.9)(g² − v),   θ ← θ + rate·g/√(v + 10⁻¹⁰),
//
// with v = 1 before the first step: "all training was done using RMSProp".
func rmsProp(t *testing.T) {
	gradients := []float64{1e-5, 3, -1, 0, 100} // the first is of the size of √10⁻¹⁰
	o := hvae.NewRMSProp(0.01)
	if start := o.Start(); !slices.Equal(start, []float64{1}) {
		t.Errorf("the mean square starts at %v, want 1 as in TensorFlow 1", start)
	}
	p, averages := []float64{1}, [][]float64{{1}}
	want, v := 1.0, 1.0
	for i, g := range gradients {
		o.Ascend(i+1, p, []float64{g}, averages)
		v += (g*g - v) * (1 - 0.9)
		want += 0.01 * g / math.Sqrt(v+1e-10)
		if !(math.Abs(p[0]-want) <= 1e-12) {
			t.Errorf("after gradient %v θ = %v, want %v", g, p[0], want)
		}
	}
}

// logJointOfPoints is log p_θ(D, z) as the paper sums it, in one dimension.
func logJointOfPoints(x []float64, delta, sigma, z float64) float64 {
	logNormal := func(x, sd float64) float64 {
		return -x*x/(2*sd*sd) - math.Log(sd*math.Sqrt(2*math.Pi))
	}
	sum := logNormal(z, 1)
	for _, v := range x {
		sum += logNormal(v-z-delta, sigma)
	}
	return sum
}

// methodELBO returns draws of a method's ELBO on a dataset with its parameters set.
func methodELBO(m model.Method, set func(params []*model.Param), n int, seed uint64) []float64 {
	set(m.Params())
	var t tape
	leaves := make([]variable, len(m.Params()))
	for i, p := range m.Params() {
		leaves[i] = t.Leaf(p.Value)
	}
	return m.ELBO(leaves, hvae.Noise(&t, hvae.Stream(seed, "elbo"), m.NoiseRows(), n)).Value.Data
}

// setTheta returns a function that sets Δ and log σ.
func setTheta(theta model.Theta) func(params []*model.Param) {
	return func(params []*model.Param) {
		copy(params[0].Value.Data, theta.Delta)
		copy(params[1].Value.Data, hvaetest.Apply(theta.Sigma, math.Log))
	}
}

// affine is a constant and the factors of z₀ and γ₀.
type affine [3]float64

// affineFlow follows the flow of the Gaussian model by hand in dimension j, where it is
// affine in z₀ and γ₀: z_K = m + a·z₀ + b·γ₀, and ρ_K likewise. hot is 1/√β₀, 1 without
// tempering.
func affineFlow(data model.Data, theta model.Theta, j, K int, epsilon, hot float64) (z, rho affine) {
	addScaled := func(a affine, s float64, b affine) affine {
		return affine{a[0] + s*b[0], a[1] + s*b[1], a[2] + s*b[2]}
	}
	r := func(k int) float64 { return (1-hot)*float64(k*k)/float64(K*K) + hot } // 1/√β_k
	w := float64(data.N) / (theta.Sigma[j] * theta.Sigma[j])
	grad := func(z affine) affine { // z + w(z + Δ − x̄)
		g := affine{(1 + w) * z[0], (1 + w) * z[1], (1 + w) * z[2]}
		g[0] += w * (theta.Delta[j] - data.Mean[j])
		return g
	}
	z, rho = affine{0, 1, 0}, affine{0, 0, r(0)}
	for k := 1; k <= K; k++ {
		rho = addScaled(rho, -epsilon/2, grad(z))
		z = addScaled(z, epsilon, rho)
		rho = addScaled(rho, -epsilon/2, grad(z))
		for i := range rho {
			rho[i] *= r(k) / r(k-1)
		}
	}
	return z, rho
}

// affineELBO returns E[log p(D, z_K) − ½ρ_K² − log q⁰(z₀)] + ½ in dimension j of the
// Gaussian model, with z₀ and γ₀ standard normal.
func affineELBO(data model.Data, theta model.Theta, j, K int, epsilon, hot float64) float64 {
	z, rho := affineFlow(data, theta, j, K, epsilon, hot)
	w := float64(data.N) / (theta.Sigma[j] * theta.Sigma[j])
	square := func(a affine) float64 { return a[0]*a[0] + a[1]*a[1] + a[2]*a[2] }
	misfit := z
	misfit[0] += theta.Delta[j] - data.Mean[j]
	n, v := float64(data.N), theta.Sigma[j]*theta.Sigma[j]
	joint := -n/2*math.Log(2*math.Pi*v) - data.Scatter[j]/(2*v) - w/2*square(misfit) - square(z)/2 - math.Log(2*math.Pi)/2
	prior := -0.5 - math.Log(2*math.Pi)/2
	return joint - square(rho)/2 - prior + 0.5
}

// planarLayers checks a planar flow of K layers with shared parameters, by hand,
//
//	z_k = z_{k−1} + û tanh(wᵀz_{k−1} + b),   û = u + (m(wᵀu) − wᵀu) w/‖w‖²,   m(x) = log(1 + eˣ) − 1,
//	log |det ∂z_K/∂z₀| = Σ_k log |1 + wᵀû (1 − tanh²(wᵀz_{k−1} + b))|.
func planarLayers(t *testing.T) {
	const d = 3
	for _, K := range []int{1, 2, 3, 4, 7, 30} {
		u, w, b := planarParams(d, 1)
		wu, ww := 0.0, 0.0
		for j := range d {
			wu += w.Data[j] * u.Data[j]
			ww += w.Data[j] * w.Data[j]
		}
		m := math.Log1p(math.Exp(wu)) - 1
		want, wantDet := append([]float64{}, phasePoint[:d]...), 0.0
		for range K {
			a := b.Data[0]
			for j := range d {
				a += w.Data[j] * want[j]
			}
			h := math.Tanh(a)
			wantDet += math.Log(math.Abs(1 + m*(1-h*h)))
			for j := range d {
				want[j] += (u.Data[j] + (m-wu)*w.Data[j]/ww) * h
			}
		}
		var tp tape
		z, logDet := model.PlanarFlow(tp.Const(linalg.Column(phasePoint[:d]...)), tp.Const(u), tp.Const(w), tp.Const(b), K)
		if e := hvaetest.Distance(z.Value.Data, want); !(e <= 1e-12) || !(math.Abs(logDet.Scalar()-wantDet) <= 1e-12) {
			t.Errorf("%d layers end at %v with log det %v, want %v and %v", K, z.Value.Data, logDet.Scalar(), want, wantDet)
		}
	}
}

// planarParams returns u, w and b with ‖w‖ = 1.5 and wᵀu = −1.5: u itself would not
// give an invertible layer.
func planarParams(d int, seed int) (u, w, b matrix) {
	rng := hvae.Stream(31, "planar", d, seed)
	u, w = linalg.New[float64](d, 1), linalg.New[float64](d, 1)
	hvae.FillNormal(rng, w)
	hvae.FillNormal(rng, u)
	linalg.Scale(w, 1.5/hvaetest.Norm(w.Data), w)
	wu := linalg.New[float64](1, 1)
	linalg.MulSum(wu, w, u)
	linalg.MulAdd(u, linalg.Column(-(wu.Data[0]+1.5)/(1.5*1.5)), w, u)
	return u, w, linalg.Column(rng.NormFloat64())
}

func section52(t *testing.T) {
	t.Run("x|z are Bernoulli pixels", func(t *testing.T) {
		var tp tape
		x := tp.Const(linalg.Column(1.0, 0, 1, 0, 1, 0, 1, 0))
		a := tp.Const(linalg.Column(0.3, 0.3, -4, -4, 900, 900, -900, -900))
		want := 0.0
		for i, logit := range a.Value.Data[:4] {
			pi := 1 / (1 + math.Exp(-logit))
			want += x.Value.Data[i]*math.Log(pi) + (1-x.Value.Data[i])*math.Log(1-pi)
		}
		want += 0 - 900 - 900 + 0 // probabilities so near 0 and 1 that no float64 holds them
		if got := mnist.LogBernoulli(x, a).Scalar(); !(hvaetest.Relative(got, want) <= 1e-14) {
			t.Errorf("log p(x|z) = %v, want %v", got, want)
		}
	})

	t.Run("the inference and the generative network", func(t *testing.T) {
		d := newDigits(mnist.Config{Kind: "vae", Tempering: "none", Latent: 3}, 1)
		for _, p := range d.params { // biases too must be seen
			if len(p.Shape) == 1 {
				hvae.FillNormal(hvae.Stream(2, p.Name), p.Value)
			}
		}
		var tp tape
		n, _ := d.bind(&tp, false)
		x := image(&tp, 2, 3)
		z := hvae.Noise(&tp, hvae.Stream(3, "z"), 3, 2)
		mean, std := n.Encode(x)
		logits := n.Decode(z)
		column := func(v variable, j int) (c []float64) {
			for i := range v.Rows() {
				c = append(c, v.Value.At(i, j))
			}
			return c
		}
		for j := range 2 {
			wantMean, wantStd := d.encodeByHand(column(x, j))
			for name, pair := range map[string][2][]float64{
				"mean": {column(mean, j), wantMean}, "std": {column(std, j), wantStd}, "logits": {column(logits, j), d.decodeByHand(column(z, j))},
			} {
				if e := hvaetest.Distance(pair[0], pair[1]) / hvaetest.Norm(pair[1]); !(e <= 1e-12) {
					t.Errorf("%s of column %d is off by %.1e", name, j, e)
				}
			}
		}
	})

	t.Run("HVAE on top of the VAE: with K = 0 it is the VAE", func(t *testing.T) {
		vae := newDigits(mnist.Config{Kind: "vae", Tempering: "none", Latent: 2}, 9)
		none := newDigits(mnist.Config{Kind: "hvae", Tempering: "none", Latent: 2}, 9)
		var tp tape
		a, _ := vae.bind(&tp, false)
		b, _ := none.bind(&tp, false)
		const draws = 100
		x := image(&tp, 1, 10)
		rng := hvae.Stream(11, "without steps")
		epsilon, gamma0 := hvae.Noise(&tp, rng, 2, draws), hvae.Noise(&tp, rng, 2, draws)
		mean, std := a.Encode(x)
		la, lb := a.LogEstimates(x, mean, std, epsilon, gamma0).Value.Data, b.LogEstimates(x, mean, std, epsilon, gamma0).Value.Data
		if d := hvaetest.Distance(la, lb); !(d <= 1e-11*hvaetest.Norm(la)) {
			t.Errorf("log p̂ differs by %.1e", d)
		}
		// The bounds take expectations of different terms, and agree in mean.
		many := ad.BroadcastTo(x, 784, draws)
		mean1, se := hvaetest.MeanSE(hvaetest.Differences(a.ELBO(many, epsilon, gamma0).Value.Data, b.ELBO(many, epsilon, gamma0).Value.Data))
		if !(math.Abs(mean1)/se <= hvaetest.ZBound) || se > 0.2 {
			t.Errorf("the bounds differ by %.3f ± %.3f", mean1, se)
		}
	})

	t.Run("z_0 = μ + Σ^½·ε, and the VAE's bound", func(t *testing.T) {
		// log p(x|z₀) less the divergence of N(μ, σ²) from the prior, by quadrature.
		d := newDigits(mnist.Config{Kind: "vae", Tempering: "none", Latent: 2}, 4)
		var tp tape
		n, _ := d.bind(&tp, false)
		x, epsilon := image(&tp, 1, 5), tp.Const(linalg.Column(0.7, -1.1))
		got := n.ELBO(x, epsilon, epsilon).Scalar()
		mean, std := d.encodeByHand(x.Value.Data)
		z, divergence := make([]float64, 2), 0.0
		for j := range z {
			z[j] = mean[j] + std[j]*epsilon.Value.Data[j]
			logQ := func(v float64) float64 {
				return -(v-mean[j])*(v-mean[j])/(2*std[j]*std[j]) - math.Log(std[j]*math.Sqrt(2*math.Pi))
			}
			divergence += hvaetest.Integrate(func(v float64) float64 {
				return math.Exp(logQ(v)) * (logQ(v) + v*v/2 + math.Log(2*math.Pi)/2)
			}, mean[j]-12*std[j], mean[j]+12*std[j], 2000)
		}
		want := -divergence
		for i, a := range d.decodeByHand(z) {
			want += x.Value.Data[i]*a - softplusAt(a)
		}
		if !(hvaetest.Relative(got, want) <= 1e-12) {
			t.Errorf("ELBO = %.12f, want %.12f", got, want)
		}
	})

	t.Run("gradients in θ and φ", func(t *testing.T) {
		// Along a random direction in each tensor, in all of them at once, and one by one
		// only to say which is wrong.
		for _, c := range mnistSchemes(2) {
			d := newDigits(c, 12)
			var tp tape
			value := func(train bool) (variable, []variable) {
				tp.Reset()
				n, leaves := d.bind(&tp, train)
				rng := hvae.Stream(13, "common random numbers")
				return n.ELBO(image(&tp, 1, 14), hvae.Noise(&tp, rng, 2, 1), hvae.Noise(&tp, rng, 2, 1)), leaves
			}
			elbo, leaves := value(true)
			gradients := ad.Backward(elbo, leaves...)
			slopes, directions := make([]float64, len(leaves)), make([]matrix, len(leaves))
			for i, p := range d.params {
				v := linalg.New[float64](p.Value.Rows, p.Value.Cols)
				hvae.FillNormal(hvae.Stream(15, p.Name), v)
				linalg.Scale(v, 1/hvaetest.Norm(v.Data), v)
				dot := linalg.New[float64](1, 1)
				linalg.MulSum(dot, v, gradients[i])
				slopes[i], directions[i] = dot.Data[0], v
			}
			// off says by how much the slopes along directions lo to hi−1, together, are off.
			off := func(lo, hi int) (got, want, off float64) {
				for _, s := range slopes[lo:hi] {
					got += s
				}
				saved := mnist.CloneParams(d.params)
				want = hvaetest.Slope(func(h float64) float64 {
					for i := lo; i < hi; i++ {
						linalg.MulAdd(d.params[i].Value, linalg.Column(h), directions[i], saved[i].Value)
					}
					e, _ := value(false)
					return e.Scalar()
				}, 1e-2) // a unit vector in a large tensor moves each weight little
				for i := lo; i < hi; i++ {
					copy(d.params[i].Value.Data, saved[i].Value.Data)
				}
				return got, want, math.Abs(got-want) / max(math.Abs(want), 1e-2)
			}
			got, want, e := off(0, len(slopes))
			if e <= 2e-9 { // the slopes along most tensors are small
				continue
			}
			t.Errorf("%v: the slope is %.9g, differences say %.9g", c, got, want)
			for i, p := range d.params {
				if got, want, e := off(i, i+1); !(e <= 1e-7) {
					t.Errorf("%v: slope along %s is %.9g, differences say %.9g", c, p.Name, got, want)
				}
			}
		}
	})

	t.Run("stochastic binarisation", stochasticBinarisation)
	t.Run("Adamax", adamax)
	t.Run("early stopping", earlyStopping)
	t.Run("ℓ = 64, learning rate 10⁻³, patience 100, 1000 importance samples, three estimates", mnistHyperParameters)

	t.Run("NLL from importance samples", func(t *testing.T) {
		// With ℓ = 1 the evidence is an integral along a line, in float64; the estimates are
		// drawn as the commands do, in float32. Every model has the same decoder; half of
		// the flows are in step sizes that are not the start's.
		const grid, draws = 200, 600
		d := newDigits(mnist.Config{Kind: "vae", Tempering: "none", Latent: 1}, 6)
		var double tape
		n, _ := d.bind(&double, false)
		z := linalg.New[float64](1, grid+1)
		for j := range z.Data {
			z.Data[j] = -8 + 16*float64(j)/grid
		}
		logJoint := n.Flow(image(&double, 1, 7)).Target.LogJoint(double.Const(z)).Value.Data
		logEvidence := linalg.LogSumExp(logJoint) + math.Log(16./grid)
		spread := logJoint[120] - logJoint[80] + 0.5*(z.Data[120]*z.Data[120]-z.Data[80]*z.Data[80])
		if math.Abs(spread) < 0.1 {
			t.Fatalf("log p(x|z) changes by %.3f only: the latent variable does not matter", spread)
		}
		for _, c := range mnistSchemes(1) {
			params := digitParams[float32](c, 6)
			for _, p := range params {
				if p.Name == "flow.step_size_logit" {
					for k := range p.Value.Data {
						p.Value.Data[k] += 0.5 * float32(k)
					}
				}
			}
			var tp ad.Tape[float32]
			rng := hvae.Stream(8, c.String())
			var logs []float64
			for len(logs) < draws {
				const some = 50
				tp.Reset()
				n, _ := mnist.NewNetwork(&tp, c, params, false)
				x := image(&tp, 1, 7)
				mean, std := n.Encode(x)
				for _, l := range n.LogEstimates(x, mean, std, hvae.Noise(&tp, rng, 1, some), hvae.Noise(&tp, rng, 1, some)).Value.Data {
					logs = append(logs, float64(l))
				}
			}
			ratio := hvaetest.Apply(logs, func(l float64) float64 { return math.Exp(l - logEvidence) })
			if m, se := hvaetest.MeanSE(ratio); !(math.Abs(m-1)/se <= hvaetest.ZBound) || se > 0.05 {
				t.Errorf("%v: E[p̂]/p = %.4f ± %.4f", c, m, se)
			}

			// The estimates from L draws grow with L towards log p(x), and do not pass it.
			var last []float64
			for _, L := range []int{1, 5, 25} {
				var estimates []float64
				for lo := 0; lo < draws; lo += 25 {
					sum := 0.0
					for b := lo; b < lo+25; b += L {
						e := hvae.ImportanceEstimate(logs[b : b+L]).Log
						sum += e * float64(L) / 25
					}
					estimates = append(estimates, sum)
				}
				if m, se := hvaetest.MeanSE(estimates); !((m-logEvidence)/se <= hvaetest.ZBound) {
					t.Errorf("%v, L = %d: %.4f ± %.4f is above log p(x) = %.4f", c, L, m, se, logEvidence)
				}
				if last != nil {
					if m, _ := hvaetest.MeanSE(hvaetest.Differences(estimates, last)); m <= 0 {
						t.Errorf("%v: the estimate from %d draws is below that from fewer by %.4f", c, L, -m)
					}
				}
				last = estimates
			}
		}
	})

	t.Run("how far that is from log p(x): bounds by annealed importance sampling, section 2.2", annealedBounds)
	t.Run("samples from the HVAE's approximate posterior have covariance across dimensions", covarianceAcrossDimensions)
	t.Run("the standard deviation over three estimates is no larger than 0.12 nats, as published", publishedDeviations)
	t.Run("table 1, tab:mnist_nll, as published, is the mean of the supplement's runs", publishedTable)
	t.Run("table 1 says: free tempering, varied ε and K = 15 are best", publishedFindings)

	t.Run("table 1, tab:mnist_nll, obtained", func(t *testing.T) {
		t.Skip("a thousand epochs of each model: go run ./mnist table -out DIR")
	})
}

// stochasticBinarisation checks x_j ~ Bernoulli(grey_j/255), independently: "the standard
// stochastic binarization of MNIST as training data".
func stochasticBinarisation(t *testing.T) {
	const draws = 20000
	image := make([]byte, 784)
	values := []byte{0, 1, 17, 128, 128, 254, 255}
	copy(image[200:], values)
	x := linalg.New[float32](784, 2)
	counts := make([]float64, len(values))
	both := 0.0 // pixels 3 and 4
	var k hvae.Keyed
	for n := range draws {
		data.Binarise(x, 1, image, k.Reset(1, "binarisation", n))
		for i := range values {
			v := x.At(200+i, 1)
			if v != 0 && v != 1 || x.At(200+i, 0) != 0 {
				t.Fatalf("a pixel is %v, beside it %v", v, x.At(200+i, 0))
			}
			counts[i] += float64(v)
		}
		both += float64(x.At(203, 1) * x.At(204, 1))
	}
	check := func(what string, count, p float64) {
		if sd := math.Sqrt(draws * p * (1 - p)); !(math.Abs(count-draws*p) <= hvaetest.ZBound*sd) {
			t.Errorf("%s: ink %v times of %d, want %.0f ± %.0f", what, count, draws, draws*p, sd)
		}
	}
	for i, v := range values {
		check(fmt.Sprintf("grey %d", v), counts[i], float64(v)/255)
	}
	check("two pixels of grey 128", both, 128./255*128/255)
}

// adamax checks algorithm 2 of Kingma and Ba,
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   θ ← θ + rate/(1 − β₁ᵗ)·m/u,
//
// "we train using Adamax".
func adamax(t *testing.T) {
	gradients := []float64{3, -1, 0.5, 0, -7}
	o := hvae.NewAdamax(0.002)
	o.Epsilon = 0
	if start := o.Start(); !slices.Equal(start, []float64{0, 0}) {
		t.Errorf("m and u start at %v, want 0", start)
	}
	p, averages := []float64{1}, [][]float64{{0}, {0}}
	want, m, u := 1.0, 0.0, 0.0
	for i, g := range gradients {
		o.Ascend(i+1, p, []float64{g}, averages)
		m = 0.9*m + 0.1*g
		u = math.Max(0.999*u, math.Abs(g))
		want += 0.002 / (1 - math.Pow(0.9, float64(i+1))) * m / u
		if !(math.Abs(p[0]-want) <= 1e-12) {
			t.Errorf("step %d: θ = %v, want %v", i+1, p[0], want)
		}
	}
}

// program runs the command in a folder and returns what it prints. It reads the command's
// sources, so that a cached result of this test is not used after they have changed.
func program(t *testing.T, folder string, args ...string) string {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		if _, err := os.Stat(name); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", append([]string{"run", folder}, args...)...).Output()
	if err != nil {
		t.Fatalf("go run %s %s: %v", folder, strings.Join(args, " "), err)
	}
	return string(out)
}

// earlyStopping checks "early stopping by halting the training procedure if there is no
// improvement in the loss on validation data over 100 epochs", with 2 epochs instead of 100:
// the run must end after the first epoch that comes 2 after the best. A learning rate of
// nearly zero makes that soon.
func earlyStopping(t *testing.T) {
	const patience, most = 2, 60
	out := t.TempDir()
	program(t, "./mnist", "train", "-data", "synthetic", "-latent", "1", "-train", "10", "-batch", "10", "-lr", "1e-30",
		"-patience", fmt.Sprint(patience), "-epochs", fmt.Sprint(most), "-out", out)
	b, err := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	best, ends, epochs := math.Inf(-1), most, 0
	for line := range strings.Lines(string(b)) {
		var epoch struct {
			Loss float64 `json:"val_elbo"`
		}
		if err := json.Unmarshal([]byte(line), &epoch); err != nil {
			t.Fatal(err)
		}
		if epochs++; epochs > ends {
			t.Fatalf("epoch %d was trained, though there was no improvement for %d epochs", epochs, patience)
		}
		if epoch.Loss > best {
			best, ends = epoch.Loss, epochs+patience
		}
	}
	if epochs != ends || epochs == most {
		t.Errorf("the run ended after epoch %d, want epoch %d", epochs, ends)
	}
}

// defaults returns the default values of a command's flags, from its help.
func defaults(t *testing.T, folder string, args ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	flag := regexp.MustCompile(`(?m)^  -(\S+).*\n(?:    \t.*\n)*?    \t.*\(default (\S+)\)$`)
	for _, m := range flag.FindAllStringSubmatch(program(t, folder, append(args, "-h")...), -1) {
		all[m[1]] = m[2]
	}
	return all
}

// mnistHyperParameters checks the defaults of the commands' flags: "ℓ = 64", "Adamax with
// learning rate 10⁻³", "no improvement over 100 epochs", "1000 importance samples", "we
// estimate NLL three times". Batches of 100 and at most 2000 epochs are the authors' code's.
func mnistHyperParameters(t *testing.T) {
	for command, want := range map[string]map[string]string{
		"train": {"latent": "64", "lr": "0.001", "patience": "100", "batch": "100", "epochs": "2000"},
		"eval":  {"samples": "1000", "runs": "3"},
		"table": {"patience": "100", "epochs": "2000", "samples": "1000", "runs": "3"},
	} {
		got := defaults(t, "./mnist", command)
		for name, value := range want {
			if got[name] != value {
				t.Errorf("mnist %s has -%s %q without flags, want %s", command, name, got[name], value)
			}
		}
	}
}

// annealedBounds checks E[log p̂] ≤ log p(x) ≤ −E[log 1/p̂] for images that the model draws,
// where p(x) is an integral along a line (ℓ = 1). The 64 chains are more than share a tape.
func annealedBounds(t *testing.T) {
	const images, grid, tight = 4, 200, 0.25 // nats, for what the bounds lose and for chance
	d := newDigits(mnist.Config{Kind: "vae", Tempering: "none", Latent: 1}, 6)
	params := digitParams[float32](d.config, 6)
	stream := func(purpose string) func(image int) *rand.Rand {
		return func(image int) *rand.Rand { return hvae.Stream(60, purpose, image) }
	}
	x, z, err := mnist.Simulate(t.Context(), d.config, params, images, stream("images"))
	if err != nil {
		t.Fatal(err)
	}
	a := mnist.Annealing{Steps: 32, Chains: 16}
	if err := a.Tune(t.Context(), d.config, params, x, stream("tuning")); err != nil {
		t.Fatal(err)
	}
	bound := func(z linalg.Matrix[float32]) []float64 {
		noise := func(image, chain int) *rand.Rand { return hvae.Stream(61, "chain", image, chain, z.Cols) }
		bounds, _, err := a.Bound(t.Context(), d.config, params, x, z, noise, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		return bounds
	}
	lower, upper := bound(linalg.Matrix[float32]{}), bound(z)
	var tp tape
	n, _ := d.bind(&tp, false)
	line := tp.Matrix(1, grid+1)
	for j := range line.Data {
		line.Data[j] = 16*float64(j)/grid - 8
	}
	for i := range images {
		column := tp.Matrix(784, 1)
		for j := range column.Data {
			column.Data[j] = float64(x.At(j, i))
		}
		exact := linalg.LogSumExp(n.Flow(tp.Const(column)).Target.LogJoint(tp.Const(line)).Value.Data) + math.Log(16./grid)
		if !(math.Abs(lower[i]-exact) <= tight) || !(math.Abs(upper[i]-exact) <= tight) {
			t.Errorf("image %d: bounds %.3f and %.3f, log p(x) = %.3f", i, lower[i], upper[i], exact)
		}
	}
}

// covarianceAcrossDimensions checks that "samples from the HVAE approximate posterior exhibit
// non-negligible covariance across dimensions", by the mean absolute correlation of two
// dimensions of z_K in 1000 draws for an image, of the checked-in HVAE (K = 5, free tempering,
// varied ε). The dimensions of z₀ are independent: their
// correlation is due to chance alone.
func covarianceAcrossDimensions(t *testing.T) {
	const images, draws = 6, 1000
	c, err := mnist.ReadCheckpoint("mnist/results/hvae30.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	x, _, err := mnist.Simulate(t.Context(), c.Config, c.Params, images, func(image int) *rand.Rand { return hvae.Stream(62, "images", image) })
	if err != nil {
		t.Fatal(err)
	}
	estimates, err := mnist.Evaluate(t.Context(), c.Config, c.Params, images, draws, func(image int, one linalg.Matrix[float32], k *hvae.Keyed) {
		for i := range one.Data {
			one.Data[i] = x.At(i, image)
		}
		k.Reset(62, "noise", image)
	}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	var start, end []float64
	for _, e := range estimates {
		start, end = append(start, e.Z0), append(end, e.ZK)
	}
	chance := mnist.IndependentCorrelation(draws)
	if z := hvaetest.Z(start, chance); !(math.Abs(z) <= hvaetest.ZBound) {
		t.Errorf("dimensions of z₀ are correlated: z = %.1f", z)
	}
	mean, se := hvaetest.MeanSE(end)
	if !(mean-chance > 2*hvaetest.ZBound*se) || !(mean > 1.1*chance) {
		t.Errorf("|correlation| of z_K is %.4f ± %.4f, of independent dimensions %.4f", mean, se, chance)
	}
}

// publishedRuns returns the lines of mnist/table/published.csv: row, seed, epochs, −ELBO and its
// standard deviation over three estimates, NLL and its.
func publishedRuns(t *testing.T) (runs [][]string) {
	t.Helper()
	f, err := os.Open("mnist/table/published.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if runs, err = csv.NewReader(f).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return runs[1:]
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// publishedDeviations checks "the standard deviation over these three estimates is no larger
// than 0.12 nats" for the 57 runs of the supplement, and that these are the paper's: the hash
// is of the CSV blocks in the paper's source, with the names of rows, sorted.
func publishedDeviations(t *testing.T) {
	var lines []string
	largest := 0.0
	for _, r := range publishedRuns(t) {
		lines = append(lines, strings.Join(r, ",")+"\n")
		largest = max(largest, number(t, r[6]))
	}
	if largest != 0.12 {
		t.Errorf("the largest standard deviation of NLL is %v, want 0.12", largest)
	}
	slices.Sort(lines)
	const paper = "531a12d9f2168001342ad05cef9c2e7974a3c8b60313111fbb8f81148d4ffb96"
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, "")))); len(lines) != 57 || sum != paper {
		t.Errorf("%d runs with the hash %s, the paper has 57 with %s", len(lines), sum, paper)
	}
}

// table1 is the paper's table 1: NLL for K = 1, 5, 10, 15, 20 with free, fixed and no
// tempering, with one ε for all steps and then with an ε for each; 0 where it has no entry.
var table1 = map[int][6]float64{
	1:  {0, 83.32, 83.17, 0, 0, 0},
	5:  {83.09, 83.26, 83.68, 83.01, 82.94, 83.35},
	10: {82.97, 83.26, 83.40, 82.62, 82.87, 83.25},
	15: {82.78, 83.56, 83.82, 82.62, 83.09, 82.94},
	20: {82.93, 83.18, 83.33, 82.83, 82.85, 82.93},
}

// publishedTable checks "we report the average NLL values over either two or three different
// initializations", and "the base VAE achieves an NLL of 83.20".
func publishedTable(t *testing.T) {
	want := map[string]float64{"vae": 83.20}
	for K, row := range table1 {
		for i, nll := range row {
			eps := []string{"-shared", "-varied"}[i/3]
			if K == 1 {
				eps = ""
			}
			if nll > 0 {
				want[fmt.Sprintf("hvae-k%d-%s%s", K, []string{"free", "fixed", "none"}[i%3], eps)] = nll
			}
		}
	}
	cells := map[string][]float64{}
	for _, r := range publishedRuns(t) {
		cells[r[0]] = append(cells[r[0]], number(t, r[5]))
	}
	if len(cells) != len(want) {
		t.Errorf("runs of %d cells, want %d", len(cells), len(want))
	}
	for cell, nlls := range cells {
		mean := 0.0
		for _, nll := range nlls {
			mean += nll / float64(len(nlls))
		}
		if n := len(nlls); n < 2 || n > 3 || !(math.Abs(mean-want[cell]) <= 0.0051) { // which is rounded
			t.Errorf("%s: %.4f in the mean over %d seeds, the table has %.2f", cell, mean, n, want[cell])
		}
	}
}

// publishedFindings checks the paper's conclusions from its table: "free tempering is the most
// successful tempering scheme" (in the mean over K, and in seven of eight comparisons with
// fixed tempering), "varying the leapfrog step size ε across layers also improves results" (in
// every cell), and "K = 15 provides the best results in free tempering schemes".
func publishedFindings(t *testing.T) {
	var mean [3]float64 // free, fixed, none
	wins := 0
	for K, row := range table1 {
		if K == 1 {
			continue
		}
		for i, nll := range row {
			mean[i%3] += nll / 8
			if i < 3 && !(row[i+3] < nll) {
				t.Errorf("K = %d: NLL %v with varied ε, %v with shared", K, row[i+3], nll)
			}
		}
		for _, i := range []int{0, 3} {
			if row[i] < row[i+1] {
				wins++
			}
			if row[i] < table1[15][i] {
				t.Errorf("free tempering has NLL %v with K = %d, %v with K = 15", row[i], K, table1[15][i])
			}
		}
	}
	if !(mean[0] < mean[1] && mean[1] < mean[2]) || wins != 7 {
		t.Errorf("free, fixed and no tempering have NLL %.3f, free is better than fixed in %d of 8 cells", mean, wins)
	}
}

// digits is a small model at random weights, large enough for the latent variable to
// matter, in float64.
type digits struct {
	config mnist.Config
	params []mnist.Param[float64]
}

func newDigits(c mnist.Config, seed uint64) digits {
	return digits{c, digitParams[float64](c, seed)}
}

func digitParams[T linalg.Float](c mnist.Config, seed uint64) []mnist.Param[T] {
	params := mnist.NewParams[T](c, -0.5, seed)
	for _, p := range params {
		switch p.Name {
		case "decoder.hidden.weight", "decoder.expand.weight", "decoder.deconv1.weight", "decoder.deconv2.weight", "decoder.deconv3.weight":
			linalg.Scale(p.Value, 4, p.Value)
		case "encoder.std.bias":
			p.Value.Fill(0.7) // σ near 1.1: wider than the posterior, for a finite variance
		}
	}
	return params
}

// bind puts the model on a tape.
func (d digits) bind(t *tape, train bool) (n *mnist.Network[float64], leaves []variable) {
	return mnist.NewNetwork(t, d.config, d.params, train)
}

// image returns binary images [784×n].
func image[T linalg.Float](t *ad.Tape[T], n int, seed uint64) *ad.Var[T] {
	rng := hvae.Stream(seed, "image")
	m := t.Matrix(784, n)
	for i := range m.Data {
		m.Data[i] = 0
		if rng.Float64() < 0.4 {
			m.Data[i] = 1
		}
	}
	return t.Const(m)
}

// mnistSchemes are a VAE and HVAEs with every tempering, step sizes shared and varied.
func mnistSchemes(latent int) (all []mnist.Config) {
	all = append(all, mnist.Config{Kind: "vae", Tempering: "none", Latent: latent})
	for _, tempering := range []string{"none", "fixed", "free"} {
		for _, vary := range []bool{false, true} {
			all = append(all, mnist.Config{Kind: "hvae", K: 2, Tempering: tempering, VaryEps: vary, Latent: latent})
		}
	}
	return all
}

// checkpoint returns the tensor of a name, as a checkpoint has it: in PyTorch's
// conventions.
func (d digits) checkpoint(name string) []float64 {
	for _, p := range d.params {
		if p.Name == name {
			return p.Checkpoint()
		}
	}
	panic(name)
}

func denseByHand(d digits, name string, x []float64) []float64 {
	w, y := d.checkpoint(name+".weight"), append([]float64{}, d.checkpoint(name+".bias")...)
	for i := range y {
		for j, v := range x {
			y[i] += w[i*len(x)+j] * v
		}
	}
	return y
}

// convByHand is a 5×5 convolution of stride 2 over an image padded before and after, or
// its transpose, cropped by as much: products of x[ci, iy, ix] with the weight of tap
// (ky, kx) go from or to pixel (oy, ox) with iy = 2·oy + ky − before.
func convByHand(d digits, name string, x []float64, in, inSize, out, outSize, before int, transpose bool) []float64 {
	w, bias := d.checkpoint(name+".weight"), d.checkpoint(name+".bias")
	y := make([]float64, out*outSize*outSize)
	for co := range out {
		for i := range outSize * outSize {
			y[co*outSize*outSize+i] = bias[co]
		}
	}
	for ci := range in {
		for co := range out {
			for a := range inSize * inSize {
				for b := range outSize * outSize {
					large, small, first, second := a, b, co, ci
					largeSize, smallSize, inner := inSize, outSize, in
					if transpose {
						large, small, first, second = b, a, ci, co
						largeSize, smallSize, inner = outSize, inSize, out
					}
					ky := large/largeSize - 2*(small/smallSize) + before
					kx := large%largeSize - 2*(small%smallSize) + before
					if ky < 0 || ky >= 5 || kx < 0 || kx >= 5 {
						continue
					}
					y[co*outSize*outSize+b] += w[((first*inner+second)*5+ky)*5+kx] * x[ci*inSize*inSize+a]
				}
			}
		}
	}
	return y
}

func softplus(x []float64) []float64 { return hvaetest.Apply(x, softplusAt) }

func softplusAt(x float64) float64 { return math.Log1p(math.Exp(x)) }

func (d digits) encodeByHand(x []float64) (mean, std []float64) {
	h := softplus(convByHand(d, "encoder.conv1", x, 1, 28, 16, 14, 1, false))
	h = softplus(convByHand(d, "encoder.conv2", h, 16, 14, 32, 7, 1, false))
	h = softplus(convByHand(d, "encoder.conv3", h, 32, 7, 32, 4, 2, false))
	h = softplus(denseByHand(d, "encoder.hidden", h))
	return denseByHand(d, "encoder.mean", h), softplus(denseByHand(d, "encoder.std", h))
}

func (d digits) decodeByHand(z []float64) []float64 {
	h := softplus(denseByHand(d, "decoder.hidden", z))
	h = softplus(denseByHand(d, "decoder.expand", h))
	h = softplus(convByHand(d, "decoder.deconv1", h, 32, 4, 32, 7, 2, true))
	h = softplus(convByHand(d, "decoder.deconv2", h, 32, 7, 16, 14, 1, true))
	return convByHand(d, "decoder.deconv3", h, 16, 14, 1, 28, 1, true)
}
