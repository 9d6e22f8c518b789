package numeric_test

import (
	"math"
	"testing"

	"hvae/linalg/numeric"
)

func TestLogSumExpNeverOverflows(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{nil, -inf},
		{[]float64{-inf, -inf}, -inf},
		{[]float64{3}, 3},
		{[]float64{1000, 1000}, 1000 + math.Ln2},
		{[]float64{-1000, -1000, -1000, -1000}, -1000 + 2*math.Ln2},
		{[]float64{0, -inf}, 0},
		{[]float64{inf, 0}, inf},
		{[]float64{math.NaN(), 1}, math.NaN()},
		{[]float64{inf, math.NaN()}, math.NaN()},
		{[]float64{math.NaN(), -inf}, math.NaN()},
	} {
		got := numeric.LogSumExp(c.x)
		same := got == c.want || math.IsNaN(got) && math.IsNaN(c.want)
		if !same && !(math.Abs(got-c.want) <= 1e-15*math.Abs(c.want)) {
			t.Errorf("LogSumExp(%v) = %v, want %v", c.x, got, c.want)
		}
	}
}

// The expected k̂ was computed by another program, which uses the formulas of the function gpdfit in R's package loo.
// For L = 200, the tail has L/5 = 40 weights, and for L = 10,000, it has 3√L = 300.
func TestTailShapeAgreesWithAnotherImplementation(t *testing.T) {
	for _, c := range []struct {
		L       int
		k, want float64
	}{{200, 0.7, 0.6563716089575686}, {10000, 2, 1.9432442162681511}} {
		logs := make([]float64, c.L)
		for i := range logs {
			logs[i] = -c.k*math.Log((float64(i)+0.5)/float64(c.L)) + 0.3*math.Sin(float64(i))
		}
		if got := numeric.TailShape(logs); !(math.Abs(got-c.want) <= 1e-9) {
			t.Errorf("for %d weights, k̂ = %v, want %v", c.L, got, c.want)
		}
	}
}

// k̂ must be +Inf if the largest weight dwarfs the rest of the tail, and −Inf if all weights are equal. It must be NaN
// for fewer than 100 weights, or if the first quartile of the tail is equal to the largest weight outside the tail.
func TestTailShapeOfDegenerateWeights(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		weights     int
		scale, want float64
	}{{100, 1e3, inf}, {100, inf, inf}, {100, 0, -inf}, {100, 1e-5, -inf}, {99, 1e3, math.NaN()}, {100, 100, math.NaN()}} {
		logs := make([]float64, c.weights) // one weight 1, and others of at most exp(−scale)
		for i := range logs[1:] {
			logs[i+1] = -c.scale * (1 + float64(i%2))
		}
		if got := numeric.TailShape(logs); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%+v: k̂ = %v", c, got)
		}
	}
}
