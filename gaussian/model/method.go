package model

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// A Method is a variational method for one dataset. It is not safe for concurrent use.
type Method struct {
	// Params holds the parameters to train, beginning with Δ and log σ. Training changes
	// their values in place.
	Params hvae.Params[float64]
	// NoiseRows is the number of draws from N(0, 1) for one draw of the bound.
	NoiseRows int
	// ELBO returns estimates of the evidence lower bound [1×n], one for each column of noise
	// [NoiseRows×n], or its exact value [1×1]. params are Params on the tape.
	ELBO func(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64]
	// Beta0 returns the learned inverse temperature β₀, or NaN if the method has none.
	Beta0 func() float64
}

// newMethod returns a method with the parameters Δ [d×1] and log σ [d×1], which start at 0 and 3.
func newMethod(d, noiseRows int) *Method {
	m := &Method{NoiseRows: noiseRows, Beta0: math.NaN}
	m.add("delta", d, 1, 0)
	m.add("log_sigma", d, 1, 3)
	return m
}

// add adds a parameter [rows×cols] whose elements start at the given value.
func (m *Method) add(name string, rows, cols int, start float64) {
	m.Params.Add(name, linalg.New[float64](rows, cols)).Value.Fill(start)
}

// Estimate returns the current θ.
func (m *Method) Estimate() Theta {
	delta, logSigma := m.Params[0].Value, m.Params[1].Value
	sigma := linalg.New[float64](logSigma.Rows, 1)
	linalg.Exp(sigma, logSigma)
	return Theta{Delta: delta.Clone().Data, Sigma: sigma.Data}
}

// methods maps names to methods. cost is the relative time of an iteration.
var methods = map[string]struct {
	cost float64
	make func(Data, *rand.Rand) *Method
}{
	"hvae-k1":         {15, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 1, true) }},
	"hvae-k10":        {36, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 10, true) }},
	"hvae-notemp-k1":  {13, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 1, false) }},
	"hvae-notemp-k10": {29, func(d Data, _ *rand.Rand) *Method { return NewHVAE(d, 10, false) }},
	"nf-k1":           {10, func(d Data, rng *rand.Rand) *Method { return NewPlanar(d, 1, rng) }},
	"nf-k30":          {53, func(d Data, rng *rand.Rand) *Method { return NewPlanar(d, 30, rng) }},
	"vb":              {5, func(d Data, _ *rand.Rand) *Method { return NewMeanField(d) }},
}

// MethodNames returns the names of all methods, sorted.
func MethodNames() []string { return slices.Sorted(maps.Keys(methods)) }

// Cost returns the approximate time of an iteration of a method in d dimensions, in arbitrary
// units, for estimates of the remaining time of a run.
func Cost(name string, d int) float64 { return methods[name].cost * float64(d+25) }

// NewMethod returns the named method for a dataset. Its parameters have their starting values,
// some of which are drawn from rng.
func NewMethod(name string, data Data, rng *rand.Rand) (*Method, error) {
	m, ok := methods[name]
	if !ok {
		return nil, fmt.Errorf("unknown method %q: the methods are %s", name, strings.Join(MethodNames(), ", "))
	}
	return m.make(data, rng), nil
}
