// Package paper_test is an executable specification of sections 2 to 4.2 of the paper
//
//	Caterini, Doucet, Sejdinovic: Hamiltonian Variational Auto-Encoder, NeurIPS 2018.
//
// Each section of this file begins with the list of its statements. A statement consists of the number and label of an
// equation, a claim, and the function that checks the claim. The functions follow in the order of the list. Targets, flows
// and numerical functions that several checks use are at the end of the file.
//
//	go test -v -run Paper .          prints the statements with the measured numbers
//	go test -v -run 'Paper/2.3' .    prints section 2.3 (section 3: 'Paper/^3')
//
// If a statement does not hold as printed in the paper, its field named printed quotes the paper, and the claim is the
// corrected statement. Quotations from the paper omit the subscripts θ and φ.
//
// Most checks of Algorithm 1 use the flows of schemes. These flows have K = 0, 1, 2 or 5 steps and no, fixed or free
// tempering. Their target is hvaetest.Bimodal unless the comment of the check names another one.
//
// A statistical check draws thousands of samples with a fixed seed. Its z-score is (mean − expectation)/(standard
// error). The constant legend lists the bound for each relation; 4.5 is zBound.
package paper_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"hvae/ad"
	"hvae/gaussian/model"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	mnist "hvae/mnist/model"
)

type section struct {
	number, title string
	statements    []statement
}

// A statement is a claim that the paper makes, or a claim that follows from the paper.
type statement struct {
	equation string // number and label of the equation; empty for a claim in the text
	claim    string
	check    func(check *report)
	printed  string // the claim as printed in the paper, if it does not hold
}

func TestPaper(t *testing.T) {
	printed, count := legend, map[string]int{}
	fmt.Fprint(t.Output(), legend)
	for _, section := range []section{section21, section22, section23, section3, section41, section42, beyond} {
		t.Run(section.number, func(t *testing.T) {
			fmt.Fprintf(t.Output(), "\n%s %s\n\n", section.number, section.title)
			for _, s := range section.statements {
				r := &report{t: t, statement: s}
				s.check(r)
				fmt.Fprint(t.Output(), r)
				printed += r.String()
				count[strings.Fields(r.String())[0]]++
			}
		})
	}
	fmt.Fprintf(t.Output(), "\nstatements that hold: %d, as corrected: %d, failures: %d\n", count["✓"], count["✗"], count["FAILS:"])
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // not all sections were run
	}
	readme, err := os.ReadFile("README.md")
	_, block, found := strings.Cut(string(readme), "\n```\n✓ (1)")
	block, _, _ = strings.Cut("✓ (1)"+block, "```")
	if err != nil || !found {
		t.Fatalf("README.md does not show a part of this output (error %v)", err)
	}
	for line := range strings.Lines(block) {
		if !strings.Contains(printed, line) {
			t.Errorf("README.md shows the line %q, which is not printed", line)
		}
	}
}

// legend explains the output of go test -v.
const legend = `
✓ marks a statement that holds, and ✗ a statement that does not hold as the paper prints it. The lines below a
statement show what was measured. If a quantity was measured in several cases, they show the case nearest to failing:

      quantity    measured ± standard error    relation    expected    deviation    case

The deviation is z = (measured − expected)/(standard error), or an error, which is relative unless the expected value
is 0. A relation holds if

      =    |z| ≤ 4.5, or the error is at most the tolerance behind it
      <    z ≤ −4.5, or without a standard error, measured < expected
      >    z ≥ 4.5, or without a standard error, measured > expected
      ≤    z ≤ 4.5: the measured value is not significantly larger
`

var section21 = section{"2.1", "Unbiased likelihood and evidence lower bound estimators", []statement{
	{"(1) eq:unbiased", "the expectation of p̂(x) is p(x)", estimateIsUnbiased, ""},
	{"(2) eqn:ELBO_single", "the expectation of log p̂(x) is a lower bound on log p(x)", elboIsLowerBound, ""},
	{"", "the standard variational framework, p̂(x) = p(x, z)/q(z|x), is the case without flow", standardFramework, ""},
	{"", "IWAE: L samples divide the variance of p̂(x) by L, and the bound increases with L", importanceWeighting, ""},
	{"", "IWAE: a p̂(x) of lower variance gives a gradient of lower variance", gradientVariance, ""},
	{"", "∇ log p̂(x) of reparameterised draws is an unbiased estimate of ∇L_ELBO", gradientIsUnbiased, ""},
}}

// estimateIsUnbiased checks equation 1,
//
//	∫ p̂(x) q(u|x) du = p(x).
//
// The check draws p̂(x) 40,000 times for each flow of schemes and each of two targets with known p(x).
func estimateIsUnbiased(check *report) {
	for _, target := range targets() {
		for _, s := range schemes() {
			logEstimates := logEstimates(s, target.bind, 2, 40000, 1)
			check.mean(ratios(logEstimates, target.logEvidence), 1, 0.03, "%s, %v: E[p̂(x)]/p(x)", target.name, s)
		}
	}
}

// elboIsLowerBound checks equation 2,
//
//	L_ELBO(θ, φ; x) = ∫ log p̂(x) q(u|x) du ≤ log p(x) = L(θ; x).
//
// The check draws log p̂(x) 20,000 times for each target and flow. The inequality is strict, because p̂(x) varies.
func elboIsLowerBound(check *report) {
	for _, target := range targets() {
		for _, s := range schemes() {
			logEstimates := logEstimates(s, target.bind, 2, 20000, 2)
			check.below(logEstimates, target.logEvidence, "%s, %v: E[log p̂(x)]", target.name, s)
		}
	}
}

// standardFramework checks that the "standard variational framework corresponds to U = Z and p̂(x) = p(x, z)/q(z|x)".
// (U is the space of the random variables u, and Z is the space of z.) For K = 0 leapfrog steps, Algorithm 1 must give
// this estimate. Each step changes log p̂ by O(ε), so Algorithm 1 must also give it in the limit ε → 0.
func standardFramework(check *report) {
	const dims, epsilon = 2, 1e-6
	for _, s := range schemes() {
		var tp tape
		f := s.Flow(&tp, hvaetest.Bimodal, dims)
		f.StepSize = tp.Fill(f.StepSize.Rows(), dims, epsilon)
		sample := drawHIS(&tp, f, dims, 100, random.Stream(12, "plain"))
		z0 := sample.Start.Z
		prior := hvae.DiagonalNormal[float64]{Mean: tp.Fill(dims, 1, priorMean), SD: tp.Fill(dims, 1, priorSD)}
		want := ad.Sub(f.Target.LogJoint(z0), prior.LogDensity(z0)).Value.Data
		check.vectors(sample.LogEstimate().Value.Data, want, 5*epsilon*float64(s.K)+1e-14, "%v, ε = %v: log p̂(x)", s, epsilon)
	}
}

// importanceWeighting checks the estimate of the importance-weighted auto-encoder (IWAE),
//
//	p̂(x) = 1/L Σᵢ p(x, zᵢ)/q(zᵢ|x),   Var p̂ = Var(p/q)/L.
//
// The paper says: "|L_ELBO(θ, φ; x) − L(θ; x)| decreases as the variance of p̂(x) decreases". The weights p/q are
// 64,000 draws of p̂(x) from Algorithm 1 with K = 2 and fixed tempering. The same draws are used for every L, so the
// differences between the bounds have small standard errors. The bound for L = 64 agrees with log p(x) up to noise.
// hvae.ImportanceEstimate must return the logarithm of the mean weight and the standard error of this logarithm.
func importanceWeighting(check *report) {
	bimodal := targets()[0]
	logs := logEstimates(scheme{Tempering: "fixed", K: 2}, bimodal.bind, 2, 64000, 7)
	meanOf := func(n, L int) (means []float64) { // for each block of n weights, the mean of n/L estimates of log p(x)
		for block := range slices.Chunk(logs, n) {
			mean := 0.0
			for draws := range slices.Chunk(block, L) {
				mean += hvae.ImportanceEstimate(draws).Log * float64(L) / float64(n)
			}
			means = append(means, mean)
		}
		return means
	}
	var single float64
	var last []float64
	for _, L := range []int{1, 4, 16, 64} {
		squares := squaredDeviations(ratios(meanOf(L, L), bimodal.logEvidence), 1)
		variance, _ := linalg.MeanSE(squares)
		if L == 1 {
			single = variance
		}
		check.mean(squares, single/float64(L), 0.15*variance, "L = %d: Var(p̂(x)/p(x))", L)
		bound := meanOf(64, L)
		mean, se := linalg.MeanSE(bound)
		check.estimate(mean, se, "≤", bimodal.logEvidence, "L = %d: E[log p̂(x)]", L)
		if last != nil {
			check.above(differences(bound, last), 0, "to L = %d: increase of E[log p̂(x)]", L)
		}
		last = bound
	}
	mean, se := linalg.MeanSE(apply(logs, math.Exp))
	e := hvae.ImportanceEstimate(apply(logs, func(l float64) float64 { return l + 1000 })) // e¹⁰⁰⁰ overflows
	check.estimate(e.Log-1000, e.StandardError, "=", bimodal.logEvidence, "log p̂(x) from all draws")
	check.near(e.Log-1000, math.Log(mean), 1e-12, "log of the mean weight")
	check.near(e.StandardError, se/mean, 1e-9, "its standard error")
}

// gradientVariance checks that "a low-variance estimator of p(x)" (here, the estimator of IWAE) "typically translates
// into a low-variance estimator of" the gradient of the ELBO. The target is the Gaussian model with 20 points in one
// dimension, and z₀ ~ N(0.4, 0.5²). From each of L = 1, 4, 16 and 64 to the next, the variance of the derivatives of
// log p̂ with respect to Δ and log σ must decrease by at least 25 %. The variance is estimated from 4000 gradients.
func gradientVariance(check *report) {
	const draws = 4000
	_, data, theta := points(1, 20)
	params := []matrix{linalg.Column(theta.Delta...), linalg.Column(math.Log(theta.Sigma[0]))}
	rng := random.Stream(20, "gradient")
	last := []float64{inf, inf}
	for _, L := range []int{1, 4, 16, 64} {
		samples := sampledGradients(params, draws, func(t *tape, p []variable) variable {
			f := &hvae.Flow[float64]{Target: model.NewTarget(data, p[0], p[1])}
			q := hvae.DiagonalNormal[float64]{Mean: t.Fill(1, 1, 0.4), SD: t.Fill(1, 1, 0.5)}
			return ad.Log(ad.Mean(ad.Exp(hvae.HIS(f, q, noise(t, rng, 1, L), noise(t, rng, 1, L)).LogEstimate())))
		})
		for i, name := range []string{"Δ", "log σ"} {
			_, se := linalg.MeanSE(samples[i])
			variance := draws * se * se
			if L > 1 {
				check.less(variance, 0.75*last[i], "from L = %d to %d: Var(∂ log p̂/∂ %s) < 75 %% of the last", L/4, L, name)
			}
			last[i] = variance
		}
	}
}

// gradientIsUnbiased checks E[∇ log p̂(x)] = ∇ L_ELBO(θ, φ; x). The paper says: "we only require an unbiased estimator"
// of the gradient, "given by ∇ log p̂(x) if the reparameterization trick is used". The target is the Gaussian model
// with 8 points in one dimension, and q⁰ = N(μ, s²). The check computes 3000 gradients, each from 10 draws. The expected
// gradient is the numerical derivative of the ELBO in closed form, log p(D) − affineGap.
func gradientIsUnbiased(check *report) {
	_, data, theta := points(1, 8)
	start := []float64{theta.Delta[0], math.Log(theta.Sigma[0]), 0.1, -0.3, 0.8, math.Log(0.6)}
	names := []string{"Δ", "log σ", "μ", "log s", "the logit of ε", "log(1/√β₀ − 1)"}
	for _, K := range []int{0, 1, 2, 5} {
		flow := func(p []variable) (*hvae.Flow[float64], hvae.DiagonalNormal[float64]) {
			f := &hvae.Flow[float64]{Target: model.NewTarget(data, p[0], p[1]), K: K}
			if K > 0 {
				f.StepSize, f.Tempering = hvae.Constrain(p[4], 0, 0.5), hvae.FixedTempering(K, hvae.Constrain(p[5], 1, inf))
			}
			return f, hvae.DiagonalNormal[float64]{Mean: p[2], SD: ad.Exp(p[3])}
		}
		elbo := func(values []float64) float64 {
			var tp tape
			var p []variable
			for _, v := range values {
				p = append(p, tp.Scalar(v))
			}
			f, q0 := flow(p)
			theta := model.Theta{Delta: values[:1], Sigma: []float64{math.Exp(values[1])}}
			return data.LogEvidence(theta) - affineGap(f, q0, posterior(data, theta))
		}
		var params []matrix
		for _, v := range start[:4+2*min(K, 1)] { // for K = 0, there is no ε and no β₀
			params = append(params, linalg.Column(v))
		}
		rng := random.Stream(34, "gradient", K)
		samples := sampledGradients(params, 3000, func(t *tape, p []variable) variable {
			f, q0 := flow(p)
			return hvae.HIS(f, q0, noise(t, rng, 1, 10), noise(t, rng, 1, 10)).LogEstimate()
		})
		for i, want := range hvaetest.Gradient(elbo, start)[:len(params)] {
			check.mean(samples[i], want, 0.04, "K = %d: E[∂ log p̂/∂ %s]", K, names[i])
		}
	}
}

var section22 = section{"2.2", "Unbiased likelihood estimator using time-inhomogeneous MCMC", []statement{
	{"(3) eq:generalizedJarzynski, (4) eq:optimalestimator", "p̂(x) is unbiased for any reverse kernels; r^opt gives the smallest variance, AIS does not", reverseKernels, ""},
	{"", "AIS: the kernels leave p^k invariant and are reversible, so K_rev = K", aisKernels, ""},
	{"", "AIS is a special case of (3): p̂(x) is unbiased; two bounds enclose log p(x), closer for larger K", aisBounds, ""},
	{"", "AIS: ∇ log p̂(x) is not an unbiased estimate of ∇L_ELBO, because Metropolis steps can reject", metropolisGradient, ""},
}}

// A normalChain is the Markov chain of section 2.2 with normal kernels in one dimension.
type normalChain struct {
	q0, posterior    normal
	forward, reverse []func(z float64) normal // q^k(z_k|z_{k−1}) and r^{k−1}(z_{k−1}|z_k) for k = 1 … K
	qK               normal                   // the marginal density of z_K
}

// newNormalChain returns a chain of K = 4 kernels. Kernel k leaves the bridging density p^k = N(m_k, s_k²) invariant:
//
//	z_k = m_k + ½(z_{k−1} − m_k) + √¾ s_k ξ_k,   ξ_k ~ N(0, 1).
//
// The argument kind selects one of three kinds of reverse kernels r^{k−1}(z_{k−1}|z_k):
//
//	optimal:   r^opt = q^{k−1}(z_{k−1}) q^k(z_k|z_{k−1})/q^k(z_k), where q^k(z_k) is the marginal density,
//	AIS:       the reversal of the kernel, p^k(z_{k−1}) q^k(z_k|z_{k−1})/p^k(z_k) = q^k(z_{k−1}|z_k),
//	perturbed: r^opt with means and variances multiplied by 0.9.
func newNormalChain(kind string) normalChain {
	const K, a = 4, 0.5
	c := normalChain{q0: normal{0, 1.2}, posterior: normal{0.9, 0.5}, qK: normal{0, 1.2}}
	for k := 1; k <= K; k++ {
		beta := float64(k) / K
		precision := (1-beta)/c.q0.variance + beta/c.posterior.variance
		bridge := normal{((1-beta)*c.q0.mean/c.q0.variance + beta*c.posterior.mean/c.posterior.variance) / precision, 1 / precision}
		step := func(z float64) normal { return normal{bridge.mean + a*(z-bridge.mean), (1 - a*a) * bridge.variance} }
		last, next := c.qK, normal{step(c.qK.mean).mean, a*a*c.qK.variance + (1-a*a)*bridge.variance}
		back, factor := a*last.variance/next.variance, 1.0
		if kind == "perturbed" {
			factor = 0.9
		}
		reverse := func(z float64) normal {
			return normal{factor * (last.mean + back*(z-next.mean)), factor * (last.variance - back*back*next.variance)}
		}
		if kind == "AIS" {
			reverse = step
		}
		c.forward, c.reverse, c.qK = append(c.forward, step), append(c.reverse, reverse), next
	}
	return c
}

// draw simulates the chain forward from z₀ ~ q⁰, or backward from z_K ~ p(z|x). It returns z_K and log(p̂(x)/p(x)). By
// equation 3,
//
//	p̂(x)/p(x) = p(z_K|x) Π_k r^{k−1}(z_{k−1}|z_k) / (q⁰(z₀) Π_k q^k(z_k|z_{k−1})).
func (c normalChain) draw(rng *rand.Rand, backward bool) (zK, logRatio float64) {
	K := len(c.forward)
	z := make([]float64, K+1)
	if backward {
		z[K] = c.posterior.draw(rng)
		for k := K; k > 0; k-- {
			z[k-1] = c.reverse[k-1](z[k]).draw(rng)
		}
	} else {
		z[0] = c.q0.draw(rng)
		for k := 1; k <= K; k++ {
			z[k] = c.forward[k-1](z[k-1]).draw(rng)
		}
	}
	logRatio = c.posterior.log(z[K]) - c.q0.log(z[0])
	for k := 1; k <= K; k++ {
		logRatio += c.reverse[k-1](z[k]).log(z[k-1]) - c.forward[k-1](z[k-1]).log(z[k])
	}
	return z[K], logRatio
}

