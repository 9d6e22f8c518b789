// The paper as an executable specification: sections 2 to 5.2 of
//
//	Caterini, Doucet, Sejdinovic: Hamiltonian Variational Auto-Encoder, NeurIPS 2018,
//
// one test for each statement, named after it and citing its equation by the label
// that it has in the paper's source. Run it with go test.
//
// Statistical statements are tested by z-scores of at least thousands of draws from
// fixed seeds. A true statement exceeds the bound of 4.5 with probability 7e-6 for a
// seed; whether one seed did was decided once, so the tests cannot flicker. Where a
// test must be able to see a mistake, it also bounds the standard error. Conditions read
// !(error <= bound), which NaN fails.
//
// What the paper states, by the labels of its source, and which tests check it; those of
// other packages are named with their folder.
//
//	Section 2.1
//	eq:unbiased, E[p̂] = p                TestAlgorithm1EstimatesTheEvidenceWithoutBias, TestMNISTModelsEstimateTheEvidenceWithoutBias
//	eqn:ELBO_single, the bound           TestELBOIsBelowLogEvidence
//	less variance, a tighter bound       TestReverseKernelsDecideTheVariance, TestTemperingLetsTheFlowLeaveItsModeAndTheVarianceFall
//	p̂ = p(x, z)/q(z), the standard case  TestNoStepsOrNoStepSizeLeaveThePlainBound, TestVAEBoundInTermsOfItsParts
//	IWAE, L samples                      TestImportanceEstimateTightensFromBelow, hvae/TestImportanceEstimate
//	∇log p̂ is unbiased for ∇L_ELBO       TestReparameterisedGradientsAreUnbiased
//
//	Section 2.2
//	eq:generalizedJarzynski              TestReverseKernelsDecideTheVariance
//	r^opt minimises the variance         TestReverseKernelsDecideTheVariance
//	eq:optimalestimator                  TestReverseKernelsDecideTheVariance
//	annealed importance sampling         none: the paper cites it and does not use it
//
//	Section 2.3
//	eq:estimatorHMC, both sides          TestEstimateIsDensityOverFlowDensity, TestFlowDensityIntegratesToOne
//	Φ^k are smooth and invertible        TestFlowHasAnExactInverse
//	eqn:reparameterization               TestEstimateIsDensityOverFlowDensity, TestGradientsOfTheELBOAgainstDifferencesWithCommonRandomNumbers
//	a homogeneous flow, high variance    TestWithoutTemperingAFineFlowGivesTheStandardEstimate
//	tempering explores isolated modes    TestTemperingLetsTheFlowLeaveItsModeAndTheVarianceFall
//	eqn:lf1, eqn:lf2, eqn:lf3            TestLeapfrogIsItsThreeEquations
//	each a shear, unit Jacobian          TestLeapfrogComposesShearsOfUnitJacobian
//	discretised Hamiltonian dynamics     TestLeapfrogConservesEnergyToSecondOrder, TestLeapfrogIsReversibleUnderMomentumFlip, TestLeapfrogIsSymplectic
//	α_k, 0 < β₀ < … < β_K = 1            TestSchedulesHeatFirstAndEndAtTemperatureOne
//	free tempering, β₀ = Πα_k²           TestFixedAndFreeTemperingCoincideWhereAlphaAgrees
//	Jacobians α_k^ℓ and β₀^(ℓ/2)         TestMapsHaveTheJacobiansOfTempering
//	Φ^k is leapfrog, then cooling        TestFlowIsLeapfrogThenTemperingInTurn
//	ρ₀ ~ N(0, β₀⁻¹I)                     TestInitialMomentumHasTheCanonicalDistribution
//	no mass matrix is needed             TestStepSizesAreADiagonalMassMatrix
//	alg:his, line by line                TestEstimateIsDensityOverFlowDensity, TestFixedScheduleIsQuadraticInInverseSquareRootBeta, TestKStepsTakeKPlusOneGradients
//
//	Section 3
//	eqn:inference_objective, eqn:ELBO    mnist/model/TestBlocksAddUpToTheBatch: the mean over a batch
//	eqn:H_ELBO_simplified                TestRaoBlackwellisedELBOHasTheMeanAndTheGradientOfTheRawOne
//	it reduces the variance              not as stated: TestRaoBlackwellisedELBOVariesMoreForQuadraticPotentials,
//	                                     TestRaoBlackwellisedELBOVariesLessWhereTheMomentumTermStandsOut, TestFinalEnergyOfAQuadraticPotential
//	alg:vi                               TestTrainingClimbsTheELBO, TestGradientsOfTheELBOAgainstDifferencesWithCommonRandomNumbers
//
//	Section 5.1
//	the model, log p(D, z)               TestLogJointDensityIsTheSumOverPoints, TestDatasetsHaveTheModelsDistribution, TestStatisticsAreStable
//	U and ∇U (the sign as in section 2)  TestPotentialGradientInClosedFormByTheTapeAndByDifferences
//	log p(D) is known                    TestEvidenceAndPosteriorAgainstQuadrature, TestMaximumLikelihoodMaximisesTheEvidence
//	L_ELBO(θ, φ; D) ≤ log p(D)           TestHVAEOnTheGaussianModelBoundsTheEvidence, TestMeanFieldBoundIsTheExpectationOfItsEstimate
//	what the bound loses                 TestMeanFieldGapIsTheDivergenceFromThePosterior, TestHVAEGapIsTheDivergenceOfTheFlowFromThePosterior
//	planar flow                          TestPlanarLayersAreThoseOfRezendeAndMohamed, TestPlanarLogDeterminantAgainstANumericalOne,
//	                                     TestPlanarDensityIntegratesToOne, TestPlanarFlowsBoundIsThatOfAnUnbiasedEstimate
//	φ, d + 1 and 2d + 1 parameters       TestMethodsStartWhereTheReferenceStarts
//	the true Δ and σ                     TestTrueParameters
//	figure 1a                            none: a command of minutes, go run ./gaussian -d 1,2,3,5,11,25,51,101,201,301
//	figure 1b, tempering is better       TestTemperingIsWhatMakesHVAEEstimateWell, small
//
//	Section 5.2
//	x | z, Bernoulli pixels              TestLogLikelihoodIsThatOfBernoulliPixels
//	the networks                         TestNetworksAreThoseOfTheCheckpointsConventions, mnist/model/TestParametersAreThoseOfTheContract
//	z₀ = μ + Σ^½·ε                       TestVAEBoundInTermsOfItsParts
//	HVAE on top of the VAE               TestHVAEWithoutStepsIsTheVAE, mnist/model/TestGoldenValues
//	its gradients                        TestMNISTGradientsAgainstDifferences, mnist/model/TestGoldenValues
//	stochastic binarisation              mnist/data/TestPixelsAreBernoulliInTheirValue
//	Adamax                               hvae/TestAdamaxIsAlgorithm2OfItsPaper
//	early stopping                       mnist/TestTrainingStopsWhenPatienceEnds
//	NLL from importance samples          TestMNISTModelsEstimateTheEvidenceWithoutBias, mnist/model/TestEvaluationDependsOnNothingButItsStreams
//	tab:mnist_nll                        none: a thousand epochs of each model; go run ./mnist train and eval
package paper_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/ad"
	"hvae/gaussian/model"
	"hvae/hvae"
	"hvae/linalg"
	mnist "hvae/mnist/model"
)

type (
	matrix   = linalg.Matrix[float64]
	variable = *ad.Var[float64]
	tape     = ad.Tape[float64]
)

const zBound = 4.5

// ---------------------------------------------------------------------------
// Targets whose evidence is known.

// bimodal is a target with two modes: c times a mixture of two normals with means ±m
// and different scales, so p(x) = c. Its log joint density on the tape uses
// log(eᵃ + eᵇ) = b + softplus(a − b).
type bimodal struct{ dims int }

const bimodalLogEvidence = -1.3

func (b bimodal) LogJoint(z variable) variable {
	ell := float64(b.dims)
	component := func(mean, sd float64) variable {
		r := ad.Scale(ad.AddConst(z, -mean), 1/sd)
		return ad.AddConst(hvae.LogNormal(r), -ell*math.Log(sd))
	}
	one := ad.AddConst(component(1, 0.7), math.Log(0.35))
	two := ad.AddConst(component(-0.8, 0.5), math.Log(0.65))
	mixture := ad.Add(two, ad.Softplus(ad.Sub(one, two)))
	return ad.AddConst(mixture, bimodalLogEvidence)
}

// counter counts the evaluations of a target.
type counter struct {
	hvae.Target[float64]
	evaluations int
}

func (c *counter) LogJoint(z variable) variable {
	c.evaluations++
	return c.Target.LogJoint(z)
}

// closedCounter does so for a target in closed form.
type closedCounter struct {
	hvae.ClosedForm[float64]
	gradients int
}

func (c *closedCounter) PotentialGradient(z variable) variable {
	c.gradients++
	return c.ClosedForm.PotentialGradient(z)
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
	g := model.NewTarget(data)
	g.Bind(t.Leaf(linalg.Column(theta.Delta...)), t.Leaf(logSigma))
	return g
}

// ---------------------------------------------------------------------------
// Flows to test.

// scheme is a tempering scheme with K steps.
type scheme struct {
	name     string
	K        int
	perLayer bool // a row of step sizes for each step
	temper   func(t *tape, K int) hvae.Schedule[float64]
}

func noTempering(*tape, int) hvae.Schedule[float64] { return hvae.Schedule[float64]{} }

func fixedTempering(t *tape, K int) hvae.Schedule[float64] {
	return hvae.FixedTempering(t.Scalar(1.4), K)
}

func freeTempering(t *tape, K int) hvae.Schedule[float64] {
	alpha := t.Matrix(K, 1)
	for k := range K {
		alpha.Data[k] = 0.96 - 0.06*float64(k%3)
	}
	return hvae.FreeTempering(t.Leaf(alpha))
}

// schemes lists every tempering for several K.
func schemes() (all []scheme) {
	for _, K := range []int{0, 1, 2, 5} {
		for _, s := range []scheme{{name: "none", temper: noTempering}, {name: "fixed", temper: fixedTempering}, {name: "free", temper: freeTempering}} {
			s.K = K
			all = append(all, s)
			if K > 1 {
				s.perLayer = true
				all = append(all, s)
			}
		}
	}
	return all
}

func (s scheme) String() string {
	if s.perLayer {
		return fmt.Sprintf("tempering %s, K = %d, ε varied", s.name, s.K)
	}
	return fmt.Sprintf("tempering %s, K = %d", s.name, s.K)
}

// flow builds the scheme's flow for a target in ℓ dimensions, with a different step
// size in each.
func (s scheme) flow(t *tape, target hvae.Target[float64], dims int) *hvae.Flow[float64] {
	rows := 1
	if s.perLayer {
		rows = s.K
	}
	epsilon := t.Matrix(rows, dims)
	for i := range epsilon.Data {
		epsilon.Data[i] = 0.25 + 0.05*float64(i%4)
	}
	return &hvae.Flow[float64]{Target: target, K: s.K, StepSize: t.Leaf(epsilon), Tempering: s.temper(t, s.K)}
}

