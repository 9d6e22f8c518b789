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