// reverseKernels checks equations 3 and 4 for the chains of newNormalChain. The paper: p̂ "is an unbiased estimator of
// p(x)" for any reverse kernels. r^opt is "the sequence of reverse kernels minimizing the variance of p̂(x)" and gives
// p̂(x) = p(x, z_K)/q^K(z_K). Therefore the choice of AIS "is suboptimal". All kinds of kernels are compared on the
// same chains, so that the differences have small standard errors.
//
// The reverse chain starts at z_K ~ p(z|x) and draws z_k from r^k(z_k|z_{k+1}). On this chain, 1/p̂(x) must be an
// unbiased estimate of 1/p(x), and the mean of log p̂(x) must be above log p(x).
func reverseKernels(check *report) {
	const draws = 50000
	var best []float64
	for _, kind := range []string{"optimal", "AIS", "perturbed"} {
		c, rng, reverse := newNormalChain(kind), random.Stream(50, "chain"), random.Stream(51, "chain")
		logs, direct, upper := make([]float64, draws), make([]float64, draws), make([]float64, draws)
		for i := range draws {
			var zK float64
			zK, logs[i] = c.draw(rng, false)
			direct[i] = c.posterior.log(zK) - c.qK.log(zK)
			_, upper[i] = c.draw(reverse, true)
		}
		check.mean(ratios(logs, 0), 1, 0.01, "%s reverse kernels: E[p̂(x)]/p(x)", kind)
		check.below(logs, 0, "%s reverse kernels: E[log p̂(x)/p(x)]", kind)
		if kind == "optimal" {
			check.vectors(logs, direct, 1e-13, "optimal reverse kernels: log p(x, z_K)/q^K(z_K)")
			best = logs
		} else {
			more := differences(squaredDeviations(ratios(logs, 0), 1), squaredDeviations(ratios(best, 0), 1))
			check.above(more, 0, "%s: Var(p̂(x)/p(x)) − Var for r^opt", kind)
			check.below(differences(logs, best), 0, "%s: E[log p̂(x)] − E for r^opt", kind)
		}
		check.mean(apply(upper, func(l float64) float64 { return math.Exp(-l) }), 1, 0.01, "%s reverse kernels: p(x)·E[1/p̂(x)], reverse chain", kind)
		check.above(upper, 0, "%s reverse kernels: E[log p̂(x)/p(x)], reverse chain", kind)
	}
}

// aisKernels checks that kernel k of AIS leaves the bridging density
//
//	p^k(z|x) ∝ q⁰(z)^{1−β_k} p(x, z)^{β_k}
//
// invariant and is reversible. The paper says: "If K is μ-reversible then K_rev = K". The target is hvaetest.Quadratic,
// so p^k is normal. The check draws z ~ p^k, and the kernel moves z to z′. Then E[f(z′)] = E[f(z)] and E[f(z)g(z′)] =
// E[f(z′)g(z)] must hold for several functions f and g. The moves must be so large that mistakes change the means. A kernel
// with step size 0 does not move, so that the reverse chain from z applies only kernel k.
func aisKernels(check *report) {
	const K, draws, omega = 4, 20000, 1.4
	quadratic := target{bind: func(*tape) hvae.Target[float64] { return hvaetest.Quadratic{Omega: omega} }}
	a, streams := annealing(check, quadratic, K, draws, 52)
	tuned := a.StepSizes
	names := []string{"z_1", "z_1²", "z_1·z_2", "cos 3z_1"}
	functions := []func(x, y float64) float64{
		func(x, y float64) float64 { return x }, func(x, y float64) float64 { return x * x },
		func(x, y float64) float64 { return x * y }, func(x, y float64) float64 { return math.Cos(3 * x) },
	}
	for k := 1; k < K; k++ {
		beta := float64(k) / K
		precision := (1-beta)/(priorSD*priorSD) + beta*omega*omega
		z := linalg.New[float64](2, draws)
		random.FillNormal(random.Stream(53, "bridge", k), z)
		linalg.Scale(z, 1/math.Sqrt(precision), z)
		linalg.AddConst(z, z, (1-beta)*priorMean/(priorSD*priorSD)/precision)
		a.StepSizes = make([]float64, K-1)
		a.StepSizes[k-1] = tuned[k-1]
		end, _, err := a.Reverse(check.t.Context(), z, streams)
		check.must(err)
		rate := end.Acceptance*(K-1) - (K - 2) // the other kernels accept every proposal
		check.greater(rate, 0.2, "k = %d: acceptance rate", k)
		check.greater(1-rate, 0.1, "k = %d: rejection rate", k)
		check.greater(hvaetest.Distance(end.Z.Data, z.Data)*math.Sqrt(precision/draws), 0.5, "k = %d: ‖z′ − z‖ in standard deviations", k)
		for i, f := range functions {
			g, invariant, reversible := functions[(i+1)%len(functions)], make([]float64, draws), make([]float64, draws)
			for j := range draws {
				x, y, x2, y2 := z.At(0, j), z.At(1, j), end.Z.At(0, j), end.Z.At(1, j)
				invariant[j] = f(x2, y2) - f(x, y)
				reversible[j] = f(x, y)*g(x2, y2) - f(x2, y2)*g(x, y)
			}
			check.mean(invariant, 0, 0.02, "k = %d, f = %s: E[f(z′)] − E[f(z)]", k, names[i])
			check.mean(reversible, 0, 0.02, "k = %d, f = %s, g = %s: E[f(z)g(z′)] − E[f(z′)g(z)]", k, names[i], names[(i+1)%len(names)])
		}
	}
}

// aisBounds checks that AIS "is a special case of (3)". On the forward chain, E[p̂(x)] = p(x) and E[log p̂(x)] < log
// p(x) must hold. On the reverse chain from the posterior, E[1/p̂(x)] = 1/p(x) and E[log p̂(x)] > log p(x) must hold.
// The gap between the two bounds on log p(x) must decrease with K. The check uses two targets with known p(x).
func aisBounds(check *report) {
	const draws = 1500
	for _, target := range targets() {
		last, lastSE := inf, 0.0
		for _, K := range []int{1, 4, 16, 64} {
			a, streams := annealing(check, target, K, draws, 56)
			_, forward, err := a.Forward(check.t.Context(), streams)
			check.must(err)
			z := linalg.New[float64](2, draws)
			target.posterior(random.Stream(57, "posterior"), z)
			_, backward, err := a.Reverse(check.t.Context(), z, streams)
			check.must(err)
			check.below(forward, target.logEvidence, "%s, K = %d: E[log p̂(x)]", target.name, K)
			check.above(backward, target.logEvidence, "%s, K = %d: E[log p̂(x)], reverse chain", target.name, K)
			if K >= 16 { // for a small K, the variance of p̂(x) is too large
				check.mean(ratios(forward, target.logEvidence), 1, 0.05, "%s, K = %d: E[p̂(x)]/p(x)", target.name, K)
				inverse := apply(backward, func(l float64) float64 { return math.Exp(target.logEvidence - l) })
				check.mean(inverse, 1, 0.05, "%s, K = %d: p(x)·E[1/p̂(x)], reverse chain", target.name, K)
			}
			lower, lowerSE := linalg.MeanSE(forward)
			upper, upperSE := linalg.MeanSE(backward)
			gap, se := upper-lower, math.Hypot(lowerSE, upperSE)
			if K > 1 {
				check.estimate(gap-last, math.Hypot(se, lastSE), "<", 0, "%s, K = %d and %d: change of the gap", target.name, K/4, K)
			}
			last, lastSE = gap, se
		}
		check.less(last, 0.35, "%s, K = 64: gap between the bounds", target.name)
	}
}

// metropolisGradient checks that with Metropolis steps "∇ log p̂(x) is not an unbiased estimator of ∇L_ELBO", although
// p̂ is unbiased. The check uses AIS with K = 2 from z₀ ~ N(0, 1) to p_θ(x, z) = N(z | θ, ½²). The only kernel proposes
// z₀ + 1.5ξ with ξ ~ N(0, 1), and accepts or rejects the proposal. For fixed noise, ∂ log p̂/∂θ does not contain the
// derivative of the acceptance probability, so the estimate is biased. If every proposal is accepted, the estimate is
// unbiased. The exact gradient is the derivative of E[log p̂], computed by quadrature over z₀ and ξ.
func metropolisGradient(check *report) {
	const start, draws, n, edge = 1.2, 20000, 200, 7.0
	logEstimates := func(theta, z0, xi float64) (accepted, rejected, rate float64) {
		joint := func(z float64) float64 { return logNormal(z, theta, 0.25) }
		bridge := func(z float64) float64 { return (logNormal(z, 0, 1) + joint(z)) / 2 } // log √(q⁰(z) p(x, z))
		z1 := z0 + 1.5*xi
		estimate := func(z1 float64) float64 { return bridge(z0) - logNormal(z0, 0, 1) + joint(z1) - bridge(z1) }
		return estimate(z1), estimate(z0), math.Exp(min(0, bridge(z1)-bridge(z0)))
	}
	elbo := func(theta float64, metropolis bool) (sum float64) {
		const h = 2 * edge / n
		for _, z0 := range grid(edge, n).Data {
			for _, xi := range grid(edge, n).Data {
				accepted, rejected, rate := logEstimates(theta, z0, xi)
				if !metropolis {
					rate = 1
				}
				sum += math.Exp(logNormal(z0, 0, 1)+logNormal(xi, 0, 1)) * h * h * (rate*accepted + (1-rate)*rejected)
			}
		}
		return sum
	}
	for _, metropolis := range []bool{true, false} {
		want := slope(func(h float64) float64 { return elbo(start+h, metropolis) }, 1e-2)
		rng := random.Stream(58, "metropolis")
		var estimates, gradients []float64
		for range draws {
			z0, xi, u := rng.NormFloat64(), rng.NormFloat64(), rng.Float64()
			at := func(h float64) float64 {
				_, _, rate := logEstimates(start, z0, xi)
				accepted, rejected, _ := logEstimates(start+h, z0, xi)
				if metropolis && u >= rate {
					return rejected
				}
				return accepted
			}
			estimates, gradients = append(estimates, math.Exp(at(0))), append(gradients, slope(at, 1e-2))
		}
		if metropolis {
			check.mean(estimates, 1, 0.02, "E[p̂(x)]/p(x)")
			check.below(gradients, want, "Metropolis steps: E[∂ log p̂(x)/∂θ] < ∂L_ELBO/∂θ")
		} else {
			check.mean(gradients, want, 0.05, "all proposals accepted: E[∂ log p̂(x)/∂θ] = ∂L_ELBO/∂θ")
		}
	}
}

var section23 = section{"2.3", "Using Hamiltonian dynamics", []statement{
	{"(5) eq:estimatorHMC, left", "q^K is a density with |det ∇Φ^k(z_(k−1), ρ_(k−1))|⁻¹, at the point before step k", flowDensity,
		"q^K contains |det ∇Φ^k(z_k, ρ_k)|⁻¹, at the point after step k (for HVAE, both are α_k^−ℓ)"},
	{"(5) eq:estimatorHMC, right, (6) eqn:reparameterization", "p̂(x) = p̄/q^K = p̄/q⁰·Π|det ∇Φ^k|", flowEstimate, ""},
	{"", "a homogeneous flow changes p̂(x) only by O(ε²), so the variance stays high", homogeneousFlow, ""},
	{"", "leapfrog discretises Hamiltonian dynamics: reversible, symplectic, second order in ε", leapfrogIsHamiltonian, ""},
	{"", "tempering explores isolated modes and reduces the variance of log p̂(x)", temperingExplores, ""},
	{"(7) to (9) eqn:lf1 to eqn:lf3", "each equation is a shear, so a leapfrog step has unit Jacobian", leapfrogStep, ""},
	{"Algorithm 1, alg:his", "fixed tempering: 1/√β_k is quadratic in k; free tempering: β₀ = Πα_k²; 0 < β₀ < … < β_K = 1", inverseTemperatures, ""},
	{"", "Φ^k, a leapfrog step and then cooling, is a diffeomorphism; |det ∇Φ^k| = α_k^ℓ, and the product is β₀^(ℓ/2)", leapfrogThenCooling, ""},
	{"", "ρ₀ ~ N(0, β₀⁻¹I), the canonical momentum distribution", canonicalMomentum, ""},
	{"", "footnote: a step size per dimension has the effect of a mass matrix", massMatrix, ""},
	{"Algorithm 1, alg:his", "K steps need K + 1 gradients", gradientCount, ""},
}}

// flowDensity checks the left side of equation 5,
//
//	q^K(z_K, ρ_K) = q⁰(z₀, ρ₀) Π_k |det ∇Φ^k(z_{k−1}, ρ_{k−1})|⁻¹,   (z₀, ρ₀) = H⁻¹(z_K, ρ_K),
//
// where H = Φ^K ∘ … ∘ Φ¹ is a flow of schemes and q⁰ = N(0, 1)·N(0, β₀⁻¹). In one dimension, the integral of
// q^K, computed as a sum over a grid of points (z_K, ρ_K), must be 1.
func flowDensity(check *report) {
	const n, edge = 200, 10.0
	const h = 2 * edge / n
	z := grid(edge, n)
	for _, s := range schemes() {
		var tp tape
		total := 0.0
		for _, rho := range z.Data {
			tp.Reset()
			f := s.Flow(&tp, hvaetest.Bimodal, 1)
			start := f.Inverse(hvae.Phase[float64]{Z: tp.Const(z), Rho: tp.Fill(1, n+1, rho)})
			invSqrtBeta0, _ := temperingOf(f.Tempering, s.K)
			logQ := ad.Add(hvae.LogNormal(start.Z), hvae.LogNormal(ad.Scale(start.Rho, 1/invSqrtBeta0)))
			logVolume := math.Log(invSqrtBeta0) + f.LogDet(&tp, 1).Scalar()
			for _, l := range logQ.Value.Data {
				total += math.Exp(l-logVolume) * h * h
			}
		}
		check.near(total, 1, 1e-3, "%v: ∫ q^K(z_K, ρ_K)", s)
	}
}

// flowEstimate checks the right side of equation 5, and equation 6,
//
//	p̂(x) = p̄(x, z_K, ρ_K)/q^K(z_K, ρ_K) = p̄(x, H(z₀, ρ₀))/q⁰(z₀, ρ₀) · Π_k |det ∇Φ^k|,
//	p̄(x, z, ρ) = p(x, z) N(ρ|0, I).
//
// The paper: this "is nothing but a special case of (3)". If q^k is the map Φ^k and r^{k−1} its inverse, the quotient
// r^{k−1}/q^k in equation 3 is |det ∇Φ^k|. For each flow of schemes in five dimensions, 20 draws of p̂ must
// equal the last expression for p̂(x) above, computed from scalar log densities and log |det ∇Φ^k| = ℓ log α_k.
func flowEstimate(check *report) {
	const dims, n = 5, 20
	for _, s := range schemes() {
		var tp tape
		f := s.Flow(&tp, hvaetest.Bimodal, dims)
		sample := drawHIS(&tp, f, dims, n, random.Stream(10, "density"))
		invSqrtBeta0, alpha := temperingOf(f.Tempering, s.K)
		want := f.Target.LogJoint(sample.End.Z).Value.Data
		for i := range want {
			for j := range dims {
				want[i] += logNormal(sample.End.Rho.Value.At(j, i), 0, 1) - logNormal(sample.Start.Rho.Value.At(j, i), 0, invSqrtBeta0*invSqrtBeta0)
				want[i] -= logNormal(sample.Start.Z.Value.At(j, i), priorMean, priorSD*priorSD)
			}
			for _, a := range alpha {
				want[i] += dims * math.Log(a)
			}
		}
		check.vectors(sample.LogEstimate().Value.Data, want, 1e-12, "%v: log p̂(x)", s)
	}
}

// homogeneousFlow checks that, for time-homogeneous dynamics (no tempering),
//
//	log p̂(x) = log p(x, z₀) − log q⁰(z₀) + O(ε²),
//
// because the leapfrog steps conserve the energy U(z) + ½ρᵀρ up to O(ε²). If ε is halved while the length Kε = 2 of the
// trajectory is fixed, log p̂(x) must come four times closer to the logarithm of the standard estimate p(x, z₀)/q⁰(z₀).
// Therefore such a flow "yields a high-variance estimator of the normalizing constants even if r^{k,opt} is used". For
// the posterior N(0, I/16) in two dimensions, which is much narrower than q⁰, p̂(x) without tempering must have the
// variance of the standard estimate. Tempering must divide this variance by at least 1.5.
func homogeneousFlow(check *report) {
	draws := func(target hvae.Target[float64], K int, epsilon, invSqrtBeta0 float64, n int) []float64 { // draws of log p̂(x), always from the same noise
		var tp tape
		f := &hvae.Flow[float64]{Target: target, K: K, StepSize: tp.Fill(1, 2, epsilon), Tempering: hvae.FixedTempering(K, tp.Scalar(invSqrtBeta0))}
		return drawHIS(&tp, f, 2, n, random.Stream(40, "homogeneous")).LogEstimate().Value.Data
	}
	standard := draws(hvaetest.Bimodal, 1, 0, 1, 400) // one step of size zero does not move z₀
	var last float64
	for _, K := range []int{20, 40, 80, 160} {
		d := hvaetest.Distance(draws(hvaetest.Bimodal, K, 2/float64(K), 1, 400), standard)
		if K > 20 {
			check.near(last/d, 4, 0.05, "K = %d and %d, ε = 2/K: ratio of the changes of log p̂(x)", K/2, K)
		}
		last = d
	}

	narrow := normalTarget{make([]float64, 2), []float64{0.25, 0.25}}
	variance := func(K int, epsilon, invSqrtBeta0 float64) (v, se float64) {
		logs := draws(narrow, K, epsilon, invSqrtBeta0, 20000)
		return linalg.MeanSE(squaredDeviations(ratios(logs, 0), 1))
	}
	plain, plainSE := variance(1, 0, 1)
	for _, K := range []int{10, 40} {
		v, se := variance(K, 0.05, 1)
		check.estimate(v, math.Hypot(se, plainSE), "=", plain, "K = %d, no tempering: Var(p̂(x)/p(x)) = standard Var", K)
	}
	v, se := variance(40, 0.05, 4)
	check.estimate(v, se, "<", plain/1.5, "K = 40, tempering: Var(p̂(x)/p(x)) < standard Var/1.5")
}