// normalConst returns a constant [rows×cols] of draws from N(0, I).
func normalConst(t *tape, rows, cols int, rng *rand.Rand) variable {
	m := t.Matrix(rows, cols)
	hvae.FillNormal(rng, m)
	return t.Const(m)
}

// his runs Algorithm 1 with the variational prior N(0.2, 1.1²I).
func his(t *tape, f *hvae.Flow[float64], dims, n int, rng *rand.Rand) hvae.Sample[float64] {
	const mean, sd = 0.2, 1.1
	epsilon := normalConst(t, dims, n, rng)
	z0 := ad.AddConst(ad.Scale(epsilon, sd), mean)
	logPrior := ad.AddConst(hvae.LogNormal(epsilon), -float64(dims)*math.Log(sd))
	return hvae.HIS(f, z0, logPrior, normalConst(t, dims, n, rng))
}

// draws returns log p̂ and the Rao-Blackwellised ELBO of n draws.
func draws(s scheme, bind func(t *tape) hvae.Target[float64], dims, n int, seed uint64) (raw, rb []float64) {
	const batch = 500
	rng := hvae.Stream(seed, s.String())
	var t tape
	for len(raw) < n {
		t.Reset()
		sample := his(&t, s.flow(&t, bind(&t), dims), dims, batch, rng)
		raw = append(raw, sample.LogEstimate().Value.Data...)
		rb = append(rb, sample.ELBO().Value.Data...)
	}
	return raw, rb
}

// ---------------------------------------------------------------------------
// Statistics.

// meanSE returns the mean of x and its standard error.
func meanSE(x []float64) (mean, se float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	return mean, math.Sqrt(variance(x) / float64(len(x)))
}

func variance(x []float64) float64 {
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	s := 0.0
	for _, v := range x {
		s += (v - mean) * (v - mean)
	}
	return s / float64(len(x)-1)
}

// apply maps f over x.
func apply(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

func differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

func relative(got, want float64) float64 {
	return math.Abs(got-want) / max(1e-12, math.Abs(want))
}

func norm(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v * v
	}
	return math.Sqrt(s)
}

// integrate is the trapezoidal rule, which converges faster than any power of the
// step for smooth functions that vanish at both ends.
func integrate(f func(float64) float64, lo, hi float64, n int) float64 {
	h, sum := (hi-lo)/float64(n), 0.0
	for i := range n + 1 {
		sum += f(lo + float64(i)*h)
	}
	return sum * h
}

// slope is Richardson's combination of central differences: its error is O(h⁴).
func slope(f func(float64) float64, h float64) float64 {
	central := func(h float64) float64 { return (f(h) - f(-h)) / (2 * h) }
	return (4*central(h/2) - central(h)) / 3
}

// ---------------------------------------------------------------------------
// Maps of phase space, their numerical Jacobians and determinants.

// mapping is a function on phase space as a plain vector (z, ρ).
type mapping func(s []float64) []float64

// onTape turns a function on the tape into a mapping.
func onTape(dims int, f func(t *tape, s hvae.Phase[float64]) hvae.Phase[float64]) mapping {
	return func(s []float64) []float64 {
		var t tape
		p := f(&t, hvae.Phase[float64]{Z: t.Const(linalg.Column(s[:dims]...)), Rho: t.Const(linalg.Column(s[dims:]...))})
		return append(append([]float64{}, p.Z.Value.Data...), p.Rho.Value.Data...)
	}
}

// jacobian returns the derivatives ∂f_i/∂s_j.
func jacobian(f mapping, s []float64) matrix {
	n := len(s)
	J := linalg.New[float64](len(f(s)), n)
	for j := range n {
		for i := range J.Rows {
			J.Row(i)[j] = slope(func(h float64) float64 {
				moved := append([]float64{}, s...)
				moved[j] += h
				return f(moved)[i]
			}, 1e-3)
		}
	}
	return J
}

// determinant is Gaussian elimination with partial pivoting.
func determinant(m matrix) float64 {
	a, det := m.Clone(), 1.0
	for k := range a.Rows {
		pivot := k
		for i := k + 1; i < a.Rows; i++ {
			if math.Abs(a.At(i, k)) > math.Abs(a.At(pivot, k)) {
				pivot = i
			}
		}
		if pivot != k {
			det = -det
			for j := range a.Cols {
				a.Row(k)[j], a.Row(pivot)[j] = a.At(pivot, j), a.At(k, j)
			}
		}
		det *= a.At(k, k)
		for i := k + 1; i < a.Rows; i++ {
			f := a.At(i, k) / a.At(k, k)
			for j := k; j < a.Cols; j++ {
				a.Row(i)[j] -= f * a.At(k, j)
			}
		}
	}
	return det
}

// gradU is ∇U of a target by differences of its log joint density.
func gradU(target hvae.Target[float64], z []float64) []float64 {
	var t tape
	g := make([]float64, len(z))
	for j := range z {
		g[j] = slope(func(h float64) float64 {
			t.Reset()
			moved := append([]float64{}, z...)
			moved[j] += h
			return -target.LogJoint(t.Const(linalg.Column(moved...))).Scalar()
		}, 1e-3)
	}
	return g
}

var phasePoint = []float64{0.4, -0.9, 0.3, 0.8, -0.5, 1.2} // (z, ρ) in three dimensions

// ---------------------------------------------------------------------------
// Section 2.1 and Algorithm 1: the estimator and its bound.

// smallGaussian is a dataset of the Gaussian model with few points, so that prior and
// posterior overlap, and its exact log evidence.
func smallGaussian(dims int) (bind func(t *tape) hvae.Target[float64], logEvidence float64) {
	x, theta := points(dims, 3)
	data := model.Summarise(x)
	return func(t *tape) hvae.Target[float64] { return gaussian(t, data, theta) }, data.LogEvidence(theta)
}

func bimodalTarget(dims int) (bind func(t *tape) hvae.Target[float64], logEvidence float64) {
	return func(*tape) hvae.Target[float64] { return bimodal{dims} }, bimodalLogEvidence
}

func TestAlgorithm1EstimatesTheEvidenceWithoutBias(t *testing.T) { // eq:unbiased, alg:his
	for name, target := range map[string]func(int) (func(*tape) hvae.Target[float64], float64){"bimodal": bimodalTarget, "gaussian": smallGaussian} {
		bind, logEvidence := target(2)
		for _, s := range schemes() {
			raw, _ := draws(s, bind, 2, 40000, 1)
			ratio := apply(raw, func(l float64) float64 { return math.Exp(l - logEvidence) })
			mean, se := meanSE(ratio)
			if z := (mean - 1) / se; !(math.Abs(z) <= zBound) {
				t.Errorf("%s, %v: E[p̂]/p = %.4f ± %.4f, z = %.1f", name, s, mean, se, z)
			}
			if se > 0.03 {
				t.Errorf("%s, %v: standard error %.3f is too large to see a mistake", name, s, se)
			}
		}
	}
}

func TestELBOIsBelowLogEvidence(t *testing.T) { // eqn:ELBO_single
	for name, target := range map[string]func(int) (func(*tape) hvae.Target[float64], float64){"bimodal": bimodalTarget, "gaussian": smallGaussian} {
		bind, logEvidence := target(2)
		for _, s := range schemes() {
			raw, _ := draws(s, bind, 2, 20000, 2)
			mean, se := meanSE(raw)
			// The variational prior is not the posterior: the bound is strict.
			if z := (mean - logEvidence) / se; z > -zBound {
				t.Errorf("%s, %v: ELBO %.4f ± %.4f, log p(x) %.4f", name, s, mean, se, logEvidence)
			}
		}
	}
}

func TestRaoBlackwellisedELBOHasTheMeanAndTheGradientOfTheRawOne(t *testing.T) { // eqn:H_ELBO_simplified
	bind, _ := bimodalTarget(2)
	for _, s := range schemes() {
		raw, rb := draws(s, bind, 2, 40000, 3)
		mean, se := meanSE(differences(raw, rb))
		if !(math.Abs(mean/se) <= zBound) || se > 0.01 {
			t.Errorf("%v: the two differ by %.4f ± %.4f", s, mean, se)
		}

		// Draw by draw they differ by ½γ₀ᵀγ₀ − ℓ/2, in which there is no parameter.
		var t1 tape
		f := s.flow(&t1, bimodal{2}, 2)
		sample := his(&t1, f, 2, 50, hvae.Stream(4, "gradient"))
		a, b := ad.Mean(sample.LogEstimate()), ad.Mean(sample.ELBO())
		if s.K > 0 {
			ga, gb := ad.Grad(a, f.StepSize), ad.Grad(b, f.StepSize)
			if d := norm(differences(ga.Value.Data, gb.Value.Data)); !(d <= 1e-12*norm(gb.Value.Data)) {
				t.Errorf("%v: the gradients in ε differ by %.1e", s, d)
			}
		}
	}
}

// The paper calls the step from the raw bound to the other Rao-Blackwellisation, which
// cannot increase a variance. But the expectation that it takes is of one term alone,
// not conditional on the rest, with which the term is correlated. As
// raw − rb = ½γ₀ᵀγ₀ − ℓ/2, whose variance is ℓ/2,
//
//	Var(rb) = Var(raw) + ℓ/2 − 2 Cov(raw, ½γ₀ᵀγ₀),
//
// so that rb varies less only if the covariance exceeds ℓ/4. For quadratic potentials
// it is at most zero (with one ε for all steps), since raw loses at least as much by the energy that the momentum
// brings as it gains by the term (TestFinalEnergyOfAQuadraticPotential): rb varies by
// ℓ/2 more, or worse. Training loses nothing by it: the gradients are the same.
func TestRaoBlackwellisedELBOVariesMoreForQuadraticPotentials(t *testing.T) {
	const dims = 2
	bind, _ := smallGaussian(dims)
	for _, s := range schemes() {
		if s.perLayer { // one step size for all steps, as in the argument
			continue
		}
		raw, rb := draws(s, bind, dims, 40000, 5)
		excess, se := varianceExcess(raw, rb)
		if z := (excess - dims/2.) / se; z < -zBound || s.K == 0 && z > zBound {
			t.Errorf("%v: Var(rb) − Var(raw) = %.3f ± %.3f, want at least ℓ/2 (and just that for K = 0)", s, excess, se)
		}
	}
}

// Where one leapfrog step in a steep potential happens to use up what the momentum
// brings, the term ½γ₀ᵀγ₀ stands out in the raw bound, and taking its expectation does
// reduce the variance: here E_K as a function of ½γ₀ᵀγ₀ has a slope near −0.3.
func TestRaoBlackwellisedELBOVariesLessWhereTheMomentumTermStandsOut(t *testing.T) {
	const dims, n = 200, 4000
	var tp tape
	rng := hvae.Stream(6, "steep")
	z0 := ad.Scale(normalConst(&tp, dims, n, rng), 0.01)
	f := &hvae.Flow[float64]{Target: steep{}, K: 1, StepSize: tp.Leaf(ones(1, dims))}
	sample := hvae.HIS(f, z0, tp.Fill(1, n, 0), normalConst(&tp, dims, n, rng))
	excess, se := varianceExcess(sample.LogEstimate().Value.Data, sample.ELBO().Value.Data)
	if z := excess / se; z > -zBound {
		t.Errorf("Var(rb) − Var(raw) = %.3f ± %.3f, want it negative", excess, se)
	}
}

