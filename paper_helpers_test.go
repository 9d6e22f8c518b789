package paper_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"hvae/ad"
	"hvae/gaussian/model"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
	mnist "hvae/mnist/model"
)

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
	if alpha := t.Alpha(); alpha != nil {
		return t.MomentumSD().Scalar(), alpha.Value.Data
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

// leapfrog returns a function that applies one step of hvae.Leapfrog to the vector (z, ρ).
func leapfrog(target hvae.Target[float64], epsilon []float64) func([]float64) []float64 {
	return onTape(len(epsilon), func(t *tape, s hvae.Phase[float64]) hvae.Phase[float64] {
		return hvae.Leapfrog(target, t.Const(linalg.Of(1, len(epsilon), epsilon)), s)
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