// leapfrogIsHamiltonian checks that a leapfrog step Λ "discretizes the Hamiltonian dynamics".
//   - Reversible: let F(z, ρ) = (z, −ρ). Then F∘Λ∘F∘Λ is the identity.
//   - Symplectic: JᵀΩJ = Ω for the Jacobian J of Λ and Ω = Σ_j ε_j⁻¹ dz_j ∧ dρ_j. If all step sizes ε_j are equal, Ω is
//     proportional to the standard symplectic form. If they differ, Ω is the form of a system with masses (see
//     massMatrix).
//   - Second order: at time 0.8, the error of the energy U(z) + ½ρᵀρ is O(ε²).
func leapfrogIsHamiltonian(check *report) {
	target := hvaetest.Bimodal
	step := leapfrog(target, stepSizes)
	flip := func(s []float64) []float64 { return []float64{s[0], s[1], s[2], -s[3], -s[4], -s[5]} }
	check.vectors(flip(step(flip(step(phasePoint)))), phasePoint, 1e-14, "(z, ρ) after step, flip, step, flip")

	for _, epsilon := range [][]float64{{0.3, 0.3, 0.3}, stepSizes} {
		J := hvaetest.Jacobian(leapfrog(target, epsilon), phasePoint)
		omega := linalg.New[float64](6, 6)
		for j := range 3 {
			omega.Row(j)[3+j], omega.Row(3 + j)[j] = 1/epsilon[j], -1/epsilon[j]
		}
		oj, joj := linalg.New[float64](6, 6), linalg.New[float64](6, 6)
		linalg.MatMul(oj, omega, J)
		linalg.MatMulTA(joj, J, oj)
		check.near(hvaetest.Distance(joj.Data, omega.Data), 0, 1e-8, "ε = %v: ‖JᵀΩJ − Ω‖", epsilon)
	}

	energy := func(s []float64) float64 {
		var tp tape
		return -target.LogJoint(tp.Const(linalg.Column(s[:3]...))).Scalar() + 0.5*math.Pow(hvaetest.Norm(s[3:]), 2)
	}
	last := 0.0
	for _, steps := range []int{8, 16, 32, 64} {
		e := 0.8 / float64(steps)
		step, s := leapfrog(target, []float64{e, e, e}), phasePoint
		for range steps {
			s = step(s)
		}
		d := energy(s) - energy(phasePoint)
		if steps > 8 {
			check.near(math.Log2(last/d), 2, 0.05, "energy error %.2g with %d steps: order of the energy error", d, steps)
		}
		last = d
	}
}

// temperingExplores checks that the tempering step "allows us to explore isolated modes of the target". The target
// model.TwoModes has two narrow modes, and q⁰ is centred on the left mode. For K = 4, 8, 16, 32 and 64, tempering
// (1/√β₀ = 3) must increase the fraction of draws for which z₀ and z_K are in different modes. With tempering, Var(log
// p̂) must decrease as K increases. For K = 64, it must be below a fifth of the value without tempering, which must not
// depend on K.
func temperingExplores(check *report) {
	const draws = 10000
	run := func(K int, invSqrtBeta0 float64) (variance, se float64, changed []float64) {
		f := model.TwoModesFlow{K: K, StepSize: 0.1, PriorSD: 1.5, InvSqrtBeta0: invSqrtBeta0, Tempering: "fixed"}
		all, err := f.Draw(check.t.Context(), draws, random.Stream(41, "two modes", K), false)
		check.must(err)
		var l []float64
		for _, d := range all {
			l = append(l, d.LogEstimate)
			changed = append(changed, map[bool]float64{true: 1}[d.ChangesMode()])
		}
		elbo, _ := linalg.MeanSE(l)
		check.less(elbo, 0, "K = %d, 1/√β₀ = %v: ELBO < log p(x)", K, invSqrtBeta0)
		variance, se = linalg.MeanSE(squaredDeviations(l, elbo))
		return variance, se, changed
	}
	var last, lastSE, first, firstSE float64 // Var(log p̂) with tempering for the last K, and without tempering for K = 4
	for _, K := range []int{4, 8, 16, 32, 64} {
		hot, hotSE, changed := run(K, 3)
		cold, coldSE, changedCold := run(K, 1)
		mean, se := linalg.MeanSE(changedCold)
		check.estimate(mean, se, "≤", 0.04, "K = %d: mode changes, no tempering", K)
		check.above(changed, mean+zBound*se, "K = %d: mode changes, tempering > none", K)
		if K == 4 {
			first, firstSE = cold, coldSE
		} else {
			check.estimate(hot, math.Hypot(hotSE, lastSE), "<", last, "K = %d and %d: Var(log p̂(x)), tempering < last K", K, K/2)
			check.estimate(cold, math.Hypot(coldSE, firstSE), "=", first, "K = %d: Var(log p̂(x)), none = for K = 4", K)
		}
		last, lastSE = hot, hotSE
	}
	check.less(last, first/5, "K = 64: Var(log p̂(x)), tempering < none/5")
}

// leapfrogStep checks equations 7 to 9,
//
//	ρ̃ = ρ − ε/2 ⊙ ∇U(z),   z′ = z + ε ⊙ ρ̃,   ρ′ = ρ̃ − ε/2 ⊙ ∇U(z′).
//
// The check uses numerical derivatives of U. The step "has unit Jacobian since each equation describes a shear
// transformation". Therefore the Jacobian J of each equation must satisfy (J − I)² = 0.
func leapfrogStep(check *report) {
	target := hvaetest.Bimodal
	lf1, lf2, lf3 := leapfrogByHand(target, stepSizes)
	step := leapfrog(target, stepSizes)
	check.vectors(step(phasePoint), lf3(lf2(lf1(phasePoint))), 1e-11, "(z, ρ) after one step")
	for i, lf := range []func([]float64) []float64{lf1, lf2, lf3} {
		N, square := hvaetest.Jacobian(lf, phasePoint), linalg.New[float64](6, 6)
		for j := range 6 {
			N.Row(j)[j]--
		}
		linalg.MatMul(square, N, N)
		check.near(hvaetest.Norm(square.Data), 0, 1e-6, "equation lf%d: ‖(J − I)²‖", i+1)
	}
	check.near(hvaetest.Determinant(hvaetest.Jacobian(step, phasePoint)), 1, 1e-9, "det of a leapfrog step")
}

// inverseTemperatures checks α_k = √(β_{k−1}/β_k) and 0 < β₀ < β₁ < … < β_K = 1 for fixed and free tempering. The paper
// says: "we multiply the momentum output of each leapfrog step by α_k ∈ (0, 1)". In fixed tempering,
//
//	√β_k = ((1 − 1/√β₀)·k²/K² + 1/√β₀)⁻¹.
//
// (In the authors' MNIST code, 1/β_k is quadratic in k instead.) In free tempering, β₀ = Π_k α_k². So free tempering
// with the α_k of fixed tempering must have the same β₀.
func inverseTemperatures(check *report) {
	for _, K := range []int{1, 2, 3, 10, 30} {
		for _, s := range []float64{1.001, 1.5, 5, 40} {
			var tp tape
			fixed := hvae.FixedTempering(K, tp.Scalar(s))
			for i, tempering := range []hvae.Tempering[float64]{fixed, scheme{Tempering: "free", K: K}.Flow(&tp, hvaetest.Bimodal, 1).Tempering} {
				invSqrtBeta0, alpha := temperingOf(tempering, K)
				name, beta := []string{"fixed", "free"}[i], []float64{math.Pow(invSqrtBeta0, -2)}
				for k, a := range alpha {
					beta = append(beta, beta[k]/(a*a))
				}
				check.near(beta[K], 1, 1e-12, "%s, K = %d: β_K", name, K)
				for k := 1; k <= K; k++ {
					check.less(beta[k-1], beta[k], "%s, K = %d, k = %d: β_(k−1) < β_k", name, K, k)
					if name == "fixed" {
						check.near(1/math.Sqrt(beta[k]), (1-s)*float64(k*k)/float64(K*K)+s, 1e-12, "1/√β₀ = %v, K = %d, k = %d: 1/√β_k", s, K, k)
					}
				}
			}
			invSqrtBeta0, alpha := temperingOf(fixed, K)
			free, _ := temperingOf(hvae.FreeTempering(tp.Const(linalg.Column(alpha...))), K)
			check.near(invSqrtBeta0, s, 1e-15, "fixed, K = %d: 1/√β₀", K)
			check.near(free, s, 1e-13, "the same α_k, free, K = %d: 1/√β₀ = Πα_k⁻¹", K)
		}
	}
}

// leapfrogThenCooling checks that Φ^k applies equations 7 to 9 and then the cooling ρ_k = α_k ρ′. The paper says: "We
// obtain Φ^k by composing the leapfrog integrator with the cooling operation". Therefore
//
//	|det ∇Φ^k| = α_k^ℓ = (β_{k−1}/β_k)^{ℓ/2},   Π_k |det ∇Φ^k| = β₀^{ℓ/2}.
//
// The Φ^k "define diffeomorphisms", so H = Φ^K ∘ … ∘ Φ¹ has an inverse. The check computes the expected (z_K, ρ_K) with
// numerical derivatives of U, and det ∇H from a numerical Jacobian.
func leapfrogThenCooling(check *report) {
	for _, s := range schemes() {
		for dims := 1; dims <= 3; dims++ {
			var tp tape
			f := s.Flow(&tp, hvaetest.Bimodal, dims)
			invSqrtBeta0, alpha := temperingOf(f.Tempering, s.K)
			start := slices.Concat(phasePoint[:dims], phasePoint[3:3+dims])
			want, product := slices.Clone(start), 1.0
			for k := range s.K {
				lf1, lf2, lf3 := leapfrogByHand(f.Target, f.StepSize.Value.Row(min(k, f.StepSize.Rows()-1)))
				want = lf3(lf2(lf1(want)))
				for j := dims; j < 2*dims; j++ {
					want[j] *= alpha[k]
				}
				product *= math.Pow(alpha[k], float64(dims))
			}
			forward := onTape(dims, func(t *tape, p hvae.Phase[float64]) hvae.Phase[float64] {
				return s.Flow(t, hvaetest.Bimodal, dims).Forward(p)
			})
			inverse := onTape(dims, func(t *tape, p hvae.Phase[float64]) hvae.Phase[float64] {
				return s.Flow(t, hvaetest.Bimodal, dims).Inverse(p)
			})
			check.vectors(forward(start), want, 1e-9, "%v, ℓ = %d: (z_K, ρ_K)", s, dims)
			check.vectors(inverse(forward(start)), start, 1e-13, "%v, ℓ = %d: H⁻¹(H(z, ρ)) = (z, ρ)", s, dims)
			check.vectors(forward(inverse(start)), start, 1e-13, "%v, ℓ = %d: H(H⁻¹(z, ρ)) = (z, ρ)", s, dims)
			check.near(hvaetest.Determinant(hvaetest.Jacobian(forward, start)), product, 1e-7, "%v, ℓ = %d: det ∇H = Πα_k^ℓ", s, dims)
			check.near(math.Pow(invSqrtBeta0, -float64(dims)), product, 1e-12, "%v, ℓ = %d: β₀^(ℓ/2) = Πα_k^ℓ", s, dims)
			check.near(math.Exp(f.LogDet(&tp, dims).Scalar()), product, 1e-12, "%v, ℓ = %d: exp(Flow.LogDet) = Πα_k^ℓ", s, dims)
		}
	}
}

// canonicalMomentum checks that ρ₀ has "the canonical momentum distribution" N(0, β₀⁻¹I), by moments of 20,000 draws.
func canonicalMomentum(check *report) {
	const dims, n = 2, 20000
	var tp tape
	for _, s := range schemes() {
		tp.Reset()
		f := s.Flow(&tp, hvaetest.Bimodal, dims)
		sample := drawHIS(&tp, f, dims, n, random.Stream(9, "momentum"))
		invSqrtBeta0, _ := temperingOf(f.Tempering, s.K)
		for j := range dims {
			rho := apply(sample.Start.Rho.Value.Row(j), func(r float64) float64 { return 1 / invSqrtBeta0 * r })
			squares := squaredDeviations(rho, 0)
			check.mean(rho, 0, 0.01, "%v: E[√β₀ ρ₀]", s)
			check.mean(squares, 1, 0.02, "%v: E[β₀ ρ₀²]", s)
			check.mean(squaredDeviations(squares, 0), 3, 0.1, "%v: E[β₀² ρ₀⁴]", s)
		}
	}
}

// massMatrix checks the footnote "We avoid reference to a mass matrix M throughout this formulation because we can
// capture the same effect by optimizing individual leapfrog step sizes per dimension". The check simulates five
// leapfrog steps with one step size η, masses m_j and momenta p_j. Each step moves z_j by η p_j/m_j. The result must
// equal five leapfrog steps without masses for ε_j = η/√m_j and ρ_j = p_j/√m_j.
func massMatrix(check *report) {
	const eta = 0.35
	masses, epsilon := []float64{0.5, 2, 1.3}, make([]float64, 3)
	s, want := slices.Clone(phasePoint), slices.Clone(phasePoint) // (z, ρ) and (z, p)
	for j, m := range masses {
		epsilon[j], s[3+j] = eta/math.Sqrt(m), s[3+j]/math.Sqrt(m)
	}
	step := leapfrog(hvaetest.Bimodal, epsilon)
	kick, _, _ := leapfrogByHand(hvaetest.Bimodal, []float64{eta, eta, eta})
	for range 5 {
		s, want = step(s), kick(want)
		for j, m := range masses {
			want[j] += eta * want[3+j] / m
		}
		want = kick(want)
	}
	for j, m := range masses {
		want[3+j] /= math.Sqrt(m)
	}
	check.vectors(s, want, 1e-9, "(z, ρ) with ε_j = η/√m_j")
}

// gradientCount checks that Algorithm 1 with K > 0 steps computes K + 1 gradients ∇U(z_k), k = 0 … K, because the
// gradient at the end of a step is also the gradient at the start of the next step. Without a closed form of ∇U, one
// evaluation of log p(x, z) gives both ∇U(z_k) and log p(x, z_k). For K = 0, Algorithm 1 computes no gradient.
func gradientCount(check *report) {
	_, data, theta := points(2, 3)
	for _, s := range schemes() {
		var tp tape
		densities := 0
		bimodal := targetFunc(func(z variable) variable { densities++; return hvaetest.Bimodal.LogJoint(z) })
		drawHIS(&tp, s.Flow(&tp, bimodal, 2), 2, 5, random.Stream(1, "count")).LogEstimate()
		check.near(float64(densities), float64(s.K+1), 0, "%v: evaluations of log p(x, z)", s)
		g := &gradientCounter{Target: gaussian(&tp, data, theta)}
		drawHIS(&tp, s.Flow(&tp, g, 2), 2, 5, random.Stream(1, "count")).LogEstimate()
		check.near(float64(g.gradients), float64(min(s.K, 1)*(s.K+1)), 0, "%v: evaluations of ∇U in closed form", s)
	}
}

var section3 = section{"3", "Stochastic Variational Inference", []statement{
	{"(10) eqn:inference_objective, (11) eqn:ELBO", "the surrogate is at most the objective, and equals it if q⁰ is the posterior and K = 0", surrogateObjective, ""},
	{"(12) eqn:H_ELBO_simplified", "both sides have the same mean and gradients; they differ by ½γ₀ᵀγ₀ − ℓ/2 in each draw", sameGradient, ""},
	{"(12) eqn:H_ELBO_simplified", "S, the right side, has a smaller variance than log p̂ only if Cov(log p̂, ½γ₀ᵀγ₀) > ℓ/4", simplifiedVariance,
		"\"we can reduce the variance of the ELBO calculation by analytically evaluating some terms\""},
	{"", "each term that is replaced by its mean, ½γ₀ᵀγ₀ in S and also ½εᵀε in S′, adds ½ per dimension to the variance if p̂ = p", replacedTerms, ""},
	{"Algorithm 2, alg:vi", "the gradient of the average ELBO is its derivative in every parameter θ and φ", averageGradient, ""},
	{"Algorithm 2, alg:vi", "training increases the ELBO", trainingIncreasesELBO, ""},
}}

// surrogateObjective checks equations 10 and 11,
//
//	θ* = argmax E_{x~ν_D}[log p_θ(x)],   L_ELBO(θ, φ) = E_{x~ν_D}[L_ELBO(θ, φ; x)] ≤ E_{x~ν_D}[log p_θ(x)],
//
// where ν_D is the empirical distribution of seven observations x, each with a separate latent variable z:
//
//	z ~ N(0, 1),   x|z ~ N(z + Δ, σ²),   q⁰(z|x) = N(w(x − Δ), s²),
//	p(x) = N(x | Δ, 1 + σ²),   p(z|x) = N((x − Δ)/(1 + σ²), σ²/(1 + σ²)).
//
// (Tests of package hvae check that minibatches of any size give the same mean bound and gradient.)
func surrogateObjective(check *report) {
	const copies = 1000                                                // of each observation; each copy has separate noise
	for _, theta := range []normal{{0, 1}, {1.2, 2.2}, {-0.5, 0.25}} { // Δ and σ²
		centred := filled(1, 7*copies, 0) // x − Δ
		for j := range centred.Data {
			centred.Data[j] = []float64{-1.3, 0.2, 0.5, 0.9, 2.1, 2.2, 3.8}[j%7] - theta.mean
		}
		gaps := func(K int, w, s float64) []float64 { // log p̂(x) − log p(x)
			var tp tape
			row, rng := tp.Const(centred), random.Stream(65, "observations")
			target := targetFunc(func(z variable) variable {
				r := ad.Scale(ad.Sub(row, z), 1/math.Sqrt(theta.variance))
				return ad.Add(ad.AddConst(hvae.LogNormal(r), -math.Log(theta.variance)/2), hvae.LogNormal(z))
			})
			f := &hvae.Flow[float64]{Target: target, K: K, StepSize: tp.Scalar(0.25), Tempering: hvae.FixedTempering(K, tp.Scalar(1.4))}
			q0 := hvae.DiagonalNormal[float64]{Mean: ad.Scale(row, w), SD: tp.Scalar(s)}
			logs := hvae.HIS(f, q0, noise(&tp, rng, 1, 7*copies), noise(&tp, rng, 1, 7*copies)).LogEstimate().Value.Data
			for j, c := range centred.Data {
				logs[j] -= logNormal(c, 0, 1+theta.variance)
			}
			return logs
		}
		w, sd := 1/(1+theta.variance), math.Sqrt(theta.variance/(1+theta.variance))
		check.near(hvaetest.Norm(gaps(0, w, sd)), 0, 1e-11, "θ = %.2f, q⁰ = posterior, K = 0: ‖log p̂(x) − log p(x)‖", theta)
		for _, K := range []int{0, 3} {
			check.below(gaps(K, w+0.2, 1.35*sd), 0, "θ = %.2f, q⁰ ≠ posterior, K = %d: L_ELBO − objective", theta, K)
		}
	}
}