// steep is the potential U(z) = 1.34e-8·(zᵀz)⁴.
type steep struct{}

func (steep) LogJoint(z variable) variable {
	return ad.Scale(ad.Square(ad.Square(ad.MulSumTo(z, z, 1, z.Cols()))), -1.34e-8)
}

// varianceExcess returns Var(b) − Var(a) and its standard error, from squared
// deviations draw by draw.
func varianceExcess(a, b []float64) (excess, se float64) {
	ma, _ := meanSE(a)
	mb, _ := meanSE(b)
	d := make([]float64, len(a))
	for i := range d {
		d[i] = (b[i]-mb)*(b[i]-mb) - (a[i]-ma)*(a[i]-ma)
	}
	return meanSE(d)
}

func ones(rows, cols int) matrix {
	m := linalg.New[float64](rows, cols)
	m.Fill(1)
	return m
}

// For U(z) = ½ω²z², leapfrog steps of one size ε < 2/ω conserve the energy
// ½ρ² + ½ω²(1 − ε²ω²/4)z², and tempering step k takes at most all but α_k² of it. From
// z₀ = 0 and ρ₀ = γ₀/√β₀ it is therefore at least ½γ₀² in the end, and so is U + ½ρ².
func TestFinalEnergyOfAQuadraticPotential(t *testing.T) {
	for _, s := range schemes() {
		if s.perLayer {
			continue
		}
		for _, omega := range []float64{0.1, 1, 2, 4} {
			var tp tape
			target := quadratic{omega}
			f := s.flow(&tp, target, 1)
			gamma0 := tp.Scalar(1)
			sample := hvae.HIS(f, tp.Scalar(0), tp.Scalar(0), gamma0)
			energy := 0.5*math.Pow(sample.End.Rho.Scalar(), 2) - target.LogJoint(sample.End.Z).Scalar()
			if energy < 0.5-1e-12 {
				t.Errorf("%v, ω = %v: γ₀ = 1 ends with energy %.4f", s, omega, energy)
			}
		}
	}
}

// quadratic is the potential U(z) = ½ω²zᵀz.
type quadratic struct{ omega float64 }

func (q quadratic) LogJoint(z variable) variable {
	return ad.Scale(ad.MulSumTo(z, z, 1, z.Cols()), -0.5*q.omega*q.omega)
}

func TestImportanceEstimateTightensFromBelow(t *testing.T) { // section 2.1, IWAE (Burda et al., 2016)
	// In expectation the estimate from L draws increases with L and stays below
	// log p(x). The same draws serve every L, so differences are precise.
	bind, logEvidence := bimodalTarget(2)
	raw, _ := draws(scheme{name: "fixed", K: 2, temper: fixedTempering}, bind, 2, 1<<16, 7)
	var last []float64
	const blocks = 1 << 10
	for _, L := range []int{1, 4, 16, 64} {
		estimates := make([]float64, blocks) // each a mean of 64/L estimates
		for i := range estimates {
			for b := 0; b < 64; b += L {
				e, _ := hvae.ImportanceEstimate(raw[64*i+b : 64*i+b+L])
				estimates[i] += e * float64(L) / 64
			}
		}
		if last != nil {
			if mean, se := meanSE(differences(estimates, last)); mean/se < zBound {
				t.Errorf("L = %d is above the last by %.4f ± %.4f, want it larger", L, mean, se)
			}
		}
		if mean, se := meanSE(estimates); !((mean-logEvidence)/se <= zBound) {
			t.Errorf("L = %d: %.4f ± %.4f exceeds log p(x) = %.4f", L, mean, se, logEvidence)
		}
		last = estimates
	}

	// With many draws it is log p(x) within its own standard error.
	e, se := hvae.ImportanceEstimate(raw)
	if z := (e - logEvidence) / se; !(math.Abs(z) <= zBound) || se > 0.02 {
		t.Errorf("estimate %.4f ± %.4f, log p(x) = %.4f", e, se, logEvidence)
	}
}

func TestReverseKernelsDecideTheVariance(t *testing.T) { // section 2.2: eq:generalizedJarzynski, eq:optimalestimator
	// A chain z_k = a·z_{k−1} + s·ξ_k whose marginals N(0, v_k) are known. Any reverse
	// kernels give an unbiased estimate; the optimal ones, the chain's own backwards,
	// give p(x, z_K)/q_K(z_K), the least variance and the tightest bound.
	const K, a, s, draws, evidence = 3, 0.8, 0.8, 100000, 1.7
	logNormal := func(x, mean, variance float64) float64 {
		return -(x-mean)*(x-mean)/(2*variance) - math.Log(2*math.Pi*variance)/2
	}
	v := [K + 1]float64{1.2}
	for k := range K {
		v[k+1] = a*a*v[k] + s*s
	}
	logJoint := func(z float64) float64 { return math.Log(evidence) + logNormal(z, 0.4, 0.5) }
	var best, bestSquares []float64                // of the optimal kernels: log p̂, and (p̂ − p(x))²
	for _, wrong := range []float64{1, 0.9, 0.7} { // factor of the reverse kernels' means and variances
		rng := hvae.Stream(50, "chain")
		estimates := make([]float64, draws)
		for i := range estimates {
			z := [K + 1]float64{math.Sqrt(v[0]) * rng.NormFloat64()}
			logEstimate := -logNormal(z[0], 0, v[0])
			for k := range K {
				z[k+1] = a*z[k] + s*rng.NormFloat64()
				back := a * v[k] / v[k+1]
				logEstimate += logNormal(z[k], wrong*back*z[k+1], wrong*(v[k]-back*back*v[k+1])) - logNormal(z[k+1], a*z[k], s*s)
			}
			logEstimate += logJoint(z[K])
			estimates[i] = math.Exp(logEstimate)
			if optimal := logJoint(z[K]) - logNormal(z[K], 0, v[K]); wrong == 1 && !(math.Abs(logEstimate-optimal) <= 1e-12) {
				t.Fatalf("with the optimal kernels log p̂ = %v, want log p(x, z_K) − log q_K(z_K) = %v", logEstimate, optimal)
			}
		}
		if mean, se := meanSE(estimates); !(math.Abs(mean-evidence) <= zBound*se) || se > 0.02 {
			t.Errorf("reverse kernels off by %v: E[p̂] = %.4f ± %.4f, want %v", wrong, mean, se, evidence)
		}
		logs := apply(estimates, math.Log)
		squares := apply(estimates, func(p float64) float64 { return (p - evidence) * (p - evidence) })
		if wrong == 1 {
			best, bestSquares = logs, squares
			continue
		}
		// The chains are the same, so differences are precise.
		if more, se := meanSE(differences(squares, bestSquares)); !(more > zBound*se) {
			t.Errorf("reverse kernels off by %v: the variance is %.4f ± %.4f above that of the optimal ones", wrong, more, se)
		}
		if less, se := meanSE(differences(best, logs)); !(less > zBound*se) {
			t.Errorf("reverse kernels off by %v: the bound is %.4f ± %.4f below that of the optimal ones", wrong, less, se)
		}
	}
	if mean, se := meanSE(best); !(mean < math.Log(evidence)-zBound*se) {
		t.Errorf("the bound is %.4f ± %.4f, log p(x) is %.4f", mean, se, math.Log(evidence))
	}
}

// ---------------------------------------------------------------------------
// Section 2.3: Hamiltonian dynamics.

