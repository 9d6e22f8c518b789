package model

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// A golden holds reference values of a model from testdata/golden.json. The script testdata/golden.py computed them
// with PyTorch's convolutions and derivatives in float64. All inputs come from goldenValue, a hash v(t, i) of two
// integers. All models have ℓ = 3. Element i of tensor t, in the order and layout of a checkpoint, is
//
//	weights               v(t, i)·√(12/n), where n is the product of all entries of the shape except the first
//	biases                v(t, i)/5
//	flow.step_size_logit  v(t, i)
//	flow.alpha_logit      v(t, i) + 2
//	flow.log_temperature  v(t, i) − 1
//	flow.log_momentum_sd  v(t, i) − 1
//
// The batch contains two images, b = 0 and 1. Pixel i of image b is 1 if v(100+b, i) > 0.1, else 0. In column j of the
// noise, ε_i = √12·v(200+j, i) and γ₀_i = √12·v(300+j, i).
type golden struct {
	ELBO          []float64          `json:"elbo"`           // for each image
	LogEstimate   []float64          `json:"log_estimate"`   // log p̂ for each draw
	GradientNorms map[string]float64 `json:"gradient_norms"` // Euclidean norms of the gradients of the mean ELBO
}

func goldenValue(t, i int) float64 {
	h := uint32(i+1) + uint32(t+1)<<20
	h *= 2654435761
	h ^= h >> 15
	h *= 2246822519
	h ^= h >> 13
	return float64(h)/(1<<32) - 0.5
}

func goldenNetwork(c Config) *Network[float64] {
	n := New[float64](c, 0, 0)
	for t, p := range n.params {
		scale, shift := 1.0, 0.0
		switch {
		case p.Name == "flow.alpha_logit":
			shift = 2
		case p.Name == "flow.log_temperature", p.Name == "flow.log_momentum_sd":
			shift = -1
		case p.Name == "flow.step_size_logit":
		case len(p.shape) > 1: // weights
			scale = math.Sqrt(12 * float64(p.shape[0]) / float64(len(p.Value.Data)))
		default:
			scale = 0.2
		}
		for i, at := range p.order() {
			p.Value.Data[at] = scale*goldenValue(t, i) + shift
		}
	}
	return n
}

func TestModelAgreesWithPyTorch(t *testing.T) {
	var all map[string]golden
	b, err := os.ReadFile("testdata/golden.json")
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	configs := []Config{
		{Kind: "vae", Tempering: "none", Latent: 3},
		{Kind: "hvae", K: 2, Tempering: "none", Latent: 3},
		{Kind: "hvae", K: 2, Tempering: "fixed", Latent: 3},
		{Kind: "hvae", K: 3, Tempering: "free", VaryEps: true, Latent: 3},
		{Kind: "hvae", K: 2, Tempering: "untied", Latent: 3},
		{Kind: "vae", Tempering: "none", Latent: 3, Draws: 3},
		{Kind: "vae", Tempering: "none", Latent: 3, Draws: 3, Importance: true},
		{Kind: "hvae", K: 2, Tempering: "fixed", Latent: 3, Draws: 3, Importance: true},
	}
	if len(all) != len(configs) {
		t.Fatalf("golden.json contains values for %d models, want %d", len(all), len(configs))
	}
	for _, c := range configs {
		want, ok := all[c.String()]
		if !ok {
			t.Fatalf("golden.json does not contain values for %v", c)
		}
		near := func(what string, got, want []float64) {
			t.Helper()
			for i := range want {
				if !(math.Abs(got[i]-want[i]) <= 1e-10*math.Max(1, math.Abs(want[i]))) {
					t.Errorf("%v: %s is %.15g, want %.15g", c, what, got, want)
					return
				}
			}
		}
		var tape ad.Tape[float64]
		input := func(first, rows, cols int) *ad.Var[float64] {
			m := linalg.New[float64](rows, cols)
			for i := range m.Data {
				m.Data[i] = math.Sqrt(12) * goldenValue(first+i%cols, i/cols)
			}
			return tape.Const(m)
		}
		x, L := input(100, pixels, 2), max(1, c.Draws)
		for i, v := range x.Value.Data {
			x.Value.Data[i] = 0
			if v > 0.1*math.Sqrt(12) {
				x.Value.Data[i] = 1
			}
		}
		var leaves []*ad.Var[float64]
		network := goldenNetwork(c)
		g := network.On(func(p *hvae.Param[float64]) *ad.Var[float64] {
			leaves = append(leaves, tape.Leaf(p.Value))
			return leaves[len(leaves)-1]
		})
		epsilon := input(200, 3, 2*L)
		elbo := g.ELBO(x, epsilon, input(300, 3, 2*L))
		if c.Kind == "vae" && c.Draws == 0 {
			near("log p̂", elbo.Value.Data, want.LogEstimate)
			elbo = g.VAEBound(x, epsilon)
		}
		near("the ELBO", elbo.Value.Data, want.ELBO)
		gradients := ad.Backward(nil, ad.Mean(elbo), leaves...)
		for i, p := range network.Params() {
			norm := 0.0
			for _, g := range gradients[i].Data {
				norm = math.Hypot(norm, g)
			}
			near("the norm of the gradient of "+p.Name, []float64{norm}, []float64{want.GradientNorms[p.Name]})
		}
	}
}