// simplified returns S [1×B], the estimate on the right side of equation 12, for a sample s of a tied flow. If q⁰ is a
// DiagonalNormal and ε is not nil, it returns S′, in which the entropy of q⁰ replaces −log q⁰(z₀):
//
//	S  = log p(x, z_K) − ½ρ_Kᵀρ_K − log q⁰(z₀) + ℓ/2,
//	S′ = S − ½εᵀε + ℓ/2.
func simplified(s hvae.Sample[float64], target hvae.Target[float64], q0 hvae.DiagonalNormal[float64], epsilon variable) variable {
	n, half := s.End.Rho.Cols(), float64(s.End.Rho.Rows())/2
	kinetic := ad.Scale(ad.MulSumTo(s.End.Rho, s.End.Rho, 1, n), 0.5)
	S := ad.AddConst(ad.Sub(ad.Sub(target.LogJoint(s.End.Z), kinetic), q0.LogDensity(s.Start.Z)), half)
	if epsilon == nil {
		return S
	}
	return ad.AddConst(ad.Sub(S, ad.Scale(ad.MulSumTo(epsilon, epsilon, 1, n), 0.5)), half)
}

// sameGradient checks that both sides of equation 12 have the same mean and gradients. The left side is the mean of log
// p̂(x), and the right side the mean of the simplified estimate (see simplified). The difference
//
//	log p̂(x) − [log p(x, z_K) − ½ρ_Kᵀρ_K − log q⁰(z₀) + ℓ/2] = ½γ₀ᵀγ₀ − ℓ/2
//
// depends only on the noise γ₀ ~ N(0, I) of the initial momentum, not on the parameters, and its mean is zero. The same
// holds for S′ and ½εᵀε. The check compares both sides in each of 50 draws. It also compares the gradients of their means with respect to the
// parameters of the Gaussian model, of the variational prior and of the flow.
func sameGradient(check *report) {
	const dims, n = 5, 50
	_, data, _ := points(dims, 3)
	for _, s := range schemes() {
		var tp tape
		leaf := func(rows, cols int, v float64) variable { return tp.Leaf(filled(rows, cols, v)) }
		delta, logSigma, mean, sd := leaf(dims, 1, 0.3), leaf(dims, 1, 0.2), leaf(dims, 1, -0.1), leaf(dims, 1, 0.8)
		leaves := []variable{delta, logSigma, mean, sd}
		f := s.Flow(&tp, model.NewTarget(data, delta, logSigma), dims)
		if s.K > 0 {
			switch s.Tempering {
			case "fixed":
				invSqrtBeta0 := leaf(1, 1, 1.4)
				f.Tempering, leaves = hvae.FixedTempering(s.K, invSqrtBeta0), append(leaves, invSqrtBeta0)
			case "free":
				alpha := leaf(s.K, 1, 0.9)
				f.Tempering, leaves = hvae.FreeTempering(alpha), append(leaves, alpha)
			}
			leaves = append(leaves, f.StepSize)
		}
		rng := random.Stream(4, "gradient")
		epsilon, gamma0 := noise(&tp, rng, dims, n), noise(&tp, rng, dims, n)
		q0 := hvae.DiagonalNormal[float64]{Mean: mean, SD: sd}
		sample := hvae.HIS(f, q0, epsilon, gamma0)
		logEstimate, S := sample.LogEstimate(), simplified(sample, f.Target, q0, nil)
		entropy := simplified(sample, f.Target, q0, epsilon) // S′
		want := ad.AddConst(ad.Scale(ad.MulSumTo(gamma0, gamma0, 1, n), 0.5), -dims/2.)
		check.vectors(ad.Sub(logEstimate, S).Value.Data, want.Value.Data, 1e-11, "%v: log p̂(x) minus the right side", s)
		for i, l := range leaves {
			left, right := ad.Grad(ad.Mean(logEstimate), l).Value.Data, ad.Grad(ad.Mean(S), l).Value.Data
			check.vectors(left, right, 1e-11, "%v, parameter %d: gradients of both sides", s, i)
			check.vectors(left, ad.Grad(ad.Mean(entropy), l).Value.Data, 1e-11, "%v, parameter %d: gradients of log p̂(x) and S′", s, i)
		}
	}
}

// simplifiedVariance checks when equation 12 reduces the variance. Let S be the simplified estimate on the right
// side, and let γ₀ ~ N(0, I) be the noise of the initial momentum. Then log p̂ − S = ½γ₀ᵀγ₀ − ℓ/2, so
//
//	Var(S) = Var(log p̂) + ℓ/2 − 2 Cov(log p̂, ½γ₀ᵀγ₀).
//
// Rao-Blackwellisation replaces an estimate with its conditional expectation, but equation 12 replaces only the term
// ½γ₀ᵀγ₀, which is correlated with the other terms. Training is not affected, because both have the same gradients.
//   - For U = ½ω²z² and one ε < 2/ω for all steps, the leapfrog steps conserve ½ρ² + ½ω²(1 − ε²ω²/4)z², and cooling
//     multiplies this energy by at least α_k². So the final energy is at least ½γ₀², the covariance is at most 0, and
//     the variance grows.
//   - For ω = 3.9, K = 2, no tempering, ε₁ = 0.275 and ε₂ = 0.499 < 2/ω, the covariance is 0.37 > ¼.
//   - For U = 1.34e-8·(zᵀz)⁴ in ℓ = 200 dimensions, q⁰ = N(0, 0.01²I) and one step, the covariance is about 1.3·ℓ/2.
func simplifiedVariance(check *report) {
	covariance := func(omega, heat float64, epsilon ...float64) float64 { // log p̂ is −½ω²z_K² − ½ρ_K² + ½z₀² + ½γ₀² + constant
		var tp tape
		f := &hvae.Flow[float64]{Target: hvaetest.Quadratic{Omega: omega}, K: len(epsilon), StepSize: tp.Const(linalg.Column(epsilon...))}
		f.Tempering = hvae.FixedTempering(f.K, tp.Scalar(heat))
		A, _ := affineMap(f, hvae.DiagonalNormal[float64]{Mean: tp.Scalar(0), SD: tp.Scalar(1)})
		z, rho := A.At(0, 1), A.At(1, 1)           // coefficients of γ₀
		return (1 - omega*omega*z*z - rho*rho) / 2 // the coefficient of γ₀² in log p̂
	}
	excess := func(target hvae.Target[float64], epsilon matrix, sd float64, n int) (excess, se float64) { // epsilon is [K×ℓ]
		var tp tape
		f := &hvae.Flow[float64]{Target: target, K: epsilon.Rows, StepSize: tp.Const(epsilon)}
		rng, dims := random.Stream(6, "simplified"), epsilon.Cols
		q0 := hvae.DiagonalNormal[float64]{Mean: tp.Fill(dims, 1, 0), SD: tp.Fill(dims, 1, sd)}
		sample := hvae.HIS(f, q0, noise(&tp, rng, dims, n), noise(&tp, rng, dims, n))
		squares := func(x []float64) []float64 { mean, _ := linalg.MeanSE(x); return squaredDeviations(x, mean) }
		S := simplified(sample, target, q0, nil).Value.Data
		return linalg.MeanSE(differences(squares(S), squares(sample.LogEstimate().Value.Data)))
	}
	for _, omega := range []float64{0.3, 1, 3.9, 20} {
		for _, K := range []int{1, 2, 3, 10, 30} {
			for _, heat := range []float64{1, 1.5, 4} { // 1/√β₀
				for stability := 0.05; stability < 1; stability += 0.05 { // εω/2, which must be below 1
					c := covariance(omega, heat, slices.Repeat([]float64{2 * stability / omega}, K)...)
					check.less(c, 1e-12, "ω = %v, K = %d, 1/√β₀ = %v, εω/2 = %.2f: one ε, Cov(log p̂, ½γ₀²) ≤ 0", omega, K, heat, stability)
				}
			}
		}
	}
	for i, epsilon := range [][]float64{{0.5, 0.5}, {0.275, 0.499}} {
		omega, name := []float64{1, 3.9}[i], []string{"one ε", "ε varied"}[i]
		e, se := excess(hvaetest.Quadratic{Omega: omega}, linalg.Column(epsilon...), 1, 100000)
		want := 0.5 - 2*covariance(omega, 1, epsilon...)
		check.estimate(e, se, "=", want, "ω = %v, ε = %v: %s, Var(S) − Var(log p̂)", omega, epsilon, name)
	}
	check.greater(covariance(3.9, 1, 0.275, 0.499), 0.25, "ω = 3.9, ε = [0.275 0.499]: ε varied, Cov(log p̂, ½γ₀²) > ¼")
	steep := targetFunc(func(z variable) variable {
		return ad.Scale(ad.Square(ad.Square(ad.MulSumTo(z, z, 1, z.Cols()))), -1.34e-8)
	})
	e, se := excess(steep, filled(1, 200, 1), 0.01, 4000)
	check.estimate(e, se, "<", 0, "ℓ = 200, K = 1: steep U, Var(S) − Var(log p̂)")
}

// replacedTerms checks what the terms that S and S′ replace by their means (see simplified) are worth. If the flow maps
// q⁰ exactly to the posterior, log p̂ has no variance, because the terms cancel, but Var(S) = ℓ/2 and Var(S′) = ℓ. For
// a bad fit it can be otherwise. All three are quadratic forms xᵀMx + constant of x = (ε, γ₀) ~ N(0, I), with the variance
// 2 tr M². The target is N(0, 1), q⁰ is N(0, q²), and K = 1 with untied tempering. The expected values of the bad fit were
// simulated.
func replacedTerms(check *report) {
	for _, c := range []struct {
		name              string
		q, epsilon, s, al float64
		want              [3]float64
	}{
		{"flow of untiedOptimum", 3, math.Sqrt2, 1 / math.Sqrt2, math.Sqrt2 / 3, [3]float64{0, 0.5, 1}},
		{"ε = 0.3, s = 1, α = 0.5", 1, 0.3, 1, 0.5, [3]float64{0.283, 0.100, 0.533}},
	} {
		var tp tape
		f := &hvae.Flow[float64]{Target: hvaetest.Quadratic{Omega: 1}, K: 1, StepSize: tp.Scalar(c.epsilon), Tempering: hvae.UntiedTempering(tp.Scalar(c.al), tp.Scalar(c.s))}
		A, _ := affineMap(f, hvae.DiagonalNormal[float64]{Mean: tp.Scalar(0), SD: tp.Scalar(c.q)})
		for i, name := range []string{"log p̂", "S", "S′"} {
			// −½(z_K² + ρ_K²) + ½ε² + ½γ₀², without the terms that are replaced
			var M [2][2]float64
			for j := range 2 {
				for k := range 2 {
					M[j][k] = -(A.At(0, j)*A.At(0, k) + A.At(1, j)*A.At(1, k)) / 2
				}
			}
			if i < 2 {
				M[0][0] += 0.5
			}
			if i < 1 {
				M[1][1] += 0.5
			}
			variance := 2 * (M[0][0]*M[0][0] + 2*M[0][1]*M[0][1] + M[1][1]*M[1][1])
			check.within(math.Abs(variance-c.want[i]), 2e-3, number(variance), number(c.want[i]), "%s: Var(%s) per dimension", c.name, name)
		}
	}
}

// averageGradient checks the gradients of log p̂, which Algorithm 2 uses. For fixed noise, the average ELBO of a batch is
// a smooth function of θ and φ, and the distribution of the noise does not depend on them. So the expected gradient of
// this average is the gradient of the ELBO. Automatic differentiation must agree with numerical derivatives in every
// parameter, for the methods of section 4.1 and for flows with hvaetest.Bimodal, which has no closed-form gradient.
func averageGradient(check *report) {
	const dims, n = 2, 30
	for _, s := range schemes() {
		logit := filled(s.Flow(new(tape), nil, dims).StepSize.Rows(), dims, 0.2)
		params := []matrix{linalg.Column(0.2, -0.1), linalg.Column(0.1, -0.2), logit, linalg.Column(math.Log(0.6)), filled(s.K, 1, 1.5)}
		err := hvaetest.GradientError(params, func(t *tape, p []variable) variable {
			rng := random.Stream(16, "common random numbers")
			epsilon, gamma0 := noise(t, rng, dims, n), noise(t, rng, dims, n)
			f := &hvae.Flow[float64]{Target: hvaetest.Bimodal, K: s.K, StepSize: hvae.Constrain(p[2], 0, 0.5)}
			switch s.Tempering {
			case "fixed":
				f.Tempering = hvae.FixedTempering(s.K, hvae.Constrain(p[3], 1, inf))
			case "free":
				f.Tempering = hvae.FreeTempering(ad.Sigmoid(p[4]))
			}
			return hvae.HIS(f, hvae.DiagonalNormal[float64]{Mean: p[0], SD: ad.Exp(p[1])}, epsilon, gamma0).LogEstimate()
		})
		check.near(err, 0, 1e-7, "%v: relative error of the gradient", s)
	}
	for _, name := range model.MethodNames() {
		_, data, _ := points(3, 20)
		m, rng := model.NewMethod(name, data, random.Stream(13, name)), random.Stream(14, name)
		var params []matrix
		for _, p := range m.Params {
			if p.Name == "log_sigma" {
				p.Value.Fill(0.5) // σ near the standard deviation of the data, so that every term matters
			}
			for i := range p.Value.Data {
				p.Value.Data[i] += 0.3 * rng.NormFloat64()
			}
			params = append(params, p.Value)
		}
		err := hvaetest.GradientError(params, func(t *tape, params []variable) variable {
			return m.ELBO(params, noise(t, random.Stream(15, "common random numbers"), m.NoiseRows, 10))
		})
		check.near(err, 0, 1e-7, "%s: relative error of the gradient", name)
	}
}

// trainingIncreasesELBO checks Algorithm 2, θ ← UpdateTheta(∇_θ L̂, θ) and φ ← UpdatePhi(∇_φ L̂, φ), where
// L̂ is the average estimate of the ELBO over a batch. For each method of section 4.1, 500 steps with 30
// points in two dimensions must increase the ELBO by at least 30 nats.
func trainingIncreasesELBO(check *report) {
	for _, name := range model.MethodNames() {
		_, data, _ := points(2, 30)
		m := model.NewMethod(name, data, random.Stream(18, name))
		trainer := model.NewTrainer(m, 1e-2, 19)
		before, _, err := trainer.Evaluate(check.t.Context(), hvae.Draws(1000), 1, trainer.Bound)
		check.must(err)
		for range 500 {
			_, err := trainer.Step(check.t.Context(), hvae.Draws(10))
			check.must(err)
		}
		after, _, err := trainer.Evaluate(check.t.Context(), hvae.Draws(1000), 1, trainer.Bound)
		check.must(err)
		check.greater(after, before+30, "%s: ELBO after > ELBO before + 30", name)
	}
}

var section41 = section{"4.1", "Gaussian Model", []statement{
	{"", "the model: z ~ N(0, I), x_i|z ~ N(z + Δ, Σ)", gaussianModel, ""},
	{"", "log p(D, z) is a sum over the points, and log p(D), the posterior and θ* have closed forms", exactEvidence, ""},
	{"", "U(z) = −log p(D, z), so ∇U = z + NΣ⁻¹(z + Δ − x̄)", potentialGradient,
		"U(z|D) = log p(D, z), and ∇U = z + NΣ⁻¹(z + Δ − x), where x is not defined"},
	{"", "HVAE: the ELBO is below log p(D) by the divergence of q^K from the posterior", hvaeBound, ""},
	{"", "VB: the ELBO is below log p(D) by the divergence of q from the posterior", vbBound, ""},
	{"", "planar flow: equations (10) and (13) of Rezende and Mohamed", planarFlow, ""},
	{"", "φ has d + 1 parameters (HVAE), 2d + 1 (planar flow) and 2d (VB), and ε_j is in (0, ξ)", parameters, ""},
	{"", "σ is 1 at both ends and 0.1 in the middle; for d = 1 it is 1, as in the authors' code", trueParameters,
		"σ_1 = 1 and σ_((d+1)/2) = 0.1, a contradiction for d = 1"},
	{"figure 1a, fig:all_methods", "as d increases, HVAE performs best; VB's error is in Δ, the planar flow's also in Σ (stored results)", figure1a, ""},
	{"figure 1b, fig:temp_vs_no_temp", "tempering reduces the error: a run with d = 2 and N = 1000, and the stored results", figure1b, ""},
}}

// gaussianModel checks that simulated data with z ~ N(0, I) and independent x_i|z ~ N(z + Δ, Σ) satisfy
//
//	E[x̄] = Δ,   Var(x̄) = 1 + σ²/N,   E[S/σ²] = N − 1,   S = Σ_i (x_i − x̄)²
//
// in each of three independent dimensions. The check simulates 4000 datasets of N = 5 points.
func gaussianModel(check *report) {
	const n, datasets = 5, 4000
	truth := model.Truth(3)
	var deviations, scatters [3][]float64 // (x̄ − Δ)/√(1 + σ²/N) and S/σ²
	for k := range datasets {
		data, err := model.Draw(check.t.Context(), truth, n, random.Stream(22, "distribution", k))
		check.must(err)
		for j := range 3 {
			variance := truth.Sigma[j] * truth.Sigma[j]
			deviations[j] = append(deviations[j], (data.Mean[j]-truth.Delta[j])/math.Sqrt(1+variance/n))
			scatters[j] = append(scatters[j], data.Scatter[j]/variance)
		}
	}
	for j := range 3 {
		check.mean(deviations[j], 0, 0.02, "dimension %d: E[x̄ − Δ]/√(1 + σ²/N)", j+1)
		check.mean(squaredDeviations(deviations[j], 0), 1, 0.03, "dimension %d: Var(x̄)/(1 + σ²/N)", j+1)
		check.mean(scatters[j], n-1, 0.05, "dimension %d: E[S/σ²]", j+1)
		products := slices.Clone(deviations[j])
		for k := range products {
			products[k] *= deviations[(j+1)%3][k]
		}
		check.mean(products, 0, 0.03, "dimensions %d and %d: correlation of x̄", j+1, (j+1)%3+1)
	}
}