// leapfrogByHand is eqn:lf1 to eqn:lf3, each a mapping of its own.
func leapfrogByHand(target hvae.Target[float64], epsilon []float64) (lf1, lf2, lf3 mapping) {
	n := len(epsilon)
	kick := func(s []float64) []float64 {
		out := append([]float64{}, s...)
		for j, g := range gradU(target, s[:n]) {
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

var stepSizes = []float64{0.3, 0.15, 0.4} // for phasePoint

// leapfrog is the step under test as a mapping.
func leapfrog(target hvae.Target[float64], epsilon []float64) mapping {
	return onTape(len(epsilon), func(t *tape, s hvae.Phase[float64]) hvae.Phase[float64] {
		return hvae.Leapfrog(target, t.Const(linalg.Column(epsilon...)), s)
	})
}

func TestLeapfrogIsItsThreeEquations(t *testing.T) { // eqn:lf1, eqn:lf2, eqn:lf3
	target := bimodal{3}
	lf1, lf2, lf3 := leapfrogByHand(target, stepSizes)
	want := lf3(lf2(lf1(phasePoint)))
	got := leapfrog(target, stepSizes)(phasePoint)
	if d := norm(differences(got, want)); !(d <= 1e-10) {
		t.Errorf("one step ends at %v, the equations at %v", got, want)
	}
}

func TestLeapfrogComposesShearsOfUnitJacobian(t *testing.T) { // section 2.3, after eqn:lf3
	target := bimodal{3}
	lf1, lf2, lf3 := leapfrogByHand(target, stepSizes)
	for i, lf := range []mapping{lf1, lf2, lf3} {
		// A shear changes z or ρ by a function of the other: its Jacobian is the
		// identity but for one off-diagonal block.
		J := jacobian(lf, phasePoint)
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
	if det := determinant(jacobian(leapfrog(target, stepSizes), phasePoint)); !(math.Abs(det-1) <= 1e-9) {
		t.Errorf("the Jacobian of a step is %v", det)
	}
}

func TestLeapfrogIsReversibleUnderMomentumFlip(t *testing.T) { // section 2.3 (Neal, 2011)
	step := leapfrog(bimodal{3}, stepSizes)
	flip := func(s []float64) []float64 { return []float64{s[0], s[1], s[2], -s[3], -s[4], -s[5]} }
	back := flip(step(flip(step(phasePoint))))
	if d := norm(differences(back, phasePoint)); !(d <= 1e-14) {
		t.Errorf("flip, step, flip after a step misses the start by %.1e", d)
	}
	if d := norm(differences(flip(step(phasePoint)), flip(phasePoint))); d < 0.1 {
		t.Error("the step hardly moves: nothing was tested")
	}
}

func TestLeapfrogIsSymplectic(t *testing.T) { // section 2.3 (Neal, 2011)
	// JᵀΩJ = Ω for the form Σ dz_j ∧ dρ_j when all ε_j are equal. With a step size for
	// each dimension the form that is kept is Σ ε_j⁻¹ dz_j ∧ dρ_j: that of the momentum
	// of a system with masses (TestStepSizesAreADiagonalMassMatrix).
	for _, epsilon := range [][]float64{{0.3, 0.3, 0.3}, stepSizes} {
		J := jacobian(leapfrog(bimodal{3}, epsilon), phasePoint)
		omega := linalg.New[float64](6, 6)
		for j := range 3 {
			omega.Row(j)[3+j], omega.Row(3 + j)[j] = 1/epsilon[j], -1/epsilon[j]
		}
		oj, joj := linalg.New[float64](6, 6), linalg.New[float64](6, 6)
		linalg.MatMul(oj, omega, J)
		linalg.MatMulTA(joj, J, oj)
		if d := norm(differences(joj.Data, omega.Data)); !(d <= 1e-8) {
			t.Errorf("ε = %v: JᵀΩJ differs from Ω by %.1e", epsilon, d)
		}
	}
}

func TestStepSizesAreADiagonalMassMatrix(t *testing.T) { // section 2.3, footnote on M (Neal, 2011, section 4.2)
	// Leapfrog with one step size η and masses m, where z moves by η p/m, is leapfrog
	// with ε = η/√m when the momentum is measured as ρ = p/√m.
	const eta = 0.35
	masses := []float64{0.5, 2, 1.3}
	target := bimodal{3}
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
		for j, g := range gradU(target, z) {
			p[j] -= eta / 2 * g
		}
		for j := range z {
			z[j] += eta * p[j] / masses[j]
		}
		for j, g := range gradU(target, z) {
			p[j] -= eta / 2 * g
		}
	}
	for j, m := range masses {
		if !(math.Abs(s[j]-z[j]) <= 1e-9) || !(math.Abs(s[3+j]-p[j]/math.Sqrt(m)) <= 1e-9) {
			t.Errorf("dimension %d: (z, ρ) = (%v, %v), with a mass (%v, %v)", j, s[j], s[3+j], z[j], p[j]/math.Sqrt(m))
		}
	}
}

func TestLeapfrogConservesEnergyToSecondOrder(t *testing.T) { // section 2.3 (Neal, 2011)
	// Over a fixed time the error of H = U + ½ρᵀρ shrinks with ε².
	target := bimodal{3}
	energy := func(s []float64) float64 {
		var tp tape
		return -target.LogJoint(tp.Const(linalg.Column(s[:3]...))).Scalar() + 0.5*math.Pow(norm(s[3:]), 2)
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
}

func TestMapsHaveTheJacobiansOfTempering(t *testing.T) { // section 2.3: α_k^ℓ and β₀^(ℓ/2)
	for _, dims := range []int{1, 2, 3} {
		s0 := append(append([]float64{}, phasePoint[:dims]...), phasePoint[3:3+dims]...)
		for _, s := range schemes() {
			var tp tape
			f := s.flow(&tp, bimodal{dims}, dims)
			logDet := f.LogDet(&tp, dims).Scalar()
			invSqrtBeta0, alpha := f.Tempering.InvSqrtBeta0(), f.Tempering.Alpha()

			product := 1.0
			for _, a := range alpha {
				product *= math.Pow(a, float64(dims))
			}
			if want := math.Pow(invSqrtBeta0, -float64(dims)); !(relative(product, want) <= 1e-12) {
				t.Errorf("%v: Π α^ℓ = %v, β₀^(ℓ/2) = %v", s, product, want)
			}
			flow := onTape(dims, func(t *tape, p hvae.Phase[float64]) hvae.Phase[float64] {
				return s.flow(t, bimodal{dims}, dims).Forward(p)
			})
			det := determinant(jacobian(flow, s0))
			if !(relative(math.Exp(logDet), det) <= 1e-7) || !(relative(det, product) <= 1e-7) {
				t.Errorf("%v, ℓ = %d: det ∇H = %.9f, LogDet says %.9f, Π α^ℓ = %.9f", s, dims, det, math.Exp(logDet), product)
			}
		}
	}
}

func TestFlowHasAnExactInverse(t *testing.T) { // section 2.3: Φ^k are diffeomorphisms
	for _, s := range schemes() {
		forward := onTape(3, func(t *tape, p hvae.Phase[float64]) hvae.Phase[float64] {
			return s.flow(t, bimodal{3}, 3).Forward(p)
		})
		inverse := onTape(3, func(t *tape, p hvae.Phase[float64]) hvae.Phase[float64] {
			return s.flow(t, bimodal{3}, 3).Inverse(p)
		})
		if d := norm(differences(inverse(forward(phasePoint)), phasePoint)); !(d <= 1e-13) {
			t.Errorf("%v: H⁻¹(H(s)) misses s by %.1e", s, d)
		}
		if d := norm(differences(forward(inverse(phasePoint)), phasePoint)); !(d <= 1e-13) {
			t.Errorf("%v: H(H⁻¹(s)) misses s by %.1e", s, d)
		}
	}
}

func TestFlowIsLeapfrogThenTemperingInTurn(t *testing.T) { // section 2.3: Φ^k
	// Step by step by the equations, with the schedule's own α_k.
	for _, s := range schemes() {
		var tp tape
		f := s.flow(&tp, bimodal{3}, 3)
		want := append([]float64{}, phasePoint...)
		for k := range s.K {
			lf1, lf2, lf3 := leapfrogByHand(bimodal{3}, f.StepSize.Value.Row(min(k, f.StepSize.Rows()-1)))
			want = lf3(lf2(lf1(want)))
			if alpha := f.Tempering.Alpha(); alpha != nil {
				for j := 3; j < 6; j++ {
					want[j] *= alpha[k]
				}
			}
		}
		end := f.Forward(hvae.Phase[float64]{Z: tp.Const(linalg.Column(phasePoint[:3]...)), Rho: tp.Const(linalg.Column(phasePoint[3:]...))})
		if d := norm(differences(append(append([]float64{}, end.Z.Value.Data...), end.Rho.Value.Data...), want)); !(d <= 1e-9) {
			t.Errorf("%v: the flow misses the equations by %.1e", s, d)
		}
	}
}

func TestKStepsTakeKPlusOneGradients(t *testing.T) { // alg:his; one at each of z_0 … z_K
	for _, s := range schemes() {
		want := s.K + 1
		if s.K == 0 {
			want = 1 // no gradient; the density at z₀
		}
		var tp tape
		c := &counter{Target: bimodal{2}}
		sample := his(&tp, s.flow(&tp, c, 2), 2, 5, hvae.Stream(1, "count"))
		sample.LogEstimate()
		// The tape's gradient at z_K computed log p(x, z_K) too: it is not done again.
		if c.evaluations != want {
			t.Errorf("%v: the log joint density was evaluated %d times, want %d", s, c.evaluations, want)
		}

		x, theta := points(2, 3)
		g := &closedCounter{ClosedForm: gaussian(&tp, model.Summarise(x), theta)}
		his(&tp, s.flow(&tp, g, 2), 2, 5, hvae.Stream(1, "count")).ELBO()
		if s.K > 0 && g.gradients != want || s.K == 0 && g.gradients != 0 {
			t.Errorf("%v: ∇U was evaluated %d times", s, g.gradients)
		}
	}
}

// betas returns β_0 … β_K of a schedule, from β₀ and α_k = √(β_{k−1}/β_k).
func betas(s hvae.Schedule[float64]) []float64 {
	beta := []float64{math.Pow(s.InvSqrtBeta0(), -2)}
	for _, a := range s.Alpha() {
		beta = append(beta, beta[len(beta)-1]/(a*a))
	}
	return beta
}

func TestSchedulesHeatFirstAndEndAtTemperatureOne(t *testing.T) { // section 2.3: 0 < β_0 < … < β_K = 1
	for _, K := range []int{1, 2, 3, 10, 30} {
		for _, s := range []float64{1.001, 1.5, 5, 40} {
			var tp tape
			fixed := hvae.FixedTempering(tp.Scalar(s), K)
			if !(relative(fixed.InvSqrtBeta0(), s) <= 1e-15) {
				t.Errorf("1/√β₀ = %v, want %v", fixed.InvSqrtBeta0(), s)
			}
			for _, schedule := range []hvae.Schedule[float64]{fixed, freeTempering(&tp, K)} {
				beta := betas(schedule)
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
}

func TestFixedScheduleIsQuadraticInInverseSquareRootBeta(t *testing.T) { // alg:his, the line of √β_k
	// Not in 1/β, as in the authors' MNIST code: of 1/√β_k, first differences grow
	// linearly and second differences are all 2(1 − 1/√β₀)/K².
	const K, s = 8, 3.0
	var tp tape
	beta := betas(hvae.FixedTempering(tp.Scalar(s), K))
	r := apply(beta, func(b float64) float64 { return 1 / math.Sqrt(b) })
	for k := range r {
		if want := (1-s)*float64(k*k)/(K*K) + s; !(relative(r[k], want) <= 1e-12) {
			t.Errorf("1/√β_%d = %v, want %v", k, r[k], want)
		}
		if k >= 2 {
			if second, want := r[k]-2*r[k-1]+r[k-2], 2*(1-s)/(K*K); !(relative(second, want) <= 1e-10) {
				t.Errorf("second difference %v at k = %d, want %v", second, k, want)
			}
		}
	}
}

func TestFixedAndFreeTemperingCoincideWhereAlphaAgrees(t *testing.T) { // section 2.3
	for _, K := range []int{1, 2, 5} {
		var tp tape
		fixed := hvae.FixedTempering(tp.Scalar(2.5), K)
		free := hvae.FreeTempering(tp.Const(linalg.Column(fixed.Alpha()...)))
		var results [2][]float64
		for i, schedule := range []hvae.Schedule[float64]{fixed, free} {
			f := scheme{K: K, temper: noTempering}.flow(&tp, bimodal{2}, 2)
			f.Tempering = schedule
			s := his(&tp, f, 2, 100, hvae.Stream(8, "coincide"))
			results[i] = append(append([]float64{}, s.LogEstimate().Value.Data...), s.ELBO().Value.Data...)
		}
		if d := norm(differences(results[0], results[1])) / norm(results[0]); !(d <= 1e-12) {
			t.Errorf("K = %d: the estimates differ by %.1e", K, d)
		}
	}
}

func TestInitialMomentumHasTheCanonicalDistribution(t *testing.T) { // section 2.3: ρ₀ ~ N(0, β₀⁻¹I)
	for _, s := range schemes() {
		var tp tape
		const dims, n = 2, 50000
		f := s.flow(&tp, bimodal{dims}, dims)
		sample := his(&tp, f, dims, n, hvae.Stream(9, "momentum"))
		beta0 := betas(f.Tempering)[0]
		for j := range dims {
			rho := sample.Start.Rho.Value.Row(j)
			mean, se := meanSE(rho)
			if !(math.Abs(mean/se) <= zBound) {
				t.Errorf("%v: mean momentum %v ± %v", s, mean, se)
			}
			m2, se2 := meanSE(apply(rho, func(r float64) float64 { return r * r }))
			m4, se4 := meanSE(apply(rho, func(r float64) float64 { return r * r * r * r }))
			if !(math.Abs(m2-1/beta0)/se2 <= zBound) || !(math.Abs(m4-3/(beta0*beta0))/se4 <= zBound) {
				t.Errorf("%v: E[ρ²] = %.4f ± %.4f, E[ρ⁴] = %.3f ± %.3f, want 1/β₀ = %.4f, 3/β₀² = %.3f", s, m2, se2, m4, se4, 1/beta0, 3/(beta0*beta0))
			}
		}
	}
}

func TestEstimateIsDensityOverFlowDensity(t *testing.T) { // eq:estimatorHMC, both sides, and alg:his
	// p̂ = p̄(x, z_K, ρ_K)/q^K(z_K, ρ_K), put together from scalar formulas.
	normal := func(x, sd float64) float64 {
		return math.Exp(-x*x/(2*sd*sd)) / (sd * math.Sqrt(2*math.Pi))
	}
	for _, s := range schemes() {
		var tp tape
		const dims, n = 2, 20
		f := s.flow(&tp, bimodal{dims}, dims)
		sample := his(&tp, f, dims, n, hvae.Stream(10, "density"))
		alpha, hot := f.Tempering.Alpha(), 1/math.Sqrt(betas(f.Tempering)[0])
		logJoint := bimodal{dims}.LogJoint(sample.End.Z).Value.Data
		for i := range n {
			q, p := 1.0, math.Exp(logJoint[i])
			for j := range dims {
				q *= normal(sample.Start.Z.Value.At(j, i)-0.2, 1.1) * normal(sample.Start.Rho.Value.At(j, i), hot)
				p *= normal(sample.End.Rho.Value.At(j, i), 1)
			}
			for _, a := range alpha {
				q /= math.Pow(a, dims)
			}
			if got := math.Exp(sample.LogEstimate().Value.Data[i]); !(relative(got, p/q) <= 1e-10) {
				t.Errorf("%v: p̂ = %v, p̄/q^K = %v", s, got, p/q)
			}
		}
	}
}

func TestFlowDensityIntegratesToOne(t *testing.T) { // eq:estimatorHMC, left side
	// q^K(s) = q⁰(H⁻¹(s))/|det ∇H| over the plane of (z, ρ) for ℓ = 1.
	for _, s := range schemes() {
		const n, edge = 400, 10.0
		h := 2 * edge / n
		z, rho := linalg.New[float64](1, (n+1)*(n+1)), linalg.New[float64](1, (n+1)*(n+1))
		for i := range z.Data {
			z.Data[i] = -edge + h*float64(i%(n+1))
			rho.Data[i] = -edge + h*float64(i/(n+1))
		}
		var tp tape
		f := s.flow(&tp, bimodal{1}, 1)
		start := f.Inverse(hvae.Phase[float64]{Z: tp.Const(z), Rho: tp.Const(rho)})
		hot := f.Tempering.InvSqrtBeta0()
		logQ := ad.Add(hvae.LogNormal(start.Z), hvae.LogNormal(ad.Scale(start.Rho, 1/hot)))
		total := 0.0
		for _, l := range logQ.Value.Data {
			total += math.Exp(l-math.Log(hot)-f.LogDet(&tp, 1).Scalar()) * h * h
		}
		if !(math.Abs(total-1) <= 1e-5) { // the grid's own error is 2e-6 at worst
			t.Errorf("%v: q^K integrates to %.8f", s, total)
		}
	}
}

func TestNoStepsOrNoStepSizeLeaveThePlainBound(t *testing.T) { // section 2.1, the standard framework
	// With K = 0, or as ε → 0, p̂ = p(x, z₀)/q⁰(z₀).
	for _, s := range schemes() {
		for _, epsilon := range []float64{1e-5, 1e-6} {
			var tp tape
			f := s.flow(&tp, bimodal{2}, 2)
			if s.K > 0 {
				f.StepSize = tp.Fill(f.StepSize.Rows(), 2, epsilon)
			}
			sample := his(&tp, f, 2, 100, hvae.Stream(12, "plain"))
			plain := bimodal{2}.LogJoint(sample.Start.Z).Value.Data
			prior := hvae.LogNormal(ad.Scale(ad.AddConst(sample.Start.Z, -0.2), 1/1.1)).Value.Data
			tol := 100 * epsilon * float64(s.K) // the distance is of order ε a step
			for i, got := range sample.LogEstimate().Value.Data {
				if want := plain[i] - prior[i] + 2*math.Log(1.1); !(math.Abs(got-want) <= tol+1e-13) {
					t.Fatalf("%v, ε = %v: log p̂ = %v, log p/q = %v", s, epsilon, got, want)
				}
			}
		}
	}
}

// ---------------------------------------------------------------------------
// Section 3: stochastic variational inference.

// gradientCase is an objective with parameters and, under a seed, its own noise: the
// same seed gives common random numbers.
type gradientCase struct {
	name      string
	params    []matrix
	objective func(t *tape, params []variable) variable // [1×n] or [1×1]
}

func (c gradientCase) value() float64 {
	var t tape
	leaves := make([]variable, len(c.params))
	for i, p := range c.params {
		leaves[i] = t.Leaf(p)
	}
	return ad.Mean(c.objective(&t, leaves)).Scalar()
}

// methodCase is a method of the Gaussian experiment near its start, on a small dataset.
func methodCase(name string, dims, n int) gradientCase {
	x, _ := points(dims, 20)
	m, err := model.NewMethod(name, model.Summarise(x), hvae.Stream(13, name))
	if err != nil {
		panic(err)
	}
	c := gradientCase{name: name}
	rng := hvae.Stream(14, name)
	for _, p := range m.Params() {
		if p.Name == "log_sigma" {
			p.Value.Fill(0.5) // of the data's order, so that every term matters
		}
		for i := range p.Value.Data {
			p.Value.Data[i] += 0.3 * rng.NormFloat64()
		}
		c.params = append(c.params, p.Value)
	}
	c.objective = func(_ *tape, params []variable) variable {
		return m.ELBO(params, n, hvae.Stream(15, "common random numbers"))
	}
	return c
}

// schemeCase is the ELBO of a flow for a target without closed form, in every
// parameter of flow and variational prior: the gradient passes through ∇U by the tape.
func schemeCase(s scheme) gradientCase {
	const dims, n = 2, 30
	rows := 1
	if s.perLayer {
		rows = s.K
	}
	mean, logSD := linalg.Column(0.2, -0.1), linalg.Column(0.1, -0.2)
	logit := linalg.New[float64](rows, dims)
	hot, alpha := linalg.Column(math.Log(0.6)), linalg.New[float64](s.K, 1)
	alpha.Fill(1.5)
	logit.Fill(0.2)
	return gradientCase{s.String(), []matrix{mean, logSD, logit, hot, alpha}, func(t *tape, p []variable) variable {
		rng := hvae.Stream(16, "common random numbers")
		epsilon := normalConst(t, dims, n, rng)
		z0 := ad.Add(ad.Mul(ad.Exp(p[1]), epsilon), p[0]) // section 5.2's reparameterisation
		logPrior := ad.Sub(hvae.LogNormal(epsilon), ad.Sum(p[1]))
		f := &hvae.Flow[float64]{Target: bimodal{dims}, K: s.K, StepSize: ad.Scale(ad.Sigmoid(p[2]), 0.5)}
		switch s.name {
		case "fixed":
			f.Tempering = hvae.FixedTempering(ad.AddConst(ad.Exp(p[3]), 1), s.K)
		case "free":
			f.Tempering = hvae.FreeTempering(ad.Sigmoid(p[4]))
		}
		return hvae.HIS(f, z0, logPrior, normalConst(t, dims, n, rng)).ELBO()
	}}
}

func TestGradientsOfTheELBOAgainstDifferencesWithCommonRandomNumbers(t *testing.T) { // section 2.1, alg:vi
	// The average over a batch (alg:vi) is a smooth function of θ and φ for fixed
	// noise: the gradient that training follows is its slope, in every parameter. As
	// the noise does not depend on them, its expectation is the ELBO's gradient.
	var cases []gradientCase
	for _, s := range schemes() {
		cases = append(cases, schemeCase(s))
	}
	for _, name := range model.MethodNames() {
		cases = append(cases, methodCase(name, 3, 10))
	}
	for _, c := range cases {
		var tp tape
		leaves := make([]variable, len(c.params))
		for i, p := range c.params {
			leaves[i] = tp.Leaf(p)
		}
		ad.Backward(ad.Mean(c.objective(&tp, leaves)), leaves...)
		var got, want []float64
		for i, p := range c.params {
			got = append(got, leaves[i].Adjoint().Data...)
			for j := range p.Data {
				want = append(want, slope(func(h float64) float64 {
					defer func(v float64) { p.Data[j] = v }(p.Data[j])
					p.Data[j] += h
					return c.value()
				}, 1e-3))
			}
		}
		if e := norm(differences(got, want)) / norm(want); !(e <= 1e-7) {
			t.Errorf("%s: the gradient is off by %.1e", c.name, e)
		}
	}
}

func TestReparameterisedGradientsAreUnbiased(t *testing.T) { // section 2.1, after eqn:ELBO_single
	// Where the bound is a formula, the mean of sampled gradients must be its slope:
	// E[log p(D, z₀) − log q⁰(z₀)] for z₀ ~ N(μ, s²), which MeanField knows exactly.
	x, theta := points(1, 20)
	data := model.Summarise(x)
	vb := model.NewMeanField(data)
	mean, logScale := linalg.Column(0.4), linalg.Column(-0.6)
	delta, logSigma := linalg.Column(theta.Delta...), linalg.Column(math.Log(theta.Sigma[0]))

	var exact tape
	leaves := []variable{exact.Leaf(delta), exact.Leaf(logSigma), exact.Leaf(mean), exact.Leaf(logScale)}
	ad.Backward(vb.ELBO(leaves, 0, nil), leaves...)

	const batches = 4000
	var samples [4][]float64
	rng := hvae.Stream(17, "unbiased")
	var tp tape
	for range batches {
		tp.Reset()
		l := []variable{tp.Leaf(delta), tp.Leaf(logSigma), tp.Leaf(mean), tp.Leaf(logScale)}
		g := model.NewTarget(data)
		g.Bind(l[0], l[1])
		epsilon := normalConst(&tp, 1, 10, rng)
		z0 := ad.Add(ad.Mul(ad.Exp(l[3]), epsilon), l[2])
		logPrior := ad.Sub(hvae.LogNormal(epsilon), l[3])
		f := &hvae.Flow[float64]{Target: g} // K = 0: the plain bound
		ad.Backward(ad.Mean(hvae.HIS(f, z0, logPrior, normalConst(&tp, 1, 10, rng)).ELBO()), l...)
		for i := range l {
			samples[i] = append(samples[i], l[i].Adjoint().Data[0])
		}
	}
	for i, name := range []string{"Δ", "log σ", "μ", "log s"} {
		want := leaves[i].Adjoint().Data[0]
		if mean, se := meanSE(samples[i]); !(math.Abs(mean-want)/se <= zBound) || se > 0.03*math.Abs(want) {
			t.Errorf("%s: mean gradient %.4f ± %.4f, want %.4f", name, mean, se, want)
		}
	}
}

func TestTrainingClimbsTheELBO(t *testing.T) { // alg:vi
	for _, name := range model.MethodNames() {
		x, _ := points(2, 30)
		m, err := model.NewMethod(name, model.Summarise(x), hvae.Stream(18, name))
		if err != nil {
			t.Fatal(err)
		}
		trainer := model.NewTrainer(m, 10, 1e-2, hvae.Stream(19, name))
		before := trainer.MeanELBO(1000)
		for range 500 {
			if err := trainer.Step(); err != nil {
				t.Fatal(err)
			}
		}
		if after := trainer.MeanELBO(1000); after < before+30 {
			t.Errorf("%s: the ELBO went from %.1f to %.1f in 500 steps", name, before, after)
		}
	}
}

// ---------------------------------------------------------------------------
// Section 5.1: the Gaussian model.

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

func TestLogJointDensityIsTheSumOverPoints(t *testing.T) { // section 5.1, log p_θ(D, z)
	const d, n = 3, 7
	x, theta := points(d, n)
	var tp tape
	g := gaussian(&tp, model.Summarise(x), theta)
	z := normalConst(&tp, d, 4, hvae.Stream(20, "z"))
	for i, got := range g.LogJoint(z).Value.Data {
		want := 0.0
		for j := range d {
			want += logJointOfPoints(x.Row(j), theta.Delta[j], theta.Sigma[j], z.Value.At(j, i))
		}
		if !(relative(got, want) <= 1e-13) {
			t.Errorf("log p(D, z) = %v, the sum over points is %v", got, want)
		}
	}
}

func TestEvidenceAndPosteriorAgainstQuadrature(t *testing.T) { // section 5.1, log p_θ(D)
	const d, n = 3, 7
	x, theta := points(d, n)
	data := model.Summarise(x)
	mean, variance := data.Posterior(theta)
	logEvidence := 0.0
	for j := range d {
		density := func(z float64) float64 {
			return math.Exp(logJointOfPoints(x.Row(j), theta.Delta[j], theta.Sigma[j], z))
		}
		evidence := integrate(density, -12, 12, 4000)
		logEvidence += math.Log(evidence)
		m := integrate(func(z float64) float64 { return z * density(z) }, -12, 12, 4000) / evidence
		v := integrate(func(z float64) float64 { return (z - m) * (z - m) * density(z) }, -12, 12, 4000) / evidence
		if !(relative(mean[j], m) <= 1e-11) || !(relative(variance[j], v) <= 1e-11) {
			t.Errorf("dimension %d: posterior N(%v, %v), by quadrature N(%v, %v)", j, mean[j], variance[j], m, v)
		}
	}
	if got := data.LogEvidence(theta); !(relative(got, logEvidence) <= 1e-12) {
		t.Errorf("log p(D) = %v, by quadrature %v", got, logEvidence)
	}
}

func TestPotentialGradientInClosedFormByTheTapeAndByDifferences(t *testing.T) { // section 5.1, ∇U_θ(z|D)
	// U = −log p(D, z). The paper's line for U lacks the sign, its gradient does not:
	// ∇U = z + NΣ⁻¹(z + Δ − x̄).
	const d, n = 3, 7
	x, theta := points(d, n)
	data := model.Summarise(x)
	var tp tape
	g := gaussian(&tp, data, theta)
	z := tp.Leaf(linalg.Column(0.3, -1.2, 0.8))
	closed, _ := hvae.PotentialGradient[float64](g, z)
	taped, logJoint := hvae.PotentialGradient[float64](logJointOnly{g}, z)
	if logJoint == nil || !(relative(logJoint.Scalar(), g.LogJoint(z).Scalar()) <= 1e-15) {
		t.Error("the tape's gradient must leave log p(x, z) behind")
	}
	numeric := gradU(g, z.Value.Data)
	for j := range d {
		zj := z.Value.At(j, 0)
		want := zj + n/(theta.Sigma[j]*theta.Sigma[j])*(zj+theta.Delta[j]-data.Mean[j])
		for name, got := range map[string]float64{"closed form": closed.Value.At(j, 0), "tape": taped.Value.At(j, 0), "differences": numeric[j]} {
			if !(math.Abs(got-want) <= 1e-9) {
				t.Errorf("%s: ∂U/∂z_%d = %v, the paper's formula gives %v", name, j, got, want)
			}
		}
	}
}

// logJointOnly hides that a target knows its gradient.
type logJointOnly struct{ target hvae.Target[float64] }

func (l logJointOnly) LogJoint(z variable) variable { return l.target.LogJoint(z) }

func TestMaximumLikelihoodMaximisesTheEvidence(t *testing.T) { // section 5.1, θ*
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
				if g := slope(at, 1e-3); !(math.Abs(g) <= 1e-6*float64(n)) {
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
}

func TestStatisticsAreStable(t *testing.T) { // section 5.1: the data enter through x̄ and Σ(x − x̄)²
	x, _ := points(2, 50)
	base := model.Summarise(x)
	linalg.AddConst(x, x, 1e7)
	moved := model.Summarise(x)
	for j := range 2 {
		if !(relative(moved.Scatter[j], base.Scatter[j]) <= 1e-8) || !(math.Abs(moved.Mean[j]-1e7-base.Mean[j]) <= 1e-7) {
			t.Errorf("1e7 away the statistics are %v and %v, not %v and %v", moved.Mean[j]-1e7, moved.Scatter[j], base.Mean[j], base.Scatter[j])
		}
	}
}

func TestTrueParameters(t *testing.T) { // section 5.1: Δ and σ that generate the data
	got := model.Truth(5)
	want := model.Theta{Delta: []float64{-0.4, -0.2, 0, 0.2, 0.4}, Sigma: []float64{1, 0.325, 0.1, 0.325, 1}}
	if d := norm(differences(got.Delta, want.Delta)) + norm(differences(got.Sigma, want.Sigma)); !(d <= 1e-14) {
		t.Error(cmp.Diff(want, got))
	}
	for _, d := range []int{1, 2, 11, 50, 301} {
		truth := model.Truth(d)
		if !(math.Abs(truth.Sigma[0]-1) <= 1e-14) || !(math.Abs(truth.Sigma[d-1]-1) <= 1e-14) || !(math.Abs(truth.Delta[d-1]-float64(d-1)/10) <= 1e-12) {
			t.Errorf("d = %d: ends are σ = %v, %v and Δ = %v", d, truth.Sigma[0], truth.Sigma[d-1], truth.Delta[d-1])
		}
	}
}

func TestDatasetsHaveTheModelsDistribution(t *testing.T) { // section 5.1: x̄ ~ N(Δ, 1 + σ²/N), S/σ² ~ χ²_{N−1}
	truth := model.Truth(3)
	const n, datasets = 5, 4000
	for j := range 3 {
		var means, scatters []float64
		for k := range datasets {
			data := model.Draw(truth, n, hvae.Stream(22, "distribution", k))
			means = append(means, data.Mean[j])
			scatters = append(scatters, data.Scatter[j]/(truth.Sigma[j]*truth.Sigma[j]))
		}
		m, se := meanSE(means)
		v, vse := meanSE(apply(means, func(x float64) float64 { return (x - truth.Delta[j]) * (x - truth.Delta[j]) }))
		s, sse := meanSE(scatters)
		if !(math.Abs(m-truth.Delta[j])/se <= zBound) || !(math.Abs(v-1-truth.Sigma[j]*truth.Sigma[j]/n)/vse <= zBound) || !(math.Abs(s-(n-1))/sse <= zBound) {
			t.Errorf("dimension %d: E[x̄] = %.3f ± %.3f, Var = %.3f ± %.3f, E[S/σ²] = %.3f ± %.3f", j, m, se, v, vse, s, sse)
		}
	}
}

func TestMethodsStartWhereTheReferenceStarts(t *testing.T) { // section 5.1; φ = {ε, β₀}, d + 1 parameters
	data := model.Draw(model.Truth(3), 100, hvae.Stream(23, "start"))
	constant := func(rows, cols int, v float64) matrix {
		m := linalg.New[float64](rows, cols)
		m.Fill(v)
		return m
	}
	for _, tempered := range []bool{true, false} {
		h := model.NewHVAE(data, 10, tempered)
		want := []model.Param{
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
	if v, se := meanSE(apply(uw, func(x float64) float64 { return x * x / 0.01 })); !(math.Abs(v-want)/se <= zBound) {
		t.Errorf("u and w start with variance %.4f ± %.4f of 0.1², want %.4f", v, se, want)
	}
	vb := model.NewMeanField(data).Params()
	if len(vb) != 4 || vb[2].Value.At(1, 0) != 0 || vb[3].Value.At(1, 0) != 1 {
		t.Errorf("mean-field VB starts from %v", vb)
	}
}

// ---------------------------------------------------------------------------
// Section 5.1: the methods' bounds.

// methodELBO returns draws of a method's ELBO on a dataset with its parameters set.
func methodELBO(m model.Method, set func(params []model.Param), n int, seed uint64) []float64 {
	set(m.Params())
	var t tape
	leaves := make([]variable, len(m.Params()))
	for i, p := range m.Params() {
		leaves[i] = t.Leaf(p.Value)
	}
	return m.ELBO(leaves, n, hvae.Stream(seed, "elbo")).Value.Data
}

// setTheta returns a function that sets Δ and log σ.
func setTheta(theta model.Theta) func(params []model.Param) {
	return func(params []model.Param) {
		copy(params[0].Value.Data, theta.Delta)
		copy(params[1].Value.Data, apply(theta.Sigma, math.Log))
	}
}

func TestPlanarFlowsBoundIsThatOfAnUnbiasedEstimate(t *testing.T) { // section 5.1; Rezende and Mohamed, equations 10 and 13
	// E[exp(log p(D, z_K) − log q_K(z_K))] = p(D). It is not without the factor ½ of
	// the data term, which the authors' code forgets.
	for _, K := range []int{1, 4, 30} {
		x, theta := points(2, 3)
		data := model.Summarise(x)
		p := model.NewPlanar(data, K, hvae.Stream(27, "planar"))
		log := methodELBO(p, func(params []model.Param) {
			setTheta(theta)(params)
			// A gentle flow, for a small variance: wᵀû = softplus(wᵀu) − 1 = 0.6/K.
			wu := math.Log(math.Expm1(1 + 0.6/float64(K)))
			copy(params[2].Value.Data, []float64{wu, 0.3 / float64(K)})
			copy(params[3].Value.Data, []float64{1, 0})
		}, 60000, 28)
		logEvidence := data.LogEvidence(theta)
		mean, se := meanSE(apply(log, func(l float64) float64 { return math.Exp(l - logEvidence) }))
		if !(math.Abs(mean-1)/se <= zBound) || se > 0.03 {
			t.Errorf("K = %d: E[p̂]/p = %.4f ± %.4f", K, mean, se)
		}
	}
}

func TestMeanFieldBoundIsTheExpectationOfItsEstimate(t *testing.T) { // section 5.1, L_ELBO(θ, φ; D)
	const d, n = 2, 40000
	x, theta := points(d, 6)
	data := model.Summarise(x)
	mean, sd := []float64{0.3, -0.4}, []float64{0.5, 0.8}
	exact := methodELBO(model.NewMeanField(data), func(params []model.Param) {
		setTheta(theta)(params)
		copy(params[2].Value.Data, mean)
		copy(params[3].Value.Data, apply(sd, math.Log))
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
	if m, se := meanSE(sampled); !(math.Abs(m-exact)/se <= zBound) || se > 0.05 {
		t.Errorf("the bound is %.4f, its estimate %.4f ± %.4f", exact, m, se)
	}
}

func TestMeanFieldGapIsTheDivergenceFromThePosterior(t *testing.T) { // section 5.1: the posterior is a product of normals
	// log p(D) − ELBO = KL(q ‖ p(z|D)), which is zero only at the posterior itself.
	x, theta := points(3, 6)
	data := model.Summarise(x)
	mean, variance := data.Posterior(theta)
	for _, q := range []struct{ away, scale float64 }{{0, 1}, {0.2, 1}, {0, 1.7}, {-0.3, 0.4}} {
		elbo := methodELBO(model.NewMeanField(data), func(params []model.Param) {
			setTheta(theta)(params)
			copy(params[2].Value.Data, apply(mean, func(m float64) float64 { return m + q.away }))
			copy(params[3].Value.Data, apply(variance, func(v float64) float64 { return math.Log(q.scale) + math.Log(v)/2 }))
		}, 1, 0)[0]
		gap := 0.0
		for _, v := range variance {
			gap += (q.scale*q.scale + q.away*q.away/v - 1 - 2*math.Log(q.scale)) / 2
		}
		if got := data.LogEvidence(theta) - elbo; !(math.Abs(got-gap) <= 1e-11) {
			t.Errorf("%v from the posterior's mean and %v times as wide the gap is %v, want %v", q.away, q.scale, got, gap)
		}
	}
}

func TestHVAEOnTheGaussianModelBoundsTheEvidence(t *testing.T) { // section 5.1 with eqn:H_ELBO_simplified, ε = ξ·sigmoid(·), ξ = 0.5
	// The experiment's own estimate against the flow's linear algebra: for a quadratic
	// potential (z_K, ρ_K) is affine in the noise, which gives the mean exactly.
	for _, tempered := range []bool{true, false} {
		for _, K := range []int{1, 10} {
			x, theta := points(2, 3)
			data := model.Summarise(x)
			h := model.NewHVAE(data, K, tempered)
			elbo := methodELBO(h, func(params []model.Param) {
				setTheta(theta)(params)
				params[2].Value.Fill(-0.4)
				if tempered {
					params[3].Value.Fill(math.Log(0.4))
				}
			}, 60000, 30)
			want := 0.0
			for j := range 2 {
				want += affineELBO(data, theta, j, K, 0.5/(1+math.Exp(0.4)), tempered)
			}
			mean, se := meanSE(elbo)
			if !(math.Abs(mean-want)/se <= zBound) || se > 0.2 {
				t.Errorf("tempered %v, K = %d: ELBO %.4f ± %.4f, want %.4f", tempered, K, mean, se, want)
			}
			if mean > data.LogEvidence(theta) {
				t.Errorf("tempered %v, K = %d: ELBO %.4f above log p(D) = %.4f", tempered, K, mean, data.LogEvidence(theta))
			}
		}
	}
}

// affine is a constant and the factors of z₀ and γ₀.
type affine [3]float64

// affineFlow follows the flow of the Gaussian model by hand in dimension j, where it is
// affine in z₀ and γ₀: z_K = m + a·z₀ + b·γ₀, and ρ_K likewise. 1/√β₀ is 1.4 if tempered.
func affineFlow(data model.Data, theta model.Theta, j, K int, epsilon float64, tempered bool) (z, rho affine) {
	addScaled := func(a affine, s float64, b affine) affine {
		return affine{a[0] + s*b[0], a[1] + s*b[1], a[2] + s*b[2]}
	}
	r := func(k int) float64 { // 1/√β_k
		if !tempered {
			return 1
		}
		return (1-1.4)*float64(k*k)/float64(K*K) + 1.4
	}
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
func affineELBO(data model.Data, theta model.Theta, j, K int, epsilon float64, tempered bool) float64 {
	z, rho := affineFlow(data, theta, j, K, epsilon, tempered)
	w := float64(data.N) / (theta.Sigma[j] * theta.Sigma[j])
	square := func(a affine) float64 { return a[0]*a[0] + a[1]*a[1] + a[2]*a[2] }
	misfit := z
	misfit[0] += theta.Delta[j] - data.Mean[j]
	n, v := float64(data.N), theta.Sigma[j]*theta.Sigma[j]
	joint := -n/2*math.Log(2*math.Pi*v) - data.Scatter[j]/(2*v) - w/2*square(misfit) - square(z)/2 - math.Log(2*math.Pi)/2
	prior := -0.5 - math.Log(2*math.Pi)/2
	return joint - square(rho)/2 - prior + 0.5
}

func TestHVAEGapIsTheDivergenceOfTheFlowFromThePosterior(t *testing.T) { // section 2.3 with section 5.1
	// log p(D) − ELBO = KL(q^K(z, ρ) ‖ p(z|D) N(ρ|0, I)), both normal in each dimension.
	// From (z₀, γ₀), whose covariance is I, to (z_K, ρ_K) volumes stay the same, as
	// tempering takes back what heating the momentum added: q^K's covariance has unit
	// determinant.
	x, theta := points(2, 3)
	data := model.Summarise(x)
	mean, variance := data.Posterior(theta)
	for _, tempered := range []bool{true, false} {
		for _, K := range []int{1, 2, 10} {
			const epsilon = 0.3
			elbo, gap := 0.0, 0.0
			for j := range 2 {
				z, rho := affineFlow(data, theta, j, K, epsilon, tempered)
				away := z[0] - mean[j]
				gap += ((z[1]*z[1]+z[2]*z[2]+away*away)/variance[j] + rho[1]*rho[1] + rho[2]*rho[2] + rho[0]*rho[0] - 2 + math.Log(variance[j])) / 2
				elbo += affineELBO(data, theta, j, K, epsilon, tempered)
				if det := z[1]*rho[2] - z[2]*rho[1]; !(math.Abs(det-1) <= 1e-11) {
					t.Errorf("tempered %v, K = %d: volumes grow by %v from (z₀, γ₀) to (z_K, ρ_K)", tempered, K, det)
				}
			}
			if got := data.LogEvidence(theta) - elbo; !(math.Abs(got-gap) <= 1e-10*gap) {
				t.Errorf("tempered %v, K = %d: the gap is %v, the divergence %v", tempered, K, got, gap)
			}
		}
	}
}

func TestWithoutTemperingAFineFlowGivesTheStandardEstimate(t *testing.T) { // section 2.3: a homogeneous flow has a high variance
	// The leapfrog conserves H = U + ½ρᵀρ to second order, and then
	// log p̂ = log p(x, z₀) − log q⁰(z₀): the flow's steps add nothing to the estimate.
	const n, length = 400, 2.0
	difference := func(K int) float64 {
		var tp tape
		rng := hvae.Stream(40, "fine flow")
		f := &hvae.Flow[float64]{Target: bimodal{2}, K: K, StepSize: tp.Const(linalg.Of(1, 2, []float64{length / float64(K), length / float64(K)}))}
		sample := his(&tp, f, 2, n, rng)
		standard := his(&tp, &hvae.Flow[float64]{Target: f.Target}, 2, n, hvae.Stream(40, "fine flow"))
		return norm(differences(sample.LogEstimate().Value.Data, standard.LogEstimate().Value.Data))
	}
	last := difference(20)
	for _, K := range []int{40, 80, 160} {
		d := difference(K)
		if ratio := last / d; ratio < 3.8 || ratio > 4.2 {
			t.Errorf("half the step size divides the difference by %.2f, want 4", ratio)
		}
		last = d
	}
}

func TestTemperingLetsTheFlowLeaveItsModeAndTheVarianceFall(t *testing.T) { // section 2.3, "allows us to explore isolated modes of the target"
	const draws = 20000
	type result struct{ mean, variance, varianceSE, changed float64 }
	run := func(K int, invSqrtBeta0 float64) (r result) {
		l, changed := model.DrawTwoModes(K, invSqrtBeta0, draws, hvae.Stream(41, "two modes", K))
		r.mean, _ = meanSE(l)
		r.variance, r.varianceSE = meanSE(apply(l, func(v float64) float64 { return (v - r.mean) * (v - r.mean) }))
		r.changed = float64(changed) / draws
		return r
	}
	z := func(a, b, seA, seB float64) float64 { return (a - b) / math.Hypot(seA, seB) }
	var last, first result
	for i, K := range []int{4, 8, 16, 32, 64} {
		with, without := run(K, 3), run(K, 1)
		if i == 0 {
			first = without
		} else if d := z(last.variance, with.variance, last.varianceSE, with.varianceSE); !(d > zBound) {
			t.Errorf("tempered, K = %d: the variance of log p̂ goes from %.2f to %.2f, z = %.1f: it must fall", K, last.variance, with.variance, d)
		}
		if d := z(first.variance, without.variance, first.varianceSE, without.varianceSE); !(math.Abs(d) < zBound) || !(without.varianceSE < 0.05*without.variance) {
			t.Errorf("not tempered, K = %d: the variance of log p̂ goes from %.2f to %.2f, z = %.1f: it must stay", K, first.variance, without.variance, d)
		}
		se := func(p float64) float64 { return math.Sqrt(p * (1 - p) / draws) }
		if d := z(with.changed, without.changed, se(with.changed), se(without.changed)); !(d > zBound) || !(without.changed < 0.04) {
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
}

func TestTemperingIsWhatMakesHVAEEstimateWell(t *testing.T) { // section 5.1, figure 1b
	// On every dataset, small here, the error in σ without tempering is ten times
	// that with it, and larger for K = 10 than for K = 1; with tempering the bound is
	// tighter, and Δ̂ is the maximum-likelihood estimate but for the optimiser's noise.
	c := model.Config{Points: 1000, Iterations: 6000, Draws: 10, Rate: 2e-3, Seed: 1}
	for dataset := range 3 {
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
			if d := norm(differences(with.Theta.Delta, best.Delta)); !(d <= 0.1) {
				t.Errorf("dataset %d, %s: Δ̂ is %.2g from the maximum-likelihood estimate", dataset, K, d)
			}
		}
		if k1, k10 := results["hvae-notemp-k1"].SigmaErr, results["hvae-notemp-k10"].SigmaErr; !(k1 < k10) {
			t.Errorf("dataset %d: untempered σ error %.2g for K = 1, %.2g for K = 10", dataset, k1, k10)
		}
	}
}

// ---------------------------------------------------------------------------
// Section 5.1: the planar flow.

// planarParams returns u, w and b with ‖w‖ = 1.5 and wᵀu = −1.5: u itself would not
// give an invertible layer.
func planarParams(d int, seed int) (u, w, b matrix) {
	rng := hvae.Stream(31, "planar", d, seed)
	u, w = linalg.New[float64](d, 1), linalg.New[float64](d, 1)
	hvae.FillNormal(rng, w)
	hvae.FillNormal(rng, u)
	linalg.Scale(w, 1.5/norm(w.Data), w)
	wu := linalg.New[float64](1, 1)
	linalg.MulSum(wu, w, u)
	linalg.AddScaled(u, u, -(wu.Data[0]+1.5)/(1.5*1.5), w)
	return u, w, linalg.Column(rng.NormFloat64())
}

func TestPlanarLogDeterminantAgainstANumericalOne(t *testing.T) { // Rezende and Mohamed, equations 11 to 13
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
				det := determinant(jacobian(func(s []float64) []float64 { z, _ := flow(s); return z }, z0))
				if _, logDet := flow(z0); !(math.Abs(logDet-math.Log(det)) <= 1e-6) {
					t.Errorf("d = %d, K = %d: log det %v, numerically %v", d, K, logDet, math.Log(det))
				}
			}
		}
	}
}

func TestPlanarLayersAreThoseOfRezendeAndMohamed(t *testing.T) { // their equation 10 and appendix A.1
	const d = 3
	u, w, b := planarParams(d, 1)
	wu, ww := 0.0, 0.0
	for j := range d {
		wu += w.Data[j] * u.Data[j]
		ww += w.Data[j] * w.Data[j]
	}
	m := math.Log1p(math.Exp(wu)) - 1
	want := append([]float64{}, phasePoint[:d]...)
	for range 2 {
		a := b.Data[0]
		for j := range d {
			a += w.Data[j] * want[j]
		}
		for j := range d {
			want[j] += (u.Data[j] + (m-wu)*w.Data[j]/ww) * math.Tanh(a)
		}
	}
	var tp tape
	z, _ := model.PlanarFlow(tp.Const(linalg.Column(phasePoint[:d]...)), tp.Const(u), tp.Const(w), tp.Const(b), 2)
	if e := norm(differences(z.Value.Data, want)); !(e <= 1e-13) {
		t.Errorf("two layers end at %v, want %v", z.Value.Data, want)
	}
}

func TestPlanarDensityIntegratesToOne(t *testing.T) { // Rezende and Mohamed, equation 13, in one dimension
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
}

// ---------------------------------------------------------------------------
// Section 5.2: the model for MNIST.

// digits is a small model at random weights, large enough for the latent variable to
// matter, in float64.
type digits struct {
	config mnist.Config
	params []mnist.Param[float64]
}

func newDigits(c mnist.Config, seed uint64) digits {
	params := mnist.NewParams[float64](c, -0.5, seed)
	for _, p := range params {
		switch p.Name {
		case "decoder.hidden.weight", "decoder.expand.weight", "decoder.deconv1.weight", "decoder.deconv2.weight", "decoder.deconv3.weight":
			linalg.Scale(p.Value, 4, p.Value)
		case "encoder.std.bias":
			p.Value.Fill(0.7) // σ near 1.1: wider than the posterior, for a finite variance
		}
	}
	return digits{c, params}
}

// bind puts the model on a tape.
func (d digits) bind(t *tape, train bool) (n *mnist.Network[float64], leaves []variable) {
	n = new(mnist.Network[float64])
	return n, n.Bind(t, d.config, d.params, train, nil)
}

// image returns binary images [784×n].
func image(t *tape, n int, seed uint64) variable {
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

// The layers as PyTorch defines them, on (channel, row, column) arrays.

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

func softplus(x []float64) []float64 { return apply(x, linalg.SoftplusAt) }

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

func TestNetworksAreThoseOfTheCheckpointsConventions(t *testing.T) { // section 5.2; transposes of the same three convolutions
	d := newDigits(mnist.Config{Kind: "vae", Tempering: "none", Latent: 3}, 1)
	for _, p := range d.params { // biases too must be seen
		if len(p.Shape) == 1 {
			hvae.FillNormal(hvae.Stream(2, p.Name), p.Value)
		}
	}
	var tp tape
	n, _ := d.bind(&tp, false)
	x := image(&tp, 2, 3)
	z := normalConst(&tp, 3, 2, hvae.Stream(3, "z"))
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
			if e := norm(differences(pair[0], pair[1])) / norm(pair[1]); !(e <= 1e-12) {
				t.Errorf("%s of column %d is off by %.1e", name, j, e)
			}
		}
	}
}

func TestLogLikelihoodIsThatOfBernoulliPixels(t *testing.T) { // section 5.2, x_i | z_i
	var tp tape
	x := tp.Const(linalg.Column(1.0, 0, 1, 0, 1, 0, 1, 0))
	a := tp.Const(linalg.Column(0.3, 0.3, -4, -4, 900, 900, -900, -900))
	want := 0.0
	for i, logit := range a.Value.Data[:4] {
		pi := 1 / (1 + math.Exp(-logit))
		want += x.Value.Data[i]*math.Log(pi) + (1-x.Value.Data[i])*math.Log(1-pi)
	}
	want += 0 - 900 - 900 + 0 // probabilities so near 0 and 1 that no float64 holds them
	if got := mnist.LogBernoulli(x, a).Scalar(); !(relative(got, want) <= 1e-14) {
		t.Errorf("log p(x|z) = %v, want %v", got, want)
	}
}

func TestVAEBoundInTermsOfItsParts(t *testing.T) { // section 5.2, z₀ = μ + Σ^½·ε
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
		divergence += integrate(func(v float64) float64 {
			return math.Exp(logQ(v)) * (logQ(v) + v*v/2 + math.Log(2*math.Pi)/2)
		}, mean[j]-12*std[j], mean[j]+12*std[j], 2000)
	}
	want := -divergence
	for i, a := range d.decodeByHand(z) {
		want += x.Value.Data[i]*a - linalg.SoftplusAt(a)
	}
	if !(relative(got, want) <= 1e-12) {
		t.Errorf("ELBO = %.12f, want %.12f", got, want)
	}
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

func TestMNISTModelsEstimateTheEvidenceWithoutBias(t *testing.T) { // eq:unbiased for section 5.2
	// With ℓ = 1 the evidence is an integral along a line. Every model has the same
	// decoder; half of the flows are in step sizes that are not the start's.
	var logEvidence float64
	for i, c := range mnistSchemes(1) {
		d := newDigits(c, 6)
		for _, p := range d.params {
			if p.Name == "flow.step_size_logit" {
				for k := range p.Value.Data {
					p.Value.Data[k] += 0.5 * float64(k)
				}
			}
		}
		var tp tape
		if i == 0 {
			const grid = 200
			n, _ := d.bind(&tp, false)
			z := linalg.New[float64](1, grid+1)
			for j := range z.Data {
				z.Data[j] = -8 + 16*float64(j)/grid
			}
			logJoint := n.Flow(image(&tp, 1, 7)).Target.LogJoint(tp.Const(z)).Value.Data
			logEvidence = linalg.LogSumExp(logJoint) + math.Log(16./grid)
			spread := logJoint[120] - logJoint[80] + 0.5*(z.Data[120]*z.Data[120]-z.Data[80]*z.Data[80])
			if math.Abs(spread) < 0.1 {
				t.Fatalf("log p(x|z) changes by %.3f only: the latent variable does not matter", spread)
			}
		}
		const draws = 600
		tp.Reset()
		n, _ := d.bind(&tp, false)
		x := image(&tp, 1, 7)
		mean, std := n.Encode(x)
		rng := hvae.Stream(8, c.String())
		logs := n.LogEstimates(x, mean, std, normalConst(&tp, 1, draws, rng), normalConst(&tp, 1, draws, rng)).Value.Data
		ratio := apply(logs, func(l float64) float64 { return math.Exp(l - logEvidence) })
		if m, se := meanSE(ratio); !(math.Abs(m-1)/se <= zBound) || se > 0.05 {
			t.Errorf("%v: E[p̂]/p = %.4f ± %.4f", c, m, se)
		}

		// The estimates from L draws grow with L towards log p(x), and do not pass it.
		var last []float64
		for _, L := range []int{1, 5, 25} {
			var estimates []float64
			for lo := 0; lo < draws; lo += 25 {
				sum := 0.0
				for b := lo; b < lo+25; b += L {
					e, _ := hvae.ImportanceEstimate(logs[b : b+L])
					sum += e * float64(L) / 25
				}
				estimates = append(estimates, sum)
			}
			if m, se := meanSE(estimates); !((m-logEvidence)/se <= zBound) {
				t.Errorf("%v, L = %d: %.4f ± %.4f is above log p(x) = %.4f", c, L, m, se, logEvidence)
			}
			if last != nil {
				if m, _ := meanSE(differences(estimates, last)); m <= 0 {
					t.Errorf("%v: the estimate from %d draws is below that from fewer by %.4f", c, L, -m)
				}
			}
			last = estimates
		}
	}
}

func TestHVAEWithoutStepsIsTheVAE(t *testing.T) { // section 5.2 with K = 0
	vae := newDigits(mnist.Config{Kind: "vae", Tempering: "none", Latent: 2}, 9)
	none := newDigits(mnist.Config{Kind: "hvae", Tempering: "none", Latent: 2}, 9)
	var tp tape
	a, _ := vae.bind(&tp, false)
	b, _ := none.bind(&tp, false)
	const draws = 200
	x := image(&tp, 1, 10)
	rng := hvae.Stream(11, "without steps")
	epsilon, gamma0 := normalConst(&tp, 2, draws, rng), normalConst(&tp, 2, draws, rng)
	mean, std := a.Encode(x)
	la, lb := a.LogEstimates(x, mean, std, epsilon, gamma0).Value.Data, b.LogEstimates(x, mean, std, epsilon, gamma0).Value.Data
	if d := norm(differences(la, lb)); !(d <= 1e-11*norm(la)) {
		t.Errorf("log p̂ differs by %.1e", d)
	}
	// The bounds take expectations of different terms, and agree in mean.
	many := ad.BroadcastTo(x, 784, draws)
	mean1, se := meanSE(differences(a.ELBO(many, epsilon, gamma0).Value.Data, b.ELBO(many, epsilon, gamma0).Value.Data))
	if !(math.Abs(mean1)/se <= zBound) || se > 0.2 {
		t.Errorf("the bounds differ by %.3f ± %.3f", mean1, se)
	}
}

func TestMNISTGradientsAgainstDifferences(t *testing.T) { // section 5.2: weights, ε, α, β₀
	// Along a random direction in each tensor.
	for _, c := range mnistSchemes(2) {
		d := newDigits(c, 12)
		var tp tape
		value := func(train bool) (variable, []variable) {
			tp.Reset()
			n, leaves := d.bind(&tp, train)
			rng := hvae.Stream(13, "common random numbers")
			return n.ELBO(image(&tp, 1, 14), normalConst(&tp, 2, 1, rng), normalConst(&tp, 2, 1, rng)), leaves
		}
		elbo, leaves := value(true)
		ad.Backward(elbo, leaves...)
		gradients := make([]matrix, len(leaves))
		for i, l := range leaves {
			gradients[i] = l.Adjoint().Clone()
		}
		for i, p := range d.params {
			v := linalg.New[float64](p.Value.Rows, p.Value.Cols)
			hvae.FillNormal(hvae.Stream(15, p.Name), v)
			linalg.Scale(v, 1/norm(v.Data), v)
			dot := linalg.New[float64](1, 1)
			linalg.MulSum(dot, v, gradients[i])
			want := slope(func(h float64) float64 {
				saved := p.Value.Clone()
				defer copy(p.Value.Data, saved.Data)
				linalg.AddScaled(p.Value, p.Value, h, v)
				e, _ := value(false)
				return e.Scalar()
			}, 1e-2) // a unit vector in a large tensor moves each weight little
			if !(math.Abs(dot.Data[0]-want) <= 1e-7*max(math.Abs(want), 1e-2)) {
				t.Errorf("%v: slope along %s is %.9g, differences say %.9g", c, p.Name, dot.Data[0], want)
			}
		}
	}
}

// ---------------------------------------------------------------------------
// The table at the head of this file.

func TestTheTableNamesTestsThatExistAndAllOfThisFile(t *testing.T) {
	inFolder := func(folder string) map[string]bool {
		names := map[string]bool{}
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests: %v", folder, err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(d.Name.Name, "Test") {
					names[d.Name.Name] = true
				}
			}
		}
		return names
	}
	f, err := parser.ParseFile(token.NewFileSet(), "paper_test.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, name := range regexp.MustCompile(`([a-z]+/)*Test\w+`).FindAllString(f.Doc.Text(), -1) {
		listed[name] = true
		folder, test := path.Split(name)
		if !inFolder(filepath.Join(".", folder))[test] {
			t.Errorf("the table names %s, which does not exist", name)
		}
	}
	for name := range inFolder(".") {
		if name != t.Name() && !listed[name] {
			t.Errorf("the table does not name %s", name)
		}
	}
}
