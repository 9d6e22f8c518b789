package hvaetest

import (
	"fmt"
	"math"
	"slices"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// TestTarget checks a target at the given points z [ℓ], where ℓ = dims, or by default at three points near the origin.
// The function bind returns the target on a tape. TestTarget returns an error unless log p(x, z) is [1×B], its column j
// depends only on column j of z, and the gradients of U and vᵀ∇U, for a random vector v, agree with numerical ones.
// Training needs the gradient of vᵀ∇U, so a ClosedForm must compute ∇U by operations on the tape.
func TestTarget(bind func(t *ad.Tape[float64]) hvae.Target[float64], dims int, points ...[]float64) error {
	points = orNormal(points, 3, dims)
	v := linalg.Column(orNormal(nil, 4, dims)[3]...)
	derivatives := func(z []float64) (values []float64, gradients [2][]float64) { // of U and vᵀ∇U
		var t ad.Tape[float64]
		target, at := bind(&t), t.Leaf(linalg.Column(z...))
		gradU := hvae.PotentialGradient(target, at)
		slope := ad.Dot(gradU, t.Const(v))
		values = []float64{-target.LogJoint(at).Value.Data[0], slope.Scalar()}
		return values, [2][]float64{gradU.Value.Data, ad.Grad(slope, at).Value.Data}
	}
	t, all := new(ad.Tape[float64]), columns(points)
	logJoint := bind(t).LogJoint(t.Const(all)).Value
	if logJoint.Rows != 1 || logJoint.Cols != all.Cols {
		return fmt.Errorf("for z %v, log p(x, z) is %v, not [1×%d]", all.Shape(), logJoint.Shape(), all.Cols)
	}
	for j, z := range points {
		values, gradients := derivatives(z)
		if u := values[0]; !(math.Abs(logJoint.Data[j]+u) <= 1e-10*max(1, math.Abs(u))) {
			return fmt.Errorf("for z = %v, log p(x, z) is %v among other columns, but %v alone", z, logJoint.Data[j], -u)
		}
		for i, name := range []string{"U", "vᵀ∇U"} {
			if err := compare("the gradient of "+name, z, gradients[i], func(h float64) []float64 {
				return Jacobian(func(z []float64) []float64 { values, _ := derivatives(z); return values }, z, h).Row(i)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestFlow checks a flow at the given points (z, ρ) [2ℓ], where ℓ = dims, or by default at one point near the origin.
// The function bind returns the flow on a tape. TestFlow returns an error if Inverse does not undo Forward, if LogDet
// is not the log determinant of the numerical Jacobian, or if rounding errors are too large for these checks.
func TestFlow(bind func(t *ad.Tape[float64]) *hvae.Flow[float64], dims int, points ...[]float64) error {
	apply := func(s []float64, f func(*hvae.Flow[float64], hvae.Phase[float64]) hvae.Phase[float64]) []float64 {
		var t ad.Tape[float64]
		z, rho := t.Const(linalg.Column(s[:dims]...)), t.Const(linalg.Column(s[dims:]...))
		phase := f(bind(&t), hvae.Phase[float64]{Z: z, Rho: rho})
		return slices.Concat(phase.Z.Value.Data, phase.Rho.Value.Data)
	}
	forward := func(s []float64) []float64 { return apply(s, (*hvae.Flow[float64]).Forward) }
	for _, s := range orNormal(points, 1, 2*dims) {
		end := linalg.Column(forward(s)...)
		// The factor 1 + 10⁻⁹h simulates rounding errors. If Inverse amplifies them, compare reports an error.
		if err := compare("H⁻¹(H(z, ρ))", s, s, func(h float64) []float64 {
			moved := end.Clone()
			linalg.Scale(moved, 1+1e-9*h, end)
			return apply(moved.Data, (*hvae.Flow[float64]).Inverse)
		}); err != nil {
			return err
		}
		var t ad.Tape[float64]
		if err := compare("log |det ∇H|", s, bind(&t).LogDet(&t, dims).Value.Data, func(h float64) []float64 {
			return []float64{math.Log(math.Abs(Determinant(Jacobian(forward, s, h))))}
		}); err != nil {
			return err
		}
	}
	return nil
}

// compare returns an error if |g − n| > e + 10⁻⁶·m or e > 10⁻³·m, where g is an element of got, n is the same element
// of numerical(step/8), m = max(1, |n|), and e = 10·|n − numerical(step)| estimates the error of n.
func compare(quantity string, at, got []float64, numerical func(h float64) []float64) error {
	coarse, fine := numerical(step), numerical(step/8)
	for i, want := range fine {
		size, e := max(1, math.Abs(want)), 10*math.Abs(want-coarse[i])
		if !(e <= 1e-3*size) {
			return fmt.Errorf("cannot check element %d of %s at %v: its numerical value %v has an error of about %.0e; "+
				"choose other points, or smaller step sizes of a flow", i+1, quantity, at, want, e)
		}
		if !(math.Abs(got[i]-want) <= e+1e-6*size) {
			return fmt.Errorf("element %d of %s at %v is %v, but its numerical value is %v ± %.0e", i+1, quantity, at, got[i], want, e)
		}
	}
	return nil
}

// orNormal returns points, or n draws from N(0, I) if there are no points. It panics unless each has dims ≥ 1 elements.
func orNormal(points [][]float64, n, dims int) [][]float64 {
	if dims < 1 || slices.ContainsFunc(points, func(p []float64) bool { return len(p) != dims }) {
		panic(fmt.Sprintf("hvaetest: a point must have %d elements, and at least 1; the points are %v", dims, points))
	}
	if points != nil {
		return points
	}
	all := linalg.New[float64](n, dims)
	random.FillNormal(random.Stream(1, "hvaetest points"), all)
	return slices.Collect(slices.Chunk(all.Data, dims))
}

func columns(points [][]float64) linalg.Matrix[float64] {
	m := linalg.New[float64](len(points[0]), len(points))
	for i := range m.Data {
		m.Data[i] = points[i%m.Cols][i/m.Cols]
	}
	return m
}

// TestPrior checks a variational prior q⁰ in ℓ = dims dimensions, in which z₀ is a one-to-one function of the noise ε.
// The function bind returns the prior on a tape, and TestPrior draws B = 50 columns. It returns an error unless
//   - Draw returns z₀ [ℓ×B] and log q⁰(z₀) [1×B], whose column j depends only on column j of ε and on no other noise,
//   - log q⁰(z₀) = log N(ε | 0, I) − log |det ∂z₀/∂ε|, with a numerical Jacobian,
//   - det ∂z₀/∂ε has the same sign for all ε, and
//   - LogDensity returns the same log q⁰(z₀), if the prior is an hvae.Density.
func TestPrior(bind func(t *ad.Tape[float64]) hvae.Prior[float64], dims int) error {
	const B = 50
	points := orNormal(nil, 2*B, dims)
	var t ad.Tape[float64]
	q, noise := bind(&t), t.Const(columns(points[:B]))
	z, logPrior := q.Draw(noise)
	if z.Rows() != dims || z.Cols() != B || logPrior.Rows() != 1 || logPrior.Cols() != B {
		return fmt.Errorf("for %d dimensions, z₀ is %v and log q⁰(z₀) is %v", dims, z.Value.Shape(), logPrior.Value.Shape())
	}
	if density, ok := q.(hvae.Density[float64]); ok {
		got, want := density.LogDensity(z).Value.Data, logPrior.Value.Data
		if !(Distance(got, want) <= 1e-6*Norm(want)) {
			return fmt.Errorf("log q⁰(z₀) of the first draw is %v from LogDensity, but %v from Draw", got[0], want[0])
		}
	}
	previous := 0.0 // determinant at the previous point
	for j, epsilon := range points[:B] {
		draw := func(epsilon []float64, others [][]float64) (drawn []float64) { // column j of z₀ and log q⁰(z₀)
			var t ad.Tape[float64]
			z, logPrior := bind(&t).Draw(t.Const(columns(slices.Concat(others[:j], [][]float64{epsilon}, others[j+1:]))))
			for i := range dims {
				drawn = append(drawn, z.Value.At(i, j))
			}
			return append(drawn, logPrior.Value.Data[j])
		}
		alone := func(epsilon []float64) []float64 { return draw(epsilon, points[:B]) }
		got, again := alone(epsilon), draw(epsilon, points[B:])
		if !(Distance(got, again) <= 1e-10*max(1, Norm(got))) {
			return fmt.Errorf("for ε = %v, z₀ and log q⁰(z₀) are %v, and %v in another draw; they must depend on no other "+
				"column and no other noise", epsilon, got, again)
		}
		det := func(h float64) float64 { return Determinant(Jacobian(alone, epsilon, h).RowRange(0, dims)) }
		d := det(step)
		if d*previous < 0 {
			return fmt.Errorf("det ∂z₀/∂ε is %v for ε = %v, but %v elsewhere; z₀ must be a one-to-one function of ε", d, epsilon, previous)
		}
		previous = d
		if err := compare("log q⁰(z₀)", epsilon, got[dims:], func(h float64) []float64 {
			return []float64{hvae.LogNormal(noise).Value.Data[j] - math.Log(math.Abs(det(h)))}
		}); err != nil {
			return err
		}
	}
	return nil
}
