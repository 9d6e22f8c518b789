package model

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// A Method is a variational method for one dataset: its parameters and its bound.
type Method interface {
	// Params returns the parameters to train, Δ and log σ first. Training changes
	// them in place.
	Params() []*Param
	// NoiseRows returns how many numbers from N(0, 1) a draw of the bound takes.
	NoiseRows() int
	// ELBO returns an estimate of the evidence lower bound for each column of noise
	// [NoiseRows×n], or one exact value [1×1], as a function of the parameters.
	ELBO(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64]
	// Beta0 returns the learned inverse temperature β₀, or NaN if the method has none.
	Beta0() float64
}

// A Param is a named parameter.
type Param = hvae.Param[float64]

// methods names every method, in the order of the tables. The cost of an iteration is
// relative, and only for estimating how long a run will take.
var methods = []struct {
	name string
	cost float64
	make func(Data, *rand.Rand) Method
}{
	{"hvae-k1", 15, func(d Data, _ *rand.Rand) Method { return NewHVAE(d, 1, true) }},
	{"hvae-k10", 36, func(d Data, _ *rand.Rand) Method { return NewHVAE(d, 10, true) }},
	{"hvae-notemp-k1", 13, func(d Data, _ *rand.Rand) Method { return NewHVAE(d, 1, false) }},
	{"hvae-notemp-k10", 29, func(d Data, _ *rand.Rand) Method { return NewHVAE(d, 10, false) }},
	{"nf-k1", 10, func(d Data, rng *rand.Rand) Method { return NewPlanar(d, 1, rng) }},
	{"nf-k30", 53, func(d Data, rng *rand.Rand) Method { return NewPlanar(d, 30, rng) }},
	{"vb", 5, func(d Data, _ *rand.Rand) Method { return NewMeanField(d) }},
}

// MethodNames returns the names of all methods.
func MethodNames() (names []string) {
	for _, m := range methods {
		names = append(names, m.name)
	}
	return names
}

// Cost returns about how long an iteration of a method takes in d dimensions, in units
// of its own.
func Cost(name string, d int) float64 {
	for _, m := range methods {
		if m.name == name {
			return m.cost * float64(d+25)
		}
	}
	return 0
}

// NewMethod returns the method of a name for a dataset, with its parameters at their
// starting values; rng draws those that start at random.
func NewMethod(name string, data Data, rng *rand.Rand) (Method, error) {
	for _, m := range methods {
		if m.name == name {
			return m.make(data, rng), nil
		}
	}
	return nil, fmt.Errorf("unknown method %q: the methods are %s", name, strings.Join(MethodNames(), ", "))
}

// theta holds the parameters that every method learns, Δ and log σ [d×1], at their
// starting values Δ = 0 and log σ = 3.
func theta(d int) []*Param {
	delta, logSigma := linalg.New[float64](d, 1), linalg.New[float64](d, 1)
	logSigma.Fill(3)
	return []*Param{{Name: "delta", Value: delta}, {Name: "log_sigma", Value: logSigma}}
}

// Estimate returns θ as a method has learned it.
func Estimate(m Method) Theta {
	p := m.Params()
	sigma := linalg.New[float64](p[1].Value.Rows, 1)
	linalg.Exp(sigma, p[1].Value)
	return Theta{Delta: p[0].Value.Clone().Data, Sigma: sigma.Data}
}