// exactEvidence checks
//
//	log p(D, z) = Σ_i log N(x_i|z + Δ, Σ) + log N(z|0, I)
//
// and the paper's statement "we can calculate the log-likelihood log p(D) exactly in this case". In each of three
// dimensions, the check computes p(D), and the mean and variance of p(z|D), by quadrature. At points near θ* = argmax
// log p(D), the value of log p(D) must be smaller than at θ*.
func exactEvidence(check *report) {
	const d, n = 3, 7
	overZ := func(f func(float64) float64) float64 { return integrate(f, -12, 12, 4000) }
	x, data, theta := points(d, n)
	var tp tape
	z := noise(&tp, random.Stream(20, "z"), d, 1)
	exact := posterior(data, theta)
	logJoint, logEvidence := 0.0, 0.0
	for j := range d {
		at := func(z float64) float64 { // log p(D, z) in dimension j
			sum := logNormal(z, 0, 1)
			for _, v := range x.Row(j) {
				sum += logNormal(v, z+theta.Delta[j], theta.Sigma[j]*theta.Sigma[j])
			}
			return sum
		}
		density := func(z float64) float64 { return math.Exp(at(z)) }
		evidence := overZ(density)
		logJoint, logEvidence = logJoint+at(z.Value.At(j, 0)), logEvidence+math.Log(evidence)
		m := overZ(func(z float64) float64 { return z * density(z) }) / evidence
		v := overZ(func(z float64) float64 { return (z - m) * (z - m) * density(z) }) / evidence
		check.near(exact.mean[j], m, 1e-11, "dimension %d: posterior mean = quadrature", j+1)
		check.near(exact.sd[j]*exact.sd[j], v, 1e-11, "dimension %d: posterior variance = quadrature", j+1)
	}
	check.near(gaussian(&tp, data, theta).LogJoint(z).Scalar(), logJoint, 1e-13, "log p(D, z) = sum over the points")
	check.near(data.LogEvidence(theta), logEvidence, 1e-12, "log p(D) = quadrature")

	for _, n := range []int{2, 3, 20, 10000} {
		data, err := model.Draw(check.t.Context(), model.Truth(3), n, random.Stream(21, "ml", n))
		check.must(err)
		best := data.MaximumLikelihood()
		top := data.LogEvidence(best)
		for j := range 3 {
			for _, p := range [][]float64{best.Delta, best.Sigma} {
				at := func(h float64) float64 {
					defer func(v float64) { p[j] = v }(p[j])
					p[j] += h * best.Sigma[j]
					return data.LogEvidence(best)
				}
				for _, h := range []float64{-0.3, -1e-5, 1e-5, 0.3} {
					check.less(at(h), top, "N = %d, dimension %d, h = %v: log p(D) at θ* + hσ < at θ*", n, j+1, h)
				}
			}
		}
	}
}

// potentialGradient checks ∇U(z) = z + NΣ⁻¹(z + Δ − x̄) against numerical and automatic differentiation of
// U(z) = −log p(D, z), and against the closed form of model.Target.
func potentialGradient(check *report) {
	const d, n = 3, 7
	_, data, theta := points(d, n)
	var tp tape
	g := gaussian(&tp, data, theta)
	z := tp.Leaf(linalg.Column(0.3, -1.2, 0.8))
	closed := hvae.PotentialGradient[float64](g, z)
	taped := hvae.PotentialGradient[float64](targetFunc(g.LogJoint), z)
	constant := model.NewTarget(data, tp.Const(linalg.Column(theta.Delta...)), ad.Log(tp.Const(linalg.Column(theta.Sigma...))))
	want := make([]float64, d)
	for j := range want {
		zj := z.Value.At(j, 0)
		want[j] = zj + n/(theta.Sigma[j]*theta.Sigma[j])*(zj+theta.Delta[j]-data.Mean[j])
	}
	numerical := hvaetest.Gradient(func(z []float64) float64 { return -constant.LogJoint(tp.Const(linalg.Column(z...))).Scalar() }, z.Value.Data)
	check.vectors(numerical, want, 1e-9, "numerical derivative of −log p(D, z)")
	check.vectors(taped.Value.Data, want, 1e-12, "automatic derivative of −log p(D, z)")
	check.vectors(closed.Value.Data, want, 1e-12, "closed form")
	printed := apply(numerical, func(g float64) float64 { return -g })
	check.vectors(printed, apply(want, func(g float64) float64 { return -g }), 1e-9, "as printed: ∇ log p(D, z) = −∇U")
}

// hvaeBound checks
//
//	L_ELBO(θ, φ; D) = E[log p(D, z_K) − ½ρ_Kᵀρ_K − log q⁰(z₀)] + ℓ/2 ≤ log p(D),
//	log p(D) − L_ELBO = KL(q^K(z, ρ) ‖ p(z|D) N(ρ|0, I))
//
// for three points in two dimensions, with and without tempering. The potential is quadratic, so (z_K, ρ_K) is an
// affine function of the noise. Both densities are then normal, and the divergence has a closed form (affineGap).
func hvaeBound(check *report) {
	_, data, theta := points(2, 3)
	for tempering, heat := range map[string]float64{"fixed": 1.4, "none": 1} { // heat is 1/√β₀
		for _, K := range []int{1, 10} {
			draws := elboDraws(model.NewHVAE(data, K, tempering), theta, 40000, 30, []float64{-0.4, -0.4}, []float64{math.Log(0.4)})
			var tp tape
			f := &hvae.Flow[float64]{Target: gaussian(&tp, data, theta), K: K, StepSize: tp.Fill(1, 2, 0.5/(1+math.Exp(0.4)))}
			f.Tempering = hvae.FixedTempering(K, tp.Scalar(heat))
			gap := affineGap(f, hvae.DiagonalNormal[float64]{Mean: tp.Fill(2, 1, 0), SD: tp.Fill(2, 1, 1)}, posterior(data, theta))
			check.mean(draws, data.LogEvidence(theta)-gap, 0.2, "tempering %s, K = %d: L_ELBO = log p(D) − divergence", tempering, K)
			check.below(draws, data.LogEvidence(theta), "tempering %s, K = %d: L_ELBO < log p(D)", tempering, K)
		}
	}
}

// vbBound checks, for the "mean-field approximate posterior" q(z) = N(z|μ_Z, Σ_Z),
//
//	L_ELBO(θ, φ_V; D) = E_{z~q}[log p(D, z) − log q(z)] = log p(D) − KL(q(z) ‖ p(z|D)).
//
// The check obtains q by shifting and scaling the posterior in each dimension, so the divergence has a closed form.
func vbBound(check *report) {
	_, data, theta := points(3, 6)
	exact := posterior(data, theta)
	for _, q := range []struct{ shift, scale float64 }{{0, 1}, {0.2, 1}, {0, 1.7}, {-0.3, 0.4}} {
		means := apply(exact.mean, func(m float64) float64 { return m + q.shift })
		logSDs := apply(exact.sd, func(sd float64) float64 { return math.Log(q.scale * sd) })
		divergence := 0.0
		for _, sd := range exact.sd {
			divergence += (q.scale*q.scale + q.shift*q.shift/(sd*sd) - 1 - 2*math.Log(q.scale)) / 2
		}
		elbo := elboDraws(model.NewMeanField(data), theta, 1, 0, means, logSDs)[0]
		check.near(elbo, data.LogEvidence(theta)-divergence, 1e-12, "shift %v, scale %v: L_ELBO = log p(D) − divergence", q.shift, q.scale)
	}
}

// planarFlow checks a planar flow of K layers with the same parameters u, w (v in the paper) and b,
//
//	z_k = z_{k−1} + û tanh(wᵀz_{k−1} + b),   û = u + (m(wᵀu) − wᵀu) w/‖w‖²,   m(x) = log(1 + eˣ) − 1,
//	log q_K(z_K) = log q⁰(z₀) − log |det ∂z_K/∂z₀|.
//
// The check computes the expected z_K in scalar arithmetic, and the expected determinant from a numerical Jacobian. It
// also checks E[p̂(D)] = p(D) for p̂(D) = p(D, z_K)/q_K(z_K). This requires the factor ½ in the data term of log p(D,
// z_K), which the authors' code omits.
func planarFlow(check *report) {
	for _, d := range []int{1, 2, 3} {
		for _, K := range []int{1, 2, 7} {
			u, w, b := []float64{-1.5, 0.4, -0.3}[:d], []float64{1.1, -0.6, 0.8}[:d], 0.7 // wᵀu < −1, so û differs much from u
			flow := func(z []float64) (zK []float64, logDet float64) {
				var tp tape
				end, l := model.PlanarFlow(tp.Const(linalg.Column(z...)), tp.Const(linalg.Column(u...)), tp.Const(linalg.Column(w...)), tp.Scalar(b), K)
				return end.Value.Data, l.Scalar()
			}
			z, want := phasePoint[:d], slices.Clone(phasePoint[:d])
			wu, ww := dot(w, u), dot(w, w)
			m := math.Log1p(math.Exp(wu)) - 1
			for range K {
				h := math.Tanh(dot(w, want) + b)
				for j := range want {
					want[j] += (u[j] + (m-wu)*w[j]/ww) * h
				}
			}
			zK, logDet := flow(z)
			det := hvaetest.Determinant(hvaetest.Jacobian(func(z []float64) []float64 { zK, _ := flow(z); return zK }, z))
			check.vectors(zK, want, 1e-12, "d = %d, K = %d: z_K", d, K)
			check.near(logDet, math.Log(det), 1e-6, "d = %d, K = %d: log |det ∂z_K/∂z₀|", d, K)
		}
	}
	_, data, theta := points(2, 3)
	for _, K := range []int{1, 4, 30} {
		p := model.NewPlanar(data, K, random.Stream(27, "planar"))
		// Choose wᵀu so that wᵀû = softplus(wᵀu) − 1 = 0.6/K. The small value keeps Var(p̂) small.
		wu := math.Log(math.Expm1(1 + 0.6/float64(K)))
		logEstimates := elboDraws(p, theta, 40000, 28, []float64{wu, 0.3 / float64(K)}, []float64{1, 0}, []float64{0.1})
		check.mean(ratios(logEstimates, data.LogEvidence(theta)), 1, 0.03, "K = %d: E[p̂(D)]/p(D)", K)
	}
}

// parameters checks the numbers of parameters of the three methods: "φ ∈ R^{d+1}" for the HVAE (ε and β₀), φ_N = {u, v,
// b} "∈ R^{2d+1}" for the planar flow, "with the same flow parameters across iterations", and φ_V = {μ_Z, Σ_Z} for VB.
// The paper says: "We constrain each of the leapfrog step sizes such that ε_j ∈ (0, ξ)". So ε_j = ξ·sigmoid(logit) with
// ξ = ½ must increase with the logit from 0 to ξ.
func parameters(check *report) {
	const d, xi = 3, 0.5
	_, data, _ := points(d, 10)
	want := map[string]float64{"hvae-k1": d + 1, "hvae-k10": d + 1, "hvae-notemp-k1": d, "hvae-notemp-k10": d, "nf-k1": 2*d + 1, "nf-k30": 2*d + 1, "vb": 2 * d}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		n := 0.0
		for _, p := range model.NewMethod(name, data, random.Stream(24, "start")).Params[2:] { // without Δ and log σ
			n += float64(len(p.Value.Data))
		}
		check.near(n, want[name], 0, "%s, d = 3: number of parameters in φ", name)
	}
	var tp tape
	last := 0.0
	for logit := -10.0; logit <= 10; logit++ {
		epsilon := hvae.Constrain(tp.Scalar(logit), 0, xi).Scalar()
		check.greater(epsilon, last, "logit %v: ε > ε of the next smaller logit", logit)
		check.less(epsilon, xi, "logit %v: ε < ξ", logit)
		check.near(epsilon, xi/(1+math.Exp(-logit)), 1e-12, "logit %v: ε = ξ·sigmoid(logit)", logit)
		last = epsilon
	}
}

// trueParameters checks the true Δ = (−(d−1)/2, …, (d−1)/2)/5. The true σ must "range quadratically
// from σ_1 = 1, reaching a minimum at σ_{(d+1)/2} = 0.1, and increasing back to σ_d = 1".
func trueParameters(check *report) {
	got := model.Truth(5)
	check.vectors(got.Delta, []float64{-0.4, -0.2, 0, 0.2, 0.4}, 1e-14, "d = 5: Δ")
	check.vectors(got.Sigma, []float64{1, 0.325, 0.1, 0.325, 1}, 1e-14, "d = 5: σ")
	for _, d := range []int{1, 2, 11, 50, 301} {
		truth := model.Truth(d)
		check.near(truth.Sigma[0], 1, 1e-14, "d = %d: σ_1", d)
		check.near(truth.Sigma[d-1], 1, 1e-14, "d = %d: σ_d", d)
		check.near(truth.Delta[d-1], float64(d-1)/10, 1e-12, "d = %d: Δ_d", d)
	}
}

// figure1a checks the paper's statement "as the dimension increases, HVAE performs best in parameter estimation. The VB
// method suffers most on prediction of Δ as the dimension increases, whereas the NF method does poorly on predicting
// Σ". It reads our stored results, because the experiment takes minutes. In the figure, the lines of HVAE and VB cross
// between d = 51 and 60. For d = 60, go run ./gaussian -d 60 -methods hvae-k1,vb prints the errors 60 ± 3 and 71 ± 2.
func figure1a(check *report) {
	for _, d := range []float64{101, 201, 301} {
		best, se := figure1(check, d, "hvae-k1", "err"), figure1(check, d, "hvae-k1", "err_se")
		for _, name := range []string{"vb", "nf-k1", "nf-k30"} {
			otherSE := figure1(check, d, name, "err_se")
			check.estimate(best-figure1(check, d, name, "err"), math.Hypot(se, otherSE), "<", 0, "d = %v: ‖θ − θ̂‖², HVAE − %s", d, name)
		}
		check.less(figure1(check, d, "vb", "sigma_err"), figure1(check, d, "vb", "delta_err"), "d = %v: VB, error in σ < error in Δ", d)
		check.less(100*figure1(check, d, "hvae-k1", "sigma_err"), figure1(check, d, "nf-k1", "sigma_err"), "d = %v: error in σ, 100·HVAE < planar flow", d)
	}
}

// figure1b checks the paper's statement "the tempered methods perform better than their non-tempered counterparts". In
// a run with d = 2 and N = 1000, the error in σ without tempering must be more than ten times as large as with
// tempering, and larger for K = 10 than for K = 1. With tempering, the ELBO must be larger than without, and Δ̂ must be
// within 0.1 of the maximum-likelihood estimate, which allows for the noise of the gradients. In our stored results,
// tempering must reduce the error for every d ≥ 2.
func figure1b(check *report) {
	c := model.Config{Points: 1000, Iterations: 6000, Draws: 10, Rate: 2e-3, Seed: 1}
	results := map[string]model.Outcome{}
	for _, name := range []string{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10"} {
		o, err := c.Train(check.t.Context(), name, 2, 0, func() {})
		check.must(err)
		results[name] = o
	}
	data, err := model.Draw(check.t.Context(), model.Truth(2), c.Points, random.Stream(c.Seed, "gaussian data", 2, 0))
	check.must(err)
	best := data.MaximumLikelihood()
	for _, K := range []string{"k1", "k10"} {
		with, without := results["hvae-"+K], results["hvae-notemp-"+K]
		check.less(10*with.SigmaErr, without.SigmaErr, "d = 2, %s: error in σ, 10·tempered < none", K)
		check.greater(with.ELBO, without.ELBO, "d = 2, %s: ELBO, tempered > none", K)
		check.near(hvaetest.Distance(with.Theta.Delta, best.Delta), 0, 0.1, "d = 2, %s: ‖Δ̂ − maximum likelihood‖", K)
	}
	check.less(results["hvae-notemp-k1"].SigmaErr, results["hvae-notemp-k10"].SigmaErr, "d = 2, no tempering: error in σ, K = 1 < K = 10")
	for _, d := range []float64{2, 3, 5, 11, 25, 51, 101, 201, 301} {
		for _, K := range []string{"k1", "k10"} {
			check.less(figure1(check, d, "hvae-"+K, "err"), figure1(check, d, "hvae-notemp-"+K, "err"), "d = %v, %s: stored ‖θ − θ̂‖², tempered < none", d, K)
		}
	}
}

var section42 = section{"4.2", "Generative Model for MNIST", []statement{
	{"", "the pixels are independent given z: log p(x|z) = Σ_j log Bernoulli(x_j|π_j)", bernoulliPixels, ""},
	{"", "the number of weights follows from the layers; the generative network is the decoder", networks,
		"\"the generative network, or encoder\""},
	{"", "z₀ = μ + Σ^½·ε, and HVAE with K = 0 is the VAE", vaeBound, ""},
	{"", "stochastic binarisation: x_j ~ Bernoulli(grey_j/255), independently", stochasticBinarisation, ""},
	{"", "ℓ = 64, learning rate 10⁻³, and training stops after 100 epochs without a better validation ELBO", trainingProtocol, ""},
	{"", "importance samples from the HVAE's posterior estimate p(x) without bias, so the NLL is estimated from above", importanceNLL, ""},
	{"", "samples from the HVAE's posterior have \"non-negligible covariance across dimensions\"", posteriorCovariance, ""},
	{"table 1, tab:mnist_nll", "the published values are means over the supplement's runs; in tab:varied_eps, ε varies", publishedTable,
		"\"List of tests of HVAE for ε fixed across flow layers\", the caption of tab:varied_eps"},
}}

