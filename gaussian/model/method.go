package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// A Method is a variational method for one dataset.
type Method interface {
	// Params returns the parameters to train, beginning with Δ and log σ. Training changes
	// their values in place.
	Params() []*Param
	// NoiseRows returns the number of draws from N(0, 1) for one draw of the bound.
	NoiseRows() int
	// ELBO returns estimates of the evidence lower bound [1×n], one for each column of noise
	// [NoiseRows×n], or its exact value [1×1]. params are Params on the tape.
	ELBO(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64]
	// Beta0 returns the learned inverse temperature β₀, or NaN if the method has none.
	Beta0() float64
}

// A Param is a named parameter.
type Param = hvae.Param[float64]

// common is the part of a Method that all methods share. Its Beta0 is for methods without β₀.
type common struct {
	params []*Param
	data   Data
	target Target // recomputed by each call of ELBO
}

// newCommon returns a common with the parameters Δ [d×1] and log σ [d×1], which start at 0 and 3,
// and the given other parameters.
func newCommon(data Data, others ...*Param) common {
	delta, logSigma := linalg.New[float64](data.Dims(), 1), linalg.New[float64](data.Dims(), 1)
	logSigma.Fill(3)
	return common{params: append([]*Param{{Name: "delta", Value: delta}, {Name: "log_sigma", Value: logSigma}}, others...), data: data}
}

func (c *common) Params() []*Param { return c.params }
func (c *common) Beta0() float64   { return math.NaN() }

// methods lists all methods in the order of the tables. cost is the relative time of an iteration.
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

// Cost returns the approximate time of an iteration of a method in d dimensions, in arbitrary
// units. It is for estimating the remaining time of a run.
func Cost(name string, d int) float64 {
	for _, m := range methods {
		if m.name == name {
			return m.cost * float64(d+25)
		}
	}
	return 0
}

// NewMethod returns the named method for a dataset. Its parameters have their starting values,
// some of which are drawn from rng.
func NewMethod(name string, data Data, rng *rand.Rand) (Method, error) {
	for _, m := range methods {
		if m.name == name {
			return m.make(data, rng), nil
		}
	}
	return nil, fmt.Errorf("unknown method %q: the methods are %s", name, strings.Join(MethodNames(), ", "))
}

// Estimate returns the current θ of a method.
func Estimate(m Method) Theta {
	p := m.Params()
	sigma := linalg.New[float64](p[1].Value.Rows, 1)
	linalg.Exp(sigma, p[1].Value)
	return Theta{Delta: p[0].Value.Clone().Data, Sigma: sigma.Data}
}
