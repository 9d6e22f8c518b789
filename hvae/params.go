package hvae

import (
	"fmt"
	"math"
	"slices"

	"hvae/ad"
	"hvae/linalg"
)

// A Param is a named parameter, of θ or of φ. Its elements may be set; a Trainer panics if
// Value itself is replaced.
type Param[T linalg.Float] struct {
	Name  string
	Value linalg.Matrix[T]
}

// Params are the parameters of a Trainer. The zero value is empty.
type Params[T linalg.Float] []*Param[T]

// Add appends a parameter that starts at the given matrix, and returns it.
func (ps *Params[T]) Add(name string, start linalg.Matrix[T]) *Param[T] {
	p := &Param[T]{Name: name, Value: start}
	*ps = append(*ps, p)
	return p
}

// Normal appends a parameter [rows×cols] that starts at independent draws from N(0, sd²), from
// a stream of the seed and the name, and returns it.
func (ps *Params[T]) Normal(name string, rows, cols int, sd T, seed uint64) *Param[T] {
	p := ps.Add(name, linalg.New[T](rows, cols))
	FillNormal(Stream(seed, "start "+name), p.Value)
	linalg.Scale(p.Value, sd, p.Value)
	return p
}

// elements returns the number of elements of all parameters. It panics if two have one name.
func (ps Params[T]) elements() (n int) {
	for i, p := range ps {
		if slices.ContainsFunc(ps[:i], func(q *Param[T]) bool { return q.Name == p.Name }) {
			panic(fmt.Sprintf("hvae: two parameters are named %q", p.Name))
		}
		n += len(p.Value.Data)
	}
	return n
}

// split returns views of a vector as matrices of the parameters' shapes, one after another.
func (ps Params[T]) split(theta []T) []linalg.Matrix[T] {
	ms := make([]linalg.Matrix[T], len(ps))
	for i, p := range ps {
		n := len(p.Value.Data)
		ms[i] = linalg.Of(p.Value.Rows, p.Value.Cols, theta[:n:n])
		theta = theta[n:]
	}
	return ms
}

// Constrain maps each trained number x ∈ ℝ into the interval (lo, hi) of the symbol that it
// stands for:
//
//	lo + (hi − lo)·sigmoid(x),   or   lo + exp(x) if hi is +Inf.
//
// ε is in (0, ξ), α_k in (0, 1), 1/√β₀ in (1, ∞) and a standard deviation in (0, ∞). The
// leapfrog diverges if ε is above 2/ω for a curvature ω² of the potential: then the ELBO is a
// number such as −1e15, and no error reports it. ξ = 0.5 and a start of ε = 0.2 or less suit
// posteriors with standard deviations near one; scale them with the smallest one.
func Constrain[T linalg.Float](x *ad.Var[T], lo, hi float64) *ad.Var[T] {
	var y *ad.Var[T]
	if math.IsInf(hi, 1) {
		y = ad.Exp(x)
	} else {
		y = ad.Scale(ad.Sigmoid(x), T(hi-lo))
	}
	if lo != 0 {
		y = ad.AddConst(y, T(lo))
	}
	return y
}

// Unconstrain returns the number x that Constrain maps to v, for a parameter to start at. It
// panics if v is not in (lo, hi).
func Unconstrain(v, lo, hi float64) float64 {
	switch {
	case !(lo < v && v < hi):
		panic(fmt.Sprintf("hvae: Unconstrain of %v, which is not in (%v, %v)", v, lo, hi))
	case math.IsInf(hi, 1):
		return math.Log(v - lo)
	}
	return linalg.Logit((v - lo) / (hi - lo))
}