// bernoulliPixels checks
//
//	log p(x|z) = Σ_j x_j log π_j + (1 − x_j) log(1 − π_j),   π = sigmoid(a),
//
// where the vector a contains the logits of the pixels. The paper says that "each pixel in the image x_i is
// conditionally independent given the latent variable". The formula must also hold for logits ±900, where π_j is 0 or
// 1.
func bernoulliPixels(check *report) {
	var tp tape
	x, a := []float64{1, 0, 1, 0, 1, 0, 1, 0}, []float64{0.3, 0.3, -4, -4, 900, 900, -900, -900}
	want := 0.0 - 900 - 900 + 0 // the last four pixels
	for i, logit := range a[:4] {
		pi := 1 / (1 + math.Exp(-logit))
		want += x[i]*math.Log(pi) + (1-x[i])*math.Log(1-pi)
	}
	check.near(mnist.LogBernoulli(tp.Const(linalg.Column(x...)), tp.Const(linalg.Column(a...))).Scalar(), want, 1e-14, "log p(x|z)")
}

// networks checks the numbers of weights. The inference network has "three convolutional layers, each with filters of
// size 5 × 5 and a stride of 2", with 16, 32 and 32 feature maps, and a "hidden dimension n_h = 450". The generative
// network "mirrors this structure in reverse". (A test of package mnist/model compares both with PyTorch.) The flow
// adds only ε and β₀ or α, which are not "outputs of the inference network".
func networks(check *report) {
	const latent, filter, maps3 = 64, 5 * 5, 4 * 4 * 32 // stride 2 reduces 28×28 pixels to 14×14, 7×7 and 4×4
	convolutions := 16*filter + 32*16*filter + 32*32*filter
	inference := convolutions + 16 + 32 + 32 + (maps3+1)*450 + 2*(450+1)*latent
	generative := convolutions + 32 + 16 + 1 + (450+1)*maps3 + (latent+1)*450
	for i, c := range []mnist.Config{
		{Kind: "vae", Tempering: "none", Latent: latent},
		{Kind: "hvae", K: 5, Tempering: "fixed", Latent: latent},
		{Kind: "hvae", K: 5, Tempering: "free", VaryEps: true, Latent: latent},
	} {
		n, flow := 0, []int{0, latent + 1, 5*latent + 5}[i]
		for _, p := range mnist.New[float32](c, 0, 1).Params() {
			n += len(p.Value.Data)
		}
		check.near(float64(n), float64(inference+generative+flow), 0, "%v: number of parameters", c)
	}
}

// vaeBound checks that "HVAE on top of the base convolutional VAE" with K = 0 is the VAE. For the same noise, log p̂
// must equal log p(x, z₀) − log q⁰(z₀) with z₀ = μ(x) + Σ^½(x)·ϵ. The ELBO estimate of the VAE must be log p(x|z₀) −
// KL(N(μ, Σ) ‖ N(0, I)), where the divergence is computed by quadrature. The ELBO estimates of the two models replace
// different terms by their expectations, so only their means must be equal.
func vaeBound(check *report) {
	const draws = 100
	var tp tape
	a := mnistNetwork[float64](mnist.Config{Kind: "vae", Tempering: "none", Latent: 2}).Const(&tp)
	b := mnistNetwork[float64](mnist.Config{Kind: "hvae", Tempering: "none", Latent: 2}).Const(&tp)
	x, rng := image(&tp), random.Stream(11, "without steps")
	epsilon, gamma0 := noise(&tp, rng, 2, draws), noise(&tp, rng, 2, draws)
	mean, sd := a.Encode(x)
	z0 := ad.Add(mean, ad.Mul(sd, epsilon))
	logLikelihood := mnist.LogBernoulli(x, a.Decode(z0))
	divergence, logRatio := 0.0, make([]float64, draws) // logRatio is log q⁰(z₀) − log p(z₀)
	for j := range 2 {
		q, p := normal{mean.Value.Data[j], math.Pow(sd.Value.Data[j], 2)}, normal{0, 1}
		divergence += integrate(func(z float64) float64 { return math.Exp(q.log(z)) * (q.log(z) - p.log(z)) }, q.mean-15, q.mean+15, 4000)
		for i, z := range z0.Value.Row(j) {
			logRatio[i] += q.log(z) - p.log(z)
		}
	}
	elbo := apply(logLikelihood.Value.Data, func(l float64) float64 { return l - divergence })
	logEstimate := differences(logLikelihood.Value.Data, logRatio)
	many := ad.BroadcastTo(x, 784, draws)
	vaeELBO := a.VAEBound(many, epsilon).Value.Data
	check.vectors(vaeELBO, elbo, 1e-12, "ELBO of the VAE = log p(x|z₀) − KL")
	check.vectors(a.Draw(x, mean, sd, epsilon, gamma0).LogEstimate().Value.Data, logEstimate, 1e-12, "VAE: log p̂(x) = log p(x, z₀)/q(z₀|x)")
	check.vectors(b.Draw(x, mean, sd, epsilon, gamma0).LogEstimate().Value.Data, logEstimate, 1e-12, "HVAE: log p̂(x) = log p(x, z₀)/q(z₀|x)")
	check.mean(differences(vaeELBO, b.ELBO(many, epsilon, gamma0).Value.Data), 0, 0.3, "ELBO of the VAE − ELBO of the HVAE")
}

// stochasticBinarisation checks that data.Binarise implements "the standard stochastic binarization of MNIST". The
// pixels x_j ~ Bernoulli(grey_j/255) must be independent, where grey_j ∈ 0 … 255 is the grey level of pixel j. The
// check binarises one image 20,000 times.
func stochasticBinarisation(check *report) {
	const draws = 20000
	image, greys := make([]byte, 784), []byte{1, 17, 128, 128, 254, 0, 255}
	copy(image[200:], greys)
	x := linalg.New[float32](784, 1)
	var pixels [7][]float64
	both, others := make([]float64, draws), 0.0 // others counts wrong values: other than 0 and 1, 1 for black pixels, and 0 for white pixels
	for n := range draws {
		data.Binarise(x, 0, image, random.Stream(1, "binarisation", n))
		for i := range greys {
			v := float64(x.At(200+i, 0))
			if pixels[i] = append(pixels[i], v); v*(1-v) != 0 || i > 4 && v != float64(greys[i])/255 {
				others++
			}
		}
		both[n] = pixels[2][n] * pixels[3][n]
	}
	check.near(others, 0, 0, "number of wrong values")
	for i, grey := range greys[:5] {
		check.mean(pixels[i], float64(grey)/255, 0.01, "grey level %d: frequency of 1", grey)
	}
	check.mean(both, 128./255*128/255, 0.01, "two pixels of grey level 128: frequency that both are 1")
}

// trainingProtocol checks "ℓ = 64", "Adamax with learning rate 10⁻³", and "early stopping by halting the training
// procedure if there is no improvement in the loss on validation data over 100 epochs". If epoch 7 is the best, 107 is
// the last.
func trainingProtocol(check *report) {
	s := mnist.Defaults()
	var epochs []mnist.Metrics
	for mnist.Ended(epochs, s.Epochs, s.Patience) == "" {
		n := len(epochs) + 1
		epochs = append(epochs, mnist.Metrics{Epoch: n, ValELBO: -math.Abs(float64(n - 7))})
	}
	check.near(float64(s.Latent), 64, 0, "ℓ")
	check.near(s.Rate, 1e-3, 0, "learning rate")
	check.near(float64(len(epochs)), 107, 0, "last epoch, if epoch 7 is the best")
}

// importanceNLL checks the paper's statement "we estimate out-of-sample negative log likelihoods (NLLs) using 1000
// importance samples from the HVAE approximate posterior". The check draws p̂_l(x) for one image with a VAE and HVAEs
// of latent dimension ℓ = 1, so log p(x) is known by quadrature. The mean of p̂_l(x) must be p(x). By Jensen's
// inequality, the mean of log((1/L) Σ_l p̂_l(x)) is then at most log p(x) for every L. For L = 1, it must be below log
// p(x). The draws are computed in float32, as in the program mnist.
func importanceNLL(check *report) {
	configs := []mnist.Config{
		{Kind: "vae", Tempering: "none", Latent: 1},
		{Kind: "hvae", K: 2, Tempering: "none", Latent: 1},
		{Kind: "hvae", K: 2, Tempering: "fixed", Latent: 1},
		{Kind: "hvae", K: 2, Tempering: "free", VaryEps: true, Latent: 1},
	}
	var double tape
	network, z := mnistNetwork[float64](configs[0]).Const(&double), grid(8, 200)
	logJoint := mnist.LogBernoulli(image(&double), network.Decode(double.Const(z))).Value.Data
	check.greater(math.Abs(logJoint[120]-logJoint[80]), 0.1, "|log p(x|1.6) − log p(x|−1.6)|")
	for i, z := range z.Data {
		logJoint[i] += logNormal(z, 0, 1)
	}
	logEvidence := linalg.LogSumExp(logJoint) + math.Log(16./200)
	for _, c := range configs {
		const blocks, block = 21, 48
		model := mnistNetwork[float32](c)
		var tp ad.Tape[float32]
		var logs []float64
		rng := random.Stream(8, c.String())
		for range blocks {
			tp.Reset()
			network, x := model.Const(&tp), image(&tp)
			mean, std := network.Encode(x)
			for _, l := range network.Draw(x, mean, std, noise(&tp, rng, 1, block), noise(&tp, rng, 1, block)).LogEstimate().Value.Data {
				logs = append(logs, float64(l))
			}
		}
		check.mean(ratios(logs, logEvidence), 1, 0.05, "%v: E[p̂(x)]/p(x)", c)
		check.below(logs, logEvidence, "%v: E[log p̂(x)] < log p(x)", c)
	}
}

// posteriorCovariance checks the paper's statement "samples from the HVAE approximate posterior exhibit non-negligible
// covariance across dimensions". The model is the HVAE that this repository includes (K = 5, free tempering, a separate
// ε for each step). For each image, most of its 64 latent dimensions are hardly used: in these, the standard deviation
// of q⁰ is nearly 1, as in the prior. The check draws z₀ and z_K 1000 times for each of four simulated images. It
// computes the correlation r of each pair of dimensions in which the standard deviation of q⁰ is below 0.9. The
// dimensions of z₀ are independent, so their mean |r| must be √(2/(π·1000)) = 0.0252. For z_K, it must exceed 0.075.
func posteriorCovariance(check *report) {
	const images, blocks, block = 4, 20, 50
	b, err := os.ReadFile("mnist/results/hvae150.safetensors")
	check.must(err)
	c, err := mnist.DecodeCheckpoint(b)
	check.must(err)
	x, _ := eval.Simulate(c, images, func(image int) *rand.Rand { return random.Stream(62, "images", image) })
	var start, end []float64 // |r| of z₀ and of z_K
	for i := range images {
		z0, zK := make([][]float64, c.Config.Latent), make([][]float64, c.Config.Latent) // draws of each dimension
		var tp ad.Tape[float32]
		rng := random.Stream(62, "noise", i)
		for range blocks {
			tp.Reset()
			pixels := tp.Matrix(784, 1)
			for j := range pixels.Data {
				pixels.Data[j] = x.At(j, i)
			}
			network, image := c.Const(&tp), tp.Const(pixels)
			mean, sd := network.Encode(image)
			s := network.Draw(image, mean, sd, noise(&tp, rng, c.Config.Latent, block), noise(&tp, rng, c.Config.Latent, block))
			for j, v := range sd.Value.Data {
				for k := 0; k < block && v < 0.9; k++ {
					z0[j], zK[j] = append(z0[j], float64(s.Start.Z.Value.At(j, k))), append(zK[j], float64(s.End.Z.Value.At(j, k)))
				}
			}
		}
		start, end = append(start, correlations(z0)...), append(end, correlations(zK)...)
	}
	chance := math.Sqrt(2 / (math.Pi * blocks * block))
	check.greater(float64(len(start)), 200, "number of pairs of used dimensions")
	check.mean(start, chance, 0.001, "mean |r| of z₀ = chance")
	mean, se := linalg.MeanSE(end)
	check.estimate(mean, se, ">", 3*chance, "mean |r| of z_K > 3·chance")
	check.greater(slices.Max(end), 0.3, "largest |r| of z_K")
}

// publishedTable checks the published NLLs that the program mnist prints, which are means over the runs of the paper's
// supplement (published.csv), against table 1. The paper: "We report the average NLL values over either two or three
// different initializations", and "The base VAE achieves an NLL of 83.20". The table gives two decimals.
func publishedTable(check *report) {
	b, err := os.ReadFile("mnist/published.csv") // columns: configuration, seed, epochs, −ELBO and its s.d., NLL and its s.d.
	check.must(err)
	runs := map[string][]float64{}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		fields, nll := strings.Split(line, ","), 0.0
		_, err := fmt.Sscan(fields[5], &nll)
		check.must(err)
		runs[fields[0]] = append(runs[fields[0]], nll)
	}
	compare := func(configuration string, nll float64) {
		mean, _ := linalg.MeanSE(runs[configuration])
		check.greater(float64(len(runs[configuration])), 1, "%s: number of initialisations", configuration)
		check.near(mean-nll, 0, 0.0051, "%s: mean NLL − table 1", configuration)
		delete(runs, configuration)
	}
	compare("vae", 83.20)
	compare("hvae-k1-fixed", 83.32)
	compare("hvae-k1-none", 83.17)
	for K, row := range map[int][6]float64{
		5:  {83.09, 83.26, 83.68, 83.01, 82.94, 83.35},
		10: {82.97, 83.26, 83.40, 82.62, 82.87, 83.25},
		15: {82.78, 83.56, 83.82, 82.62, 83.09, 82.94},
		20: {82.93, 83.18, 83.33, 82.83, 82.85, 82.93},
	} {
		for i, scheme := range []string{"free-shared", "fixed-shared", "none-shared", "free-varied", "fixed-varied", "none-varied"} {
			compare(fmt.Sprintf("hvae-k%d-%s", K, scheme), row[i])
		}
	}
	check.near(float64(len(runs)), 0, 0, "number of other configurations")
}

var beyond = section{"5", "Beyond the paper: the entropy of a flow, and evidence from both sides", []statement{
	{"", "tied tempering keeps the entropy: H(z_K, ρ_K) = H(q⁰) + H(N(0, I)), for every K, ε and α", entropyIsConstant, ""},
	{"", "so the gap of a tied flow of any K is at least ℓ(exp(ΔH/ℓ) − 1) − ΔH, if the posterior is normal", tiedGap, ""},
	{"", "for ℓ = 1, some tied flow reaches this limit, r − 1 − log r with r = σ_q/σ_posterior, for each K", tiedOptimum, ""},
	{"", "untied, K = 1, ε = √2·σ_posterior, s = 1/√2, α = √2/r per dimension: p̂(x) = p(x) in every draw", untiedOptimum, ""},
	{"", "untied: p̂(x) is unbiased", untiedEstimates, ""},
	{"", "section 4.1, untied: the gap is below the limit for tied flows, and σ̂ is as good as maximum likelihood (stored results)", untiedGaussian, ""},
	{"", "backwards from exact draws of the posterior and ρ_K ~ N(0, I), E[1/p̂(x)] = 1/p(x), for every tempering", reverseEstimates, ""},
	{"", "each direction has a blind spot that the other shows: a missed mode or tail (forward), a wide q⁰ (reverse)", blindSpots, ""},
}}

// entropyIsConstant checks that the covariance AAᵀ of (z_K, ρ_K) (see affineMap) has the determinant Π q_j², where q_j
// are the standard deviations of q⁰. Here, the target is normal, so (z_K, ρ_K) is normal, and its entropy is a function
// of this determinant. For other targets, the entropy is constant because the flow multiplies volumes by Π α_k^ℓ (see
// leapfrogThenCooling) and ρ₀ has the standard deviation Π 1/α_k (see canonicalMomentum).
func entropyIsConstant(check *report) {
	tiedFlows(func(name string, f *hvae.Flow[float64], q0 hvae.DiagonalNormal[float64], _ normalTarget) {
		A, _ := affineMap(f, q0)
		det := math.Abs(hvaetest.Determinant(A))
		for _, q := range q0.SD.Value.Data {
			det /= q
		}
		check.near(2*math.Log(det), 0, 1e-12, "%s: log det Cov(z_K, ρ_K) − log det Cov(z₀)", name)
	})
}

// tiedGap checks that the gap of a tied flow (see affineGap) is above ℓ(exp(ΔH/ℓ) − 1) − ΔH, where ΔH = Σ_j
// log(q_j/sd_j) is the entropy of q⁰ minus the entropy of the posterior.
func tiedGap(check *report) {
	tiedFlows(func(name string, f *hvae.Flow[float64], q0 hvae.DiagonalNormal[float64], p normalTarget) {
		l, excess := float64(len(p.sd)), 0.0
		for j, q := range q0.SD.Value.Data {
			excess += math.Log(q / p.sd[j])
		}
		check.greater(affineGap(f, q0, p), l*math.Expm1(excess/l)-excess, "%s: gap > limit", name)
	})
}

// tiedFlows calls the function check for the flows of schemes in 1, 2 and 3 dimensions with a normal target.
func tiedFlows(check func(name string, f *hvae.Flow[float64], q0 hvae.DiagonalNormal[float64], p normalTarget)) {
	for dims := 1; dims <= 3; dims++ {
		for _, s := range schemes() {
			var tp tape
			p := normalTarget{[]float64{0.3, -1, 0}[:dims], []float64{0.4, 1.1, 0.7}[:dims]}
			q0 := hvae.DiagonalNormal[float64]{Mean: tp.Fill(dims, 1, 0), SD: tp.Const(linalg.Column([]float64{2, 0.5, 1}[:dims]...))}
			check(fmt.Sprintf("%v, ℓ = %d", s, dims), s.Flow(&tp, p, dims), q0, p)
		}
	}
}

