package hvaetest

import "math"

// ZBound is how many standard errors a mean may be from what it should be. A true statement
// about many draws exceeds it with probability 7e-6; as tests draw from fixed seeds, whether
// one does is decided once, and they cannot flicker. A test must be able to see a mistake,
// too: let it bound the standard error, and write conditions as !(z <= ZBound), which NaN
// fails.
const ZBound = 4.5

// MeanSE returns the mean of x and its standard error.
func MeanSE(x []float64) (mean, se float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	s := 0.0
	for _, v := range x {
		s += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(s / float64(len(x)-1) / float64(len(x)))
}

// Z returns how many standard errors the mean of x is above what it should be.
func Z(x []float64, want float64) float64 {
	mean, se := MeanSE(x)
	return (mean - want) / se
}

// Apply returns f(x_i) for each element of x.
func Apply(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

// Differences returns a − b, draw by draw: of two estimates from the same noise it has a
// smaller variance than either.
func Differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

// Distance returns ‖a − b‖.
func Distance(a, b []float64) float64 { return Norm(Differences(a, b)) }

// Norm returns ‖x‖.
func Norm(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v * v
	}
	return math.Sqrt(s)
}

// Relative returns |got − want|/|want|.
func Relative(got, want float64) float64 {
	return math.Abs(got-want) / max(1e-12, math.Abs(want))
}

// VarianceExcess returns Var(b) − Var(a) for two estimates from the same draws, and its
// standard error.
func VarianceExcess(a, b []float64) (excess, se float64) {
	ma, _ := MeanSE(a)
	mb, _ := MeanSE(b)
	d := make([]float64, len(a))
	for i := range d {
		d[i] = (b[i]-mb)*(b[i]-mb) - (a[i]-ma)*(a[i]-ma)
	}
	return MeanSE(d)
}
