package model

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// A Method is a variational method for one dataset.
type Method struct {
	// Params holds the parameters to train. The first two are Δ and log σ.
	Params hvae.Params[float64]
	// NoiseRows is the number of draws from N(0, 1) for one estimate of the bound.
	NoiseRows int
	// ELBO returns an estimate [1×n] of the evidence lower bound for each column of noise [NoiseRows×n]. A
	// bound in closed form has the shape [1×1]. The slice params contains Params as variables on a tape. ELBO is
	// safe for concurrent use.
	ELBO func(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64]
	// Momentum returns the current standard deviation s of the initial momentum of HVAE, which is 1/√β₀, and
	// s·Π α_k, which is 1 unless the tempering is untied. For other methods, it returns NaN.
	Momentum func() (sd, volume float64)
}

// newMethod returns a method with the parameters Δ [d×1] and log σ [d×1]. All elements of Δ start at 0,
// and all elements of log σ start at 3.
func newMethod(d, noiseRows int) *Method {
	m := &Method{NoiseRows: noiseRows, Momentum: func() (sd, volume float64) { return math.NaN(), math.NaN() }}
	m.add("delta", d, 1, 0)
	m.add("log_sigma", d, 1, 3)
	return m
}

// add appends a parameter [rows×cols] whose elements start at the given value.
func (m *Method) add(name string, rows, cols int, start float64) {
	m.Params.Add(name, linalg.New[float64](rows, cols)).Value.Fill(start)
}

// methods maps the name of a method to its constructor and the relative time of a training iteration.
var methods = map[string]struct {
	cost float64
	make func(Data, *rand.Rand) *Method
}{
	"hvae-k1":         {15, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 1, "fixed") }},
	"hvae-k10":        {36, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 10, "fixed") }},
	"hvae-notemp-k1":  {13, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 1, "none") }},
	"hvae-notemp-k10": {29, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 10, "none") }},
	"hvae-untied-k1":  {16, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 1, "untied") }},
	"hvae-untied-k10": {37, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 10, "untied") }},
	"nf-k1":           {10, func(d Data, rng *rand.Rand) *Method { return NewPlanar(d, 1, rng) }},
	"nf-k30":          {53, func(d Data, rng *rand.Rand) *Method { return NewPlanar(d, 30, rng) }},
	"vb":              {5, func(d Data, _ *rand.Rand) *Method { return NewMeanField(d) }},
}

// MethodNames returns the names of all methods, sorted.
func MethodNames() []string { return slices.Sorted(maps.Keys(methods)) }

// Cost returns the approximate time of a training iteration in d dimensions, in arbitrary units.
func Cost(name string, d int) float64 { return methods[name].cost * float64(d+25) }

// NewMethod returns the method with the given name for a dataset. Its parameters have their initial
// values, some of which are drawn from rng. NewMethod panics if the method is unknown.
func NewMethod(name string, data Data, rng *rand.Rand) *Method { return methods[name].make(data, rng) }