// tiedOptimum constructs a tied flow with the smallest gap for r = σ_q/σ_posterior. Its first step has ε =
// √2·σ_posterior and exchanges position and momentum. Only this step tempers: with 1/√β₀ = √(r/2), both z/σ_posterior
// and ρ have the variance r after the step. The other steps are so small that they are nearly rotations of
// (z/σ_posterior, ρ), which do not change its distribution.
func tiedOptimum(check *report) {
	const sd = 0.01
	for _, r := range []float64{3, 100} {
		for _, K := range []int{1, 2, 5} {
			var tp tape
			epsilon, alpha := tp.Fill(K, 1, 1e-4*sd), tp.Fill(K, 1, 1)
			epsilon.Value.Data[0], alpha.Value.Data[0] = math.Sqrt2*sd, math.Sqrt(2/r)
			p := normalTarget{[]float64{0}, []float64{sd}}
			f := &hvae.Flow[float64]{Target: p, K: K, StepSize: epsilon, Tempering: hvae.FreeTempering(alpha)}
			gap := affineGap(f, hvae.DiagonalNormal[float64]{Mean: tp.Scalar(0), SD: tp.Scalar(r * sd)}, p)
			check.near(gap, r-1-math.Log(r), 1e-6, "r = %v, K = %d: gap = r − 1 − log r", r, K)
		}
	}
}

// untiedOptimum checks that p̂(x) = p(x) in every draw if ε, s and α are as in the statement, in one dimension, and in
// three dimensions with a separate α for each.
func untiedOptimum(check *report) {
	for _, r := range [][]float64{{0.5}, {3}, {100}, {0.5, 3, 100}} {
		var tp tape
		dims, sd := len(r), 0.01
		p := normalTarget{make([]float64, dims), slices.Repeat([]float64{sd}, dims)}
		alpha := linalg.Of(1, dims, apply(r, func(r float64) float64 { return math.Sqrt2 / r }))
		f := &hvae.Flow[float64]{Target: p, K: 1, StepSize: tp.Fill(1, dims, math.Sqrt2*sd), Tempering: hvae.UntiedTempering(tp.Const(alpha), tp.Scalar(1/math.Sqrt2))}
		q := linalg.Column(apply(r, func(r float64) float64 { return r * sd })...)
		rng := random.Stream(61, "untied optimum")
		prior := hvae.DiagonalNormal[float64]{Mean: tp.Const(linalg.Column(p.mean...)), SD: tp.Const(q)}
		logs := hvae.HIS(f, prior, noise(&tp, rng, dims, 100), noise(&tp, rng, dims, 100)).LogEstimate().Value.Data
		check.near(slices.Max(apply(logs, math.Abs)), 0, 1e-9, "r = %v: largest |log p̂(x) − log p(x)|", r)
	}
}

// untiedEstimates checks p̂(x) for untied tempering in two dimensions, either with the same α_k and s for both dimensions
// or with a separate α_k and s for each.
func untiedEstimates(check *report) {
	for _, cols := range []int{1, 2} {
		const dims, draws, K = 2, 40000, 2
		var tp tape
		f := untiedFlow(&tp, K, dims, cols)
		rng := random.Stream(62, "untied", cols)
		epsilon, gamma0 := noise(&tp, rng, dims, draws), noise(&tp, rng, dims, draws)
		s := hvae.HIS(f, hvae.StandardNormal[float64]{}, epsilon, gamma0)
		check.mean(ratios(s.LogEstimate().Value.Data, hvaetest.Bimodal.LogEvidence), 1, 0.02, "α [%d×%d]: E[p̂(x)]/p(x)", K, cols)
	}
}

// untiedGaussian compares the stored gaps of section 4.1 with the limit for tied flows (see tiedGap), evaluated at the
// learned σ. The standard error of a gap is about 0.3 % of the gap, so the gap of a tied flow may be up to 1 % below
// the limit. The gap of an untied flow must be less than 1 % of the limit.
func untiedGaussian(check *report) {
	for _, d := range []float64{1, 2, 3, 5, 11, 25, 51, 101, 201, 301} {
		for _, K := range []string{"k1", "k10"} {
			tied, untied := "hvae-"+K, "hvae-untied-"+K
			check.greater(figure1(check, d, tied, "gap"), 0.99*figure1(check, d, tied, "tied_limit"), "d = %v, %s: gap, tied > 0.99·limit", d, K)
			check.less(figure1(check, d, untied, "gap"), 0.01*figure1(check, d, untied, "tied_limit"), "d = %v, %s: gap, untied < 0.01·limit", d, K)
			check.less(figure1(check, d, untied, "sigma_err"), 1.2*figure1(check, d, untied, "mle_sigma_err"), "d = %v, %s: error in σ, untied < 1.2·maximum likelihood", d, K)
		}
	}
}

// reverseEstimates checks E[1/p̂(x)] = 1/p(x) for the paths that end at an exact draw z of the posterior and ρ ~ N(0, I).
// Here, q⁰ = N(0.2, 0.8²I) is narrower than in the other checks, so that the variance of 1/p̂(x) is finite.
func reverseEstimates(check *report) {
	const dims, draws = 2, 20000
	z := linalg.New[float64](dims, draws)
	hvaetest.Bimodal.FillPosterior(random.Stream(63, "posterior"), z)
	reverse := func(tp *tape, f *hvae.Flow[float64], name string) {
		q := hvae.DiagonalNormal[float64]{Mean: tp.Fill(dims, 1, priorMean), SD: tp.Fill(dims, 1, 0.8)}
		logs := hvae.ReverseHIS(f, q, tp.Const(z), noise(tp, random.Stream(63, name), dims, draws)).LogEstimate().Value.Data
		inverses := apply(logs, func(l float64) float64 { return math.Exp(hvaetest.Bimodal.LogEvidence - l) })
		check.mean(inverses, 1, 0.03, "%s: p(x)·E[1/p̂(x)], reverse", name)
	}
	for _, s := range schemes() {
		var tp tape
		reverse(&tp, s.Flow(&tp, hvaetest.Bimodal, dims), s.String())
	}
	for _, cols := range []int{1, dims} {
		var tp tape
		reverse(&tp, untiedFlow(&tp, 2, dims, cols), fmt.Sprintf("untied, α [2×%d]", cols))
	}
}

// blindSpots compares both directions, without a flow, for three targets with log p(x) = 0 in one and two dimensions.
// The third is Neal's funnel, v ~ N(0, 3²) and x|v ~ N(0, eᵛ), and no draw of q⁰ = N(0, I) reaches its wide end.
func blindSpots(check *report) {
	left, right := hvaetest.Mode{Weight: 0.5, Mean: linalg.Column(-2.0), SD: 0.5}, hvaetest.Mode{Weight: 0.5, Mean: linalg.Column(2.0), SD: 0.5}
	modes := hvaetest.TwoModes{Modes: [2]hvaetest.Mode{left, right}}
	forward, reverse := bothDirections(modes, modes.FillPosterior, []float64{2}, []float64{0.5})
	check.near(forward.Log, -math.Ln2, 2e-3, "q⁰ on one of two modes: log p̂(x), forward = −log 2")
	check.estimate(reverse.Log, reverse.StandardError, "=", 0, "q⁰ on one of two modes: log p̂(x), reverse")

	standard := targetFunc(hvae.LogNormal[float64])
	forward, reverse = bothDirections(standard, random.FillNormal[float64], []float64{0, 0}, []float64{10, 10})
	check.estimate(forward.Log, forward.StandardError, "=", 0, "q⁰ ten times too wide: log p̂(x), forward")
	check.estimate(reverse.Log, reverse.StandardError, ">", 0, "q⁰ ten times too wide: log p̂(x), reverse > 0")
	check.greater(reverse.TailShape, 0.7, "q⁰ ten times too wide: k̂, reverse")

	forward, reverse = bothDirections(funnel{}, funnel{}.fillPosterior, []float64{0, 0}, []float64{1, 1})
	check.less(forward.Log, -0.1, "narrow q⁰, funnel: log p̂(x), forward < −0.1")
	check.estimate(reverse.Log, reverse.StandardError, "=", 0, "narrow q⁰, funnel: log p̂(x), reverse")
}

// Reports

// zBound is the largest difference, in standard errors, that the tests attribute to chance.
const zBound = 4.5

var inf = math.Inf(1)

// A report checks the measurements of a statement. The methods take the name of the quantity, or "case: quantity", as a
// format with arguments.
type report struct {
	t         *testing.T
	statement statement
	lines     []*measurement // one for each quantity
	failed    bool
}

// A measurement is the case of a quantity that is nearest to failing.
type measurement struct {
	quantity, result, where string
	excess                  float64 // amount by which the bound is exceeded, in any unit; must be at most 0
	cases                   int
}

// add records a measurement, and reports an error unless excess ≤ 0.
func (r *report) add(excess float64, measured, relation, expected, deviation, format string, args ...any) {
	m := &measurement{quantity: fmt.Sprintf(format, args...), excess: excess, cases: 1}
	if i := strings.LastIndex(m.quantity, ": "); i >= 0 {
		m.where, m.quantity = m.quantity[:i], m.quantity[i+2:]
	}
	m.result = strings.ReplaceAll(pad(measured, 20)+" "+relation+" "+pad(expected, 12)+" "+pad(deviation, 23), "-", "−")
	if !(excess <= 0) {
		r.failed = true
		r.t.Errorf("%s\n%s: %s  %s", r.statement.claim, m.quantity, m.result, m.where)
	}
	i := slices.IndexFunc(r.lines, func(l *measurement) bool { return l.quantity == m.quantity })
	if i < 0 {
		r.lines = append(r.lines, m)
		return
	}
	m.cases += r.lines[i].cases
	if r.lines[i].cases++; !(excess < r.lines[i].excess) {
		r.lines[i] = m
	}
}

// near requires |got − want| ≤ tolerance·|want|, or |got| ≤ tolerance if want is 0.
func (r *report) near(got, want, tolerance float64, format string, args ...any) {
	err := math.Abs(got - want)
	if want != 0 {
		err /= math.Abs(want)
	}
	r.within(err, tolerance, number(got), number(want), format, args...)
}

// vectors requires ‖got − want‖ ≤ tolerance·‖want‖.
func (r *report) vectors(got, want []float64, tolerance float64, format string, args ...any) {
	err := hvaetest.Distance(got, want) / hvaetest.Norm(want)
	r.within(err, tolerance, number(got[0])+", …", number(want[0])+", …", format, args...)
}

// within requires err ≤ tolerance.
func (r *report) within(err, tolerance float64, got, want, format string, args ...any) {
	excess, deviation := err/tolerance-1, fmt.Sprintf("error %.2g ≤ %.1g", err, tolerance)
	if tolerance == 0 {
		excess, deviation = err, "exact"
	}
	r.add(excess, got, "=", want, deviation, format, args...)
}

// less requires a < b, and greater requires a > b.
func (r *report) less(a, b float64, format string, args ...any) {
	r.add(excess(a, b), number(a), "<", number(b), "", format, args...)
}

func (r *report) greater(a, b float64, format string, args ...any) {
	r.add(excess(b, a), number(a), ">", number(b), "", format, args...)
}

// excess returns a relative difference of the numbers, which is negative only if low < high.
func excess(low, high float64) float64 {
	if low == high {
		return 1
	}
	return (low - high) / (math.Abs(low) + math.Abs(high))
}

// estimate compares a mean and its standard error with want. Let z = (mean − want)/se. The relation = requires |z| ≤
// 4.5, ≤ requires z ≤ 4.5, < requires z ≤ −4.5, and > requires z ≥ 4.5.
func (r *report) estimate(mean, se float64, relation string, want float64, format string, args ...any) {
	z := (mean - want) / se
	excess, ok := map[string]float64{"=": math.Abs(z) - zBound, "≤": z - zBound, "<": z + zBound, ">": zBound - z}[relation]
	if !ok {
		r.t.Fatalf("unknown relation %q", relation)
	}
	digits := min(6, max(0, 1-int(math.Floor(math.Log10(se))))) // two digits of the standard error
	r.add(excess, fmt.Sprintf("%.*f ± %.*f", digits, mean, digits, se), relation, number(want), fmt.Sprintf("z = %.1f", z), format, args...)
}

// mean requires that the mean of the draws is within 4.5 standard errors of want. The standard error must be at most
// maxSE; otherwise, the check could miss a mistake.
func (r *report) mean(draws []float64, want, maxSE float64, format string, args ...any) {
	mean, se := linalg.MeanSE(draws)
	r.estimate(mean, se, "=", want, format, args...)
	if !(se <= maxSE) {
		r.failed = true
		r.t.Errorf("%s: the standard error is %.3g, want at most %.3g", fmt.Sprintf(format, args...), se, maxSE)
	}
}

// below requires that the mean of the draws is below bound by at least 4.5 standard errors. above is the opposite.
func (r *report) below(draws []float64, bound float64, format string, args ...any) {
	mean, se := linalg.MeanSE(draws)
	r.estimate(mean, se, "<", bound, format, args...)
}

func (r *report) above(draws []float64, bound float64, format string, args ...any) {
	mean, se := linalg.MeanSE(draws)
	r.estimate(mean, se, ">", bound, format, args...)
}

// must reports err and ends the section if err is not nil.
func (r *report) must(err error) {
	if err != nil {
		r.t.Fatal(err)
	}
}

// String returns the statement, its outcome and its measurements.
func (r *report) String() string {
	s, mark := r.statement, "✓ "
	if r.failed {
		mark = "FAILS: "
	}
	label := strings.TrimLeft(s.equation+"  ", " ")
	text := mark + label + s.claim + "\n"
	if s.printed != "" {
		text = "✗ " + label + "as printed: " + s.printed + "\n" + mark + "corrected: " + s.claim + "\n"
	}
	for _, m := range r.lines {
		where := m.where
		if m.cases > 1 {
			where = strings.TrimSuffix(fmt.Sprintf("worst of %d: %s", m.cases, where), ": ")
		}
		text += strings.TrimRight("      "+pad(m.quantity, 40)+" "+m.result+" "+where, " ") + "\n"
	}
	return text
}

// pad appends spaces to s up to the given width. Combining characters, such as the hat of p̂, have no width.
func pad(s string, width int) string {
	for _, r := range s {
		if !unicode.Is(unicode.Mn, r) {
			width--
		}
	}
	return s + strings.Repeat(" ", max(0, width))
}

func number(v float64) string { return fmt.Sprintf("%.6g", v) }

type (
	matrix   = linalg.Matrix[float64]
	variable = *ad.Var[float64]
	tape     = ad.Tape[float64]
)

// A scheme describes the tempering and step sizes of a flow.
type scheme struct {
	Tempering string // "none", "fixed" or "free"
	K         int    // number of steps
	PerLayer  bool   // whether each step has separate step sizes
}

// schemes returns schemes with no, fixed and free tempering for each of K = 0, 1, 2 and 5. For K > 1, there are two
// schemes of each kind: one with the same step sizes for all steps, and one with separate step sizes for each step.
func schemes() (all []scheme) {
	for _, K := range []int{0, 1, 2, 5} {
		for _, tempering := range []string{"none", "fixed", "free"} {
			all = append(all, scheme{tempering, K, false})
			if K > 1 {
				all = append(all, scheme{tempering, K, true})
			}
		}
	}
	return all
}

// String returns a unique name such as "tempering free, K = 2, ε varied".
func (s scheme) String() string {
	return fmt.Sprintf("tempering %s, K = %d%s", s.Tempering, s.K, map[bool]string{true: ", ε varied"}[s.PerLayer])
}

// Flow returns the flow of the scheme for a target in dims dimensions. Step sizes are 0.25 to 0.4. Fixed tempering has
// 1/√β₀ = 1.4, and free tempering has α_k between 0.84 and 0.96.
func (s scheme) Flow(t *ad.Tape[float64], target hvae.Target[float64], dims int) *hvae.Flow[float64] {
	rows := 1
	if s.PerLayer {
		rows = s.K
	}
	epsilon, alpha := t.Matrix(rows, dims), t.Matrix(s.K, 1)
	for i := range epsilon.Data {
		epsilon.Data[i] = 0.25 + 0.05*float64(i%4)
	}
	for k := range alpha.Data {
		alpha.Data[k] = 0.96 - 0.06*float64(k%3)
	}
	f := &hvae.Flow[float64]{Target: target, K: s.K, StepSize: t.Leaf(epsilon)}
	switch s.Tempering {
	case "fixed":
		f.Tempering = hvae.FixedTempering(s.K, t.Scalar(1.4))
	case "free":
		f.Tempering = hvae.FreeTempering(t.Leaf(alpha))
	}
	return f
}

// priorMean and priorSD define the variational prior N(priorMean, priorSD²I) of drawHIS and logEstimates. It overlaps both modes.
const priorMean, priorSD = 0.2, 1.1

// drawHIS returns n draws of Algorithm 1 in dims dimensions.
func drawHIS(t *ad.Tape[float64], f *hvae.Flow[float64], dims, n int, rng *rand.Rand) hvae.Sample[float64] {
	prior := hvae.DiagonalNormal[float64]{Mean: t.Fill(dims, 1, priorMean), SD: t.Fill(dims, 1, priorSD)}
	return hvae.HIS(f, prior, noise(t, rng, dims, n), noise(t, rng, dims, n))
}

// logEstimates returns log p̂ for n draws of drawHIS with the flow of scheme s in dims dimensions, where n is rounded up to a
// multiple of 500. The function bind returns the target on a tape.
func logEstimates(s scheme, bind func(t *tape) hvae.Target[float64], dims, n int, seed uint64) (all []float64) {
	rng := random.Stream(seed, s.String())
	var t tape
	for len(all) < n {
		t.Reset()
		all = append(all, drawHIS(&t, s.Flow(&t, bind(&t), dims), dims, 500, rng).LogEstimate().Value.Data...)
	}
	return all
}

