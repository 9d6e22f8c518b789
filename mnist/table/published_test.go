package table

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// column returns of(r) for each run r.
func column(runs []result, of func(result) float64) []float64 {
	var x []float64
	for _, r := range runs {
		x = append(x, of(r))
	}
	return x
}

// leastSquares fits y ≈ Σⱼ bⱼxⱼ + c. It returns b₀, b₁, …, c and the fraction of the variance of y that
// the fit explains.
func leastSquares(y []float64, x ...[]float64) (b []float64, explained float64) {
	one := make([]float64, len(y))
	for i := range one {
		one[i] = 1
	}
	x = append(slices.Clone(x), one)
	dot := func(a, b []float64) (s float64) {
		for i := range a {
			s += a[i] * b[i]
		}
		return s
	}
	// Solve the normal equations by Gauss-Jordan elimination.
	n := len(x)
	m := make([][]float64, n)
	for i := range m {
		for j := range x {
			m[i] = append(m[i], dot(x[i], x[j]))
		}
		m[i] = append(m[i], dot(x[i], y))
	}
	for i := range m {
		for k := range m {
			if f := m[k][i] / m[i][i]; k != i {
				for j := range m[k] {
					m[k][j] -= f * m[i][j]
				}
			}
		}
	}
	for i := range m {
		b = append(b, m[i][n]/m[i][i])
	}
	mean := dot(y, one) / float64(len(y))
	residual, total := 0.0, 0.0
	for i, v := range y {
		for j := range x {
			v -= b[j] * x[j][i]
		}
		residual += v * v
		total += (y[i] - mean) * (y[i] - mean)
	}
	return b, 1 - residual/total
}

// The statistics of the 54 published HVAEs in ../results/README.md must agree with linear fits of the NLL
// to log(epochs), tempering and ε.
func TestStatisticsOfThePublishedRuns(t *testing.T) {
	all := published()
	var hvaes []result
	for _, r := range all {
		if r.Row != "vae" {
			hvaes = append(hvaes, r)
		}
	}
	if len(all) != 57 || len(hvaes) != 54 {
		t.Fatalf("published returns %d runs with %d HVAEs, want 57 with 54", len(all), len(hvaes))
	}
	// indicator returns a column with 1 for each run whose row name contains word, and 0 for the others.
	indicator := func(word string) []float64 {
		return column(hvaes, func(r result) float64 {
			if strings.Contains(r.Row+"-", "-"+word+"-") {
				return 1
			}
			return 0
		})
	}
	nll := column(hvaes, func(r result) float64 { return r.NLL })
	epochs := column(hvaes, func(r result) float64 { return math.Log(float64(r.Epochs)) })
	scheme := [][]float64{indicator("none"), indicator("free"), indicator("varied")} // differences from fixed tempering and shared ε

	check := func(what string, got, want, tolerance float64) {
		t.Helper()
		if !(math.Abs(got-want) <= tolerance) {
			t.Errorf("%s: %.3f, want %v", what, got, want)
		}
	}
	slope, explained := leastSquares(nll, epochs)
	check("correlation of log(epochs) and NLL", math.Copysign(math.Sqrt(explained), slope[0]), -0.63, 0.005)
	check("fraction of variance explained by epochs", explained, 0.40, 0.005)
	check("change of NLL if epochs double, in nats", slope[0]*math.Ln2, -0.7, 0.05)
	_, explained = leastSquares(nll, scheme...)
	check("fraction explained by tempering and ε", explained, 0.58, 0.005)
	both, explained := leastSquares(nll, append([][]float64{epochs}, scheme...)...)
	check("fraction explained by epochs, tempering and ε", explained, 0.87, 0.005)
	check("change of NLL if epochs double, with the same tempering and ε", both[0]*math.Ln2, -0.7, 0.05)
	check("free minus fixed tempering, at equal epochs", both[2], -0.3, 0.05)
	check("varied minus shared ε, at equal epochs", both[3], -0.18, 0.005)

	spread := 0.0
	for _, a := range hvaes {
		for _, b := range hvaes {
			if a.Row == b.Row {
				spread = max(spread, a.NLL-b.NLL)
			}
		}
	}
	check("largest difference of two seeds of a row", spread, 0.74, 1e-9)

	// Of the 25 runs with varied ε, 11 have as many epochs as a run with shared ε (../results/README.md).
	counts := map[bool][]int{}
	for _, r := range hvaes {
		varied := strings.HasSuffix(r.Row, "-varied")
		counts[varied] = append(counts[varied], r.Epochs)
	}
	twice := 0
	for _, n := range counts[true] {
		if slices.Contains(counts[false], n) {
			twice++
		}
	}
	if len(counts[true]) != 25 || twice != 11 {
		t.Errorf("%d of %d epoch counts occur in both tables, want 11 of 25", twice, len(counts[true]))
	}
}
