package hvae_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
)

// mustPanic reports an error unless f panics with a message that contains want.
func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if message := fmt.Sprint(recover()); !strings.Contains(message, want) {
			t.Errorf("the panic %q does not contain %q", message, want)
		}
	}()
	f()
}

// The second element of the parameter has zero gradients and must not change.
func TestAdamaxMatchesItsFormula(t *testing.T) {
	const rate = 0.01
	o := hvae.Adamax[float64]{Rate: rate}
	p, averages := []float64{1, 2}, linalg.New[float64](2, 2)
	theta, m, u := 1.0, 0.0, 0.0
	for i, g := range []float64{1e-8, 3, -1, 0.5, 0, -7} { // the first gradient equals ε, so the first step is rate/2
		o.Ascend(i+1, p, []float64{g, 0}, averages)
		m, u = 0.9*m+0.1*g, math.Max(0.999*u, math.Abs(g))
		theta += rate / (1 - math.Pow(0.9, float64(i+1))) * m / (u + 1e-8)
		if !(math.Abs(p[0]-theta) <= 1e-14) || p[1] != 2 {
			t.Errorf("after gradient %d, θ is %v, want %v and 2", i+1, p, theta)
		}
	}
}

func TestImportanceBoundIsTheLogarithmOfTheMean(t *testing.T) {
	logs := linalg.Of(1, 6, []float64{-1, -2.5, 0.3, -1001, -1000, -1002}) // two columns of three draws
	var tape ad.Tape[float64]
	l := tape.Leaf(logs)
	if got := hvae.ImportanceBound(l, 1); !slices.Equal(got.Value.Data, logs.Data) {
		t.Error("for L = 1, the result is not log p̂")
	}
	got := hvae.ImportanceBound(l, 3).Value
	for j := range 2 {
		sum, shift := 0.0, -1000*float64(j)
		for _, v := range logs.Data[3*j : 3*j+3] {
			sum += math.Exp(v-shift) / 3
		}
		if want := shift + math.Log(sum); got.Rows != 1 || !(math.Abs(got.At(0, j)-want) <= 1e-12) {
			t.Errorf("the bound of column %d is %v, want %v", j, got.Data[j], want)
		}
	}
	weights := linalg.Of(1, 2, []float64{1, -2})
	if e := hvaetest.GradientError([]linalg.Matrix[float64]{logs}, func(t *ad.Tape[float64], p []*ad.Var[float64]) *ad.Var[float64] {
		return ad.Mul(hvae.ImportanceBound(p[0], 3), t.Const(weights))
	}); !(e <= 1e-6) {
		t.Errorf("the relative error of the gradient is %.2g", e)
	}
	zero := hvae.ImportanceBound(tape.Fill(1, 2, math.Inf(-1)), 2).Scalar() // p̂ = 0
	some := hvae.ImportanceBound(tape.Const(linalg.Of(1, 2, []float64{math.Inf(-1), 0})), 2).Scalar()
	if !math.IsInf(zero, -1) || !(math.Abs(some+math.Ln2) <= 1e-15) {
		t.Errorf("the bounds of draws with p̂ = 0 are %v and %v, want −∞ and −log 2", zero, some)
	}
	mustPanic(t, "log p̂ is [1×6] for L = 4", func() { hvae.ImportanceBound(l, 4) })
}

// The expected k̂ comes from a separate program with the formulas of gpdfit, a function in the R package loo by the
// authors of Pareto smoothed importance sampling. The tail has L/5 = 40 or 3√L = 300 weights.
func TestTailShapeAgreesWithAnotherImplementation(t *testing.T) {
	for _, c := range []struct {
		L       int
		k, want float64
	}{{200, 0.7, 0.6563716089575686}, {10000, 2, 1.9432442162681511}} {
		logs := make([]float64, c.L)
		for i := range logs {
			logs[i] = -c.k*math.Log((float64(i)+0.5)/float64(c.L)) + 0.3*math.Sin(float64(i))
		}
		if got := hvae.ImportanceEstimate(logs).TailShape; !(math.Abs(got-c.want) <= 1e-9) {
			t.Errorf("for %d weights, k̂ = %v, want %v", c.L, got, c.want)
		}
	}
}

// If the largest weight dwarfs the tail, k̂ must be +Inf, not NaN. If all weights are equal, k̂ must be NaN.
func TestTailShapeOfDegenerateWeights(t *testing.T) {
	for scale, want := range map[float64]float64{1e3: math.Inf(1), math.Inf(1): math.Inf(1), 0: math.NaN()} {
		logs := make([]float64, 100)
		for i := range logs[1:] {
			logs[i+1] = -scale * (1 + float64(i%7))
		}
		if got := hvae.ImportanceEstimate(logs).TailShape; got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("one weight 1 and 99 weights of at most exp(-%v): k̂ = %v, want %v", scale, got, want)
		}
	}
}

// A step with another target, or from a changed position, must use the gradient of the new target at the new position.
func TestPhaseDoesNotRememberTheTargetThatMovedIt(t *testing.T) {
	var tape ad.Tape[float64]
	a, b, epsilon := hvaetest.Quadratic{Omega: 1}, hvaetest.Quadratic{Omega: 10}, tape.Fill(1, 1, 0.1)
	moved := hvae.Leapfrog(a, epsilon, hvae.Phase[float64]{Z: tape.Scalar(1), Rho: tape.Scalar(0)})
	z, rho := moved.Z.Scalar(), moved.Rho.Scalar()
	if got, want := moved.Energy(b).Scalar(), 50*z*z+rho*rho/2; !(math.Abs(got-want) <= 1e-12*want) {
		t.Errorf("H(z, ρ) for the second target is %v, want %v", got, want)
	}
	moved.Z = tape.Scalar(2)
	end := hvae.Leapfrog(b, epsilon, moved)
	half := rho - 0.05*100*2
	if want := 2 + 0.1*half; !(math.Abs(end.Z.Scalar()-want) <= 1e-12) {
		t.Errorf("the step moves z = 2 to %v, want %v", end.Z.Scalar(), want)
	}
}
