package model

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

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
	// ELBO returns estimates [1×n] of the evidence lower bound, one for each column of noise [NoiseRows×n]. If the
	// bound has a closed form, ELBO returns the exact bound [1×1]. The slice params contains Params as variables on
	// a tape. ELBO is safe for concurrent use.
	ELBO func(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64]
	// Temperature returns β₀ = 1/s² and volume = s·Π α_k of HVAE, where s is the standard deviation of the initial
	// momentum. The volume is 1 unless the tempering is untied. Temperature is nil for other methods.
	Temperature func(params []*ad.Var[float64]) (beta0, volume float64)
}

// newMethod returns a method with the parameters Δ [d×1] and log σ [d×1]. All elements of Δ start at 0,
// and all elements of log σ start at 3.
func newMethod(d, noiseRows int) *Method {
	m := &Method{NoiseRows: noiseRows}
	m.add("delta", d, 1, 0)
	m.add("log_sigma", d, 1, 3)
	return m
}

// add appends a parameter [rows×cols] whose elements start at the given value.
func (m *Method) add(name string, rows, cols int, start float64) {
	m.Params.Add(name, linalg.New[float64](rows, cols)).Value.Fill(start)
}

// MethodNames returns the names of the paper's methods and of HVAE with untied tempering, for the values of K in
// figure 1. NewMethod also accepts other values of K.
func MethodNames() []string {
	return []string{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10", "hvae-untied-k1", "hvae-untied-k10", "nf-k1", "nf-k30", "vb"}
}

var methodName = regexp.MustCompile(`^(vb|(hvae|hvae-notemp|hvae-untied|nf)-k[1-9]\d{0,3})$`)

// IsMethod reports whether NewMethod accepts the name.
func IsMethod(name string) bool { return methodName.MatchString(name) }

// Parse returns the family and K of a method, such as "hvae-untied" and 10, or "vb" and 0.
func Parse(name string) (family string, K int) {
	family, digits, _ := strings.Cut(name, "-k")
	K, _ = strconv.Atoi(digits)
	return family, K
}

// NewMethod returns the named method for a dataset. The names are vb, hvae-kK, hvae-notemp-kK, hvae-untied-kK and
// nf-kK, where K is the number of steps or layers. The parameters have their initial values, some of which are drawn
// from rng.
func NewMethod(name string, data Data, rng *rand.Rand) *Method {
	switch family, K := Parse(name); family {
	case "nf":
		return NewPlanar(data, K, rng)
	case "vb":
		return NewMeanField(data)
	default:
		tempering := map[string]string{"hvae": "fixed", "hvae-notemp": "none", "hvae-untied": "untied"}
		return NewHVAE(data, K, tempering[family])
	}
}