// onTape converts f, a map of phases in dims dimensions, to a map of vectors (z, ρ) [2·dims], as needed by Jacobian.
func onTape(dims int, f func(t *ad.Tape[float64], s hvae.Phase[float64]) hvae.Phase[float64]) func(s []float64) []float64 {
	return func(s []float64) []float64 {
		var t ad.Tape[float64]
		p := f(&t, hvae.Phase[float64]{Z: t.Const(linalg.Column(s[:dims]...)), Rho: t.Const(linalg.Column(s[dims:]...))})
		return slices.Concat(p.Z.Value.Data, p.Rho.Value.Data)
	}
}

// slope returns f′(0) by Richardson extrapolation of central differences with step sizes h and h/2.
func slope(f func(float64) float64, h float64) float64 {
	central := func(h float64) float64 { return (f(h) - f(-h)) / (2 * h) }
	return (4*central(h/2) - central(h)) / 3
}

// apply returns the slice y with elements y_i = f(x_i).
func apply(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

// differences returns a − b, element by element. If a and b are two estimates from the same noise,
// their difference often has a smaller variance than either estimate.
func differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

// integrate returns an approximate integral of f from lo to hi, h·Σ_i f(lo + ih) for i = 0, …, n and h = (hi − lo)/n.
// If f is smooth and vanishes near both ends, the error decreases faster than any power of 1/n.
func integrate(f func(float64) float64, lo, hi float64, n int) float64 {
	h, sum := (hi-lo)/float64(n), 0.0
	for i := range n + 1 {
		sum += f(lo + float64(i)*h)
	}
	return sum * h
}

func filled(rows, cols int, v float64) matrix {
	m := linalg.New[float64](rows, cols)
	m.Fill(v)
	return m
}

// grid returns n+1 equidistant points from −edge to edge as a row [1×(n+1)].
func grid(edge float64, n int) matrix {
	m := linalg.New[float64](1, n+1)
	for i := range m.Data {
		m.Data[i] = edge * (2*float64(i)/float64(n) - 1)
	}
	return m
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

type normal struct{ mean, variance float64 }

func (n normal) draw(rng *rand.Rand) float64 { return n.mean + math.Sqrt(n.variance)*rng.NormFloat64() }
func (n normal) log(x float64) float64       { return logNormal(x, n.mean, n.variance) }

// logNormal returns log N(x | mean, variance).
func logNormal(x, mean, variance float64) float64 {
	return -(x-mean)*(x-mean)/(2*variance) - math.Log(2*math.Pi*variance)/2
}

// A targetFunc is a function of z that returns log p(x, z). It implements hvae.Target.
type targetFunc func(z variable) variable

func (f targetFunc) LogJoint(z variable) variable { return f(z) }

// points returns N points x [d×N] simulated from the Gaussian model, their sufficient statistics, and the
// parameters Δ and σ that generated them.
func points(d, n int) (x matrix, data model.Data, t model.Theta) {
	rng := random.Stream(11, "points", d, n)
	x = linalg.New[float64](d, n)
	t = model.Theta{Delta: make([]float64, d), Sigma: make([]float64, d)}
	for j := range d {
		z := rng.NormFloat64()
		t.Delta[j], t.Sigma[j] = 0.3*float64(j)-0.2, 1.4+0.3*float64(j)
		for i := range n {
			x.Row(j)[i] = z + t.Delta[j] + t.Sigma[j]*rng.NormFloat64()
		}
	}
	return x, model.Summarise(x), t
}

// gaussian returns the target of the Gaussian model for a dataset. Its parameters θ = (Δ, log σ) are leaves of t.
func gaussian(t *tape, data model.Data, theta model.Theta) model.Target {
	logSigma := apply(theta.Sigma, math.Log)
	return model.NewTarget(data, t.Leaf(linalg.Column(theta.Delta...)), t.Leaf(linalg.Column(logSigma...)))
}

// A normalTarget is a target with p(x) = 1 and the posterior N(mean, diag(sd²)).
type normalTarget struct{ mean, sd []float64 }

func (p normalTarget) LogJoint(z variable) variable {
	tp := z.Tape()
	return hvae.DiagonalNormal[float64]{Mean: tp.Const(linalg.Column(p.mean...)), SD: tp.Const(linalg.Column(p.sd...))}.LogDensity(z)
}

// posterior returns p(z|D) of the Gaussian model. Given D, the dimensions of z are independent and normal, with
// precision 1 + N/σ_j² and mean N/σ_j²·(x̄_j − Δ_j)/(1 + N/σ_j²).
func posterior(data model.Data, theta model.Theta) (p normalTarget) {
	for j := range data.Mean {
		w := float64(data.N) / (theta.Sigma[j] * theta.Sigma[j])
		p.mean = append(p.mean, w/(1+w)*(data.Mean[j]-theta.Delta[j]))
		p.sd = append(p.sd, 1/math.Sqrt(1+w))
	}
	return p
}

// A target is a density p(x, z) with known evidence p(x) and a posterior that can be sampled exactly.
type target struct {
	name        string
	bind        func(t *tape) hvae.Target[float64]
	logEvidence float64
	posterior   func(rng *rand.Rand, z matrix)
}

// targets returns two targets in two dimensions: hvaetest.Bimodal, which has two modes, and the Gaussian
// model for a dataset of three points. The dataset is small so that the posterior overlaps the prior.
func targets() []target {
	_, data, theta := points(2, 3)
	exact := posterior(data, theta)
	return []target{
		{"bimodal", func(*tape) hvae.Target[float64] { return hvaetest.Bimodal }, hvaetest.Bimodal.LogEvidence, hvaetest.Bimodal.FillPosterior},
		{"gaussian", func(t *tape) hvae.Target[float64] { return gaussian(t, data, theta) }, data.LogEvidence(theta), func(rng *rand.Rand, z matrix) {
			random.FillNormal(rng, z)
			linalg.Mul(z, linalg.Column(exact.sd...), z)
			linalg.Add(z, linalg.Column(exact.mean...), z)
		}},
	}
}

// ratios returns p̂(x)/p(x) for the given draws of log p̂(x).
func ratios(logEstimates []float64, logEvidence float64) []float64 {
	return apply(logEstimates, func(l float64) float64 { return math.Exp(l - logEvidence) })
}

// squaredDeviations returns (x_i − mean)² for each element of x.
func squaredDeviations(x []float64, mean float64) []float64 {
	return apply(x, func(v float64) float64 { return (v - mean) * (v - mean) })
}

// sampledGradients calls the function elbo n times. Element [i][j] of the result is the derivative of the mean ELBO of
// call j with respect to parameter i [1×1].
func sampledGradients(params []matrix, n int, elbo func(t *tape, params []variable) variable) [][]float64 {
	samples := make([][]float64, len(params))
	var tp tape
	for range n {
		tp.Reset()
		var leaves []variable
		for _, p := range params {
			leaves = append(leaves, tp.Leaf(p))
		}
		for i, g := range ad.Backward(nil, ad.Mean(elbo(&tp, leaves)), leaves...) {
			samples[i] = append(samples[i], g.Data[0])
		}
	}
	return samples
}

// temperingOf returns 1/√β₀ and α_1 … α_K of a flow of K steps. Without tempering, all these numbers are 1.
func temperingOf(t hvae.Tempering[float64], K int) (invSqrtBeta0 float64, alpha []float64) {
	if alpha := t.Alpha; alpha != nil {
		return t.MomentumSD.Scalar(), alpha.Value.Data
	}
	return 1, slices.Repeat([]float64{1}, K)
}

// noise returns a constant [rows×cols] of independent draws from N(0, 1).
func noise[T linalg.Float](t *ad.Tape[T], rng *rand.Rand, rows, cols int) *ad.Var[T] {
	m := t.Matrix(rows, cols)
	random.FillNormal(rng, m)
	return t.Const(m)
}

// untiedFlow returns an untied flow for hvaetest.Bimodal, where α and s have the given number of columns.
func untiedFlow(tp *tape, K, dims, cols int) *hvae.Flow[float64] {
	alpha, sd := []float64{0.8, 1.3, 0.7, 0.9}[:K*cols], []float64{1.2, 0.9}[:cols]
	f := scheme{K: K}.Flow(tp, hvaetest.Bimodal, dims)
	f.Tempering = hvae.UntiedTempering(tp.Const(linalg.Of(K, cols, alpha)), tp.Const(linalg.Of(1, cols, sd)))
	return f
}

// bothDirections returns forward and reverse estimates of log p(x) from 20,000 draws each, for q⁰ = N(mean, diag(sd²)) and
// no flow. The function fill fills a matrix with exact draws from the posterior.
func bothDirections(target hvae.Target[float64], fill func(*rand.Rand, matrix), mean, sd []float64) (forward, reverse hvae.Evidence) {
	const draws = 20000
	var tp tape
	rng, z, dims := random.Stream(64, "both directions"), linalg.New[float64](len(mean), draws), len(mean)
	fill(rng, z)
	f := &hvae.Flow[float64]{Target: target}
	q := hvae.DiagonalNormal[float64]{Mean: tp.Const(linalg.Column(mean...)), SD: tp.Const(linalg.Column(sd...))}
	rho := noise(&tp, rng, dims, draws)
	forward = hvae.ImportanceEstimate(hvae.HIS(f, q, noise(&tp, rng, dims, draws), rho).LogEstimate().Value.Data)
	return forward, hvae.ReverseEstimate(hvae.ReverseHIS(f, q, tp.Const(z), rho).LogEstimate().Value.Data, 1)
}

// A funnel is the target v ~ N(0, 3²), x|v ~ N(0, eᵛI) (Neal, 2003) for z = (v, x).
type funnel struct{}

func (funnel) LogJoint(z variable) variable {
	v, x, t := ad.RowRange(z, 0, 1), ad.RowRange(z, 1, z.Rows()), z.Tape()
	prior := hvae.DiagonalNormal[float64]{Mean: t.Scalar(0), SD: t.Scalar(3)}
	sd := ad.BroadcastTo(ad.Exp(ad.Scale(v, 0.5)), x.Rows(), z.Cols())
	conditional := hvae.DiagonalNormal[float64]{Mean: t.Fill(x.Rows(), 1, 0), SD: sd}
	return ad.Add(prior.LogDensity(v), conditional.LogDensity(x))
}

func (funnel) fillPosterior(rng *rand.Rand, z matrix) {
	for j := range z.Cols {
		v := 3 * rng.NormFloat64()
		z.Row(0)[j] = v
		for i := 1; i < z.Rows; i++ {
			z.Row(i)[j] = math.Exp(v/2) * rng.NormFloat64()
		}
	}
}

// affineMap returns A and b such that a flow with quadratic potential maps noise (ε, γ₀) to (z_K, ρ_K) = A·(ε, γ₀) + b.
func affineMap(f *hvae.Flow[float64], q0 hvae.DiagonalNormal[float64]) (A matrix, b []float64) {
	tp, dims := q0.SD.Tape(), q0.SD.Rows()
	noise := linalg.New[float64](2*dims, 2*dims+1) // columns: the zero vector, then the unit vectors
	for i := range 2 * dims {
		noise.Row(i)[i+1] = 1
	}
	end := hvae.HIS(f, q0, tp.Const(noise.RowRange(0, dims)), tp.Const(noise.RowRange(dims, 2*dims))).End
	out := ad.Stack(end.Z, end.Rho).Value
	A = linalg.New[float64](2*dims, 2*dims)
	for i := range 2 * dims {
		b = append(b, out.At(i, 0))
		for j := range 2 * dims {
			A.Row(i)[j] = out.At(i, j+1) - b[i]
		}
	}
	return A, b
}

// affineGap returns the gap log p(x) − E[log p̂(x)] of a flow with a quadratic potential and the posterior p. The gap
// is the divergence of N(b, AAᵀ), the density of (z_K, ρ_K), from p(z|x) N(ρ | 0, I).
func affineGap(f *hvae.Flow[float64], q0 hvae.DiagonalNormal[float64], p normalTarget) (gap float64) {
	A, b := affineMap(f, q0)
	for i := range b {
		sd, mean := 1.0, 0.0
		if i < len(p.sd) {
			sd, mean = p.sd[i], p.mean[i]
		}
		square := (b[i] - mean) * (b[i] - mean)
		for _, a := range A.Row(i) {
			square += a * a
		}
		gap += (square/(sd*sd) - 1 + 2*math.Log(sd)) / 2
	}
	return gap - math.Log(math.Abs(hvaetest.Determinant(A)))
}

// annealing returns a sampler for annealed importance sampling (AIS) with K steps, and a random stream for each chain.
// q⁰ is the variational prior of drawHIS. The step sizes are tuned with separate streams.
func annealing(check *report, target target, K, chains int, seed uint64) (a *hvae.AIS[float64], streams []*rand.Rand) {
	a = &hvae.AIS[float64]{
		Target: target.bind,
		Mean:   linalg.Column(priorMean, priorMean), SD: linalg.Column(priorSD, priorSD),
		Steps: K, Leapfrogs: 3,
	}
	of := func(purpose string, n int) (streams []*rand.Rand) {
		for j := range n {
			streams = append(streams, random.Stream(seed, purpose, K, j))
		}
		return streams
	}
	var err error
	a.StepSizes, err = a.Tune(check.t.Context(), of("tuning", 100), 10)
	check.must(err)
	return a, of("chain", chains)
}

// A gradientCounter is a target of the Gaussian model that counts evaluations of its closed-form gradient.
type gradientCounter struct {
	model.Target
	gradients int
}

func (c *gradientCounter) PotentialGradient(z variable) variable {
	c.gradients++
	return c.Target.PotentialGradient(z)
}

// phasePoint is the point (z, ρ) in three dimensions at which the checks evaluate flows.
var phasePoint = []float64{0.4, -0.9, 0.3, 0.8, -0.5, 1.2}

// stepSizes are the leapfrog step sizes in three dimensions.
var stepSizes = []float64{0.3, 0.15, 0.4}

// leapfrogByHand returns equations 7, 8 and 9 as functions of the vector (z, ρ). The functions
// differentiate U = −log p(x, z) numerically.
func leapfrogByHand(target hvae.Target[float64], epsilon []float64) (lf1, lf2, lf3 func([]float64) []float64) {
	n := len(epsilon)
	potential := func(z []float64) float64 {
		var tp tape
		return -target.LogJoint(tp.Const(linalg.Column(z...))).Scalar()
	}
	kick := func(s []float64) []float64 {
		out := slices.Clone(s)
		for j, g := range hvaetest.Gradient(potential, s[:n]) {
			out[n+j] -= epsilon[j] / 2 * g
		}
		return out
	}
	drift := func(s []float64) []float64 {
		out := slices.Clone(s)
		for j := range n {
			out[j] += epsilon[j] * s[n+j]
		}
		return out
	}
	return kick, drift, kick
}

// leapfrog returns a function that applies one leapfrog step to the vector (z, ρ).
func leapfrog(target hvae.Target[float64], epsilon []float64) func([]float64) []float64 {
	return onTape(len(epsilon), func(t *tape, s hvae.Phase[float64]) hvae.Phase[float64] {
		return (&hvae.Flow[float64]{Target: target, K: 1, StepSize: t.Const(linalg.Of(1, len(epsilon), epsilon))}).Forward(s)
	})
}

// figure1 returns one value from our stored results for dimension d. The field "err" is the mean of ‖θ − θ̂‖² over ten
// datasets, "delta_err" and "sigma_err" are its parts for Δ and σ, and "err_se" is its standard error.
func figure1(check *report, d float64, method, field string) float64 {
	b, err := os.ReadFile("gaussian/results/figure1.jsonl")
	check.must(err)
	for line := range bytes.Lines(b) {
		var r map[string]any
		check.must(json.Unmarshal(line, &r))
		if r["d"] == d && r["method"] == method {
			return r[field].(float64)
		}
	}
	return math.NaN()
}

// elboDraws sets the parameters Δ and log σ of a method from theta, and the other parameters from the
// argument others. It returns n draws of the method's ELBO.
func elboDraws(m *model.Method, theta model.Theta, n int, seed uint64, others ...[]float64) []float64 {
	var t tape
	var leaves []variable
	values := append([][]float64{theta.Delta, apply(theta.Sigma, math.Log)}, others...)
	for i, p := range m.Params {
		copy(p.Value.Data, values[i])
		leaves = append(leaves, t.Leaf(p.Value))
	}
	return m.ELBO(leaves, noise(&t, random.Stream(seed, "elbo"), m.NoiseRows, n)).Value.Data
}

// mnistNetwork returns a model for MNIST with random weights. The weights of the decoder are larger than usual, so that
// p(x|z) depends on z. The encoder's σ is about 1.1, so that q⁰ is wider than the posterior and Var(p̂) is finite. If ε
// varies between steps, it increases along the flow.
func mnistNetwork[T linalg.Float](c mnist.Config) *mnist.Network[T] {
	n := mnist.New[T](c, -0.5, 6)
	for _, p := range n.Params() {
		switch {
		case strings.HasPrefix(p.Name, "decoder.") && strings.HasSuffix(p.Name, ".weight"):
			linalg.Scale(p.Value, 4, p.Value)
		case p.Name == "encoder.std.bias":
			p.Value.Fill(0.7)
		case p.Name == "flow.step_size_logit":
			for k := range p.Value.Data {
				p.Value.Data[k] += 0.5 * T(k)
			}
		}
	}
	return n
}

// image returns a random binary image [784×1].
func image[T linalg.Float](t *ad.Tape[T]) *ad.Var[T] {
	m, rng := t.Matrix(784, 1), random.Stream(7, "image")
	for i := range m.Data {
		m.Data[i] = T(rng.IntN(5) / 3) // 1 with probability 2/5
	}
	return t.Const(m)
}

// correlations returns |r| for all pairs of variables that have draws, given the draws of each variable.
func correlations(variables [][]float64) (all []float64) {
	var units [][]float64 // the draws, centred and divided by their norm
	for _, v := range variables {
		if len(v) == 0 {
			continue
		}
		mean, _ := linalg.MeanSE(v)
		centred := apply(v, func(x float64) float64 { return x - mean })
		norm := hvaetest.Norm(centred)
		unit := apply(centred, func(x float64) float64 { return x / norm })
		for _, other := range units {
			all = append(all, math.Abs(dot(unit, other)))
		}
		units = append(units, unit)
	}
	return all
}
