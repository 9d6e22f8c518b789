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
	ELBO          []float64                    `json:"elbo"`           // for each image
	LogEstimate   []float64                    `json:"log_estimate"`   // log p̂ for each draw
	GradientNorms map[string]float64           `json:"gradient_norms"` // Euclidean norms of the gradients of the mean ELBO
	Trajectory    []struct{ Z, Rho []float64 } // z_k and ρ_k for k = 0 … K, [ℓ×2] in row-major order, if L = 1
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
		{Kind: "hvae", K: 2, Tempering: "free", Latent: 3, Draws: 3},
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
		input := func(first, rows, cols int, f func(float64) float64) linalg.Matrix[float64] {
			m := linalg.New[float64](rows, cols)
			for i := range rows {
				for j := range cols {
					m.Data[cols*i+j] = f(goldenValue(first+j, i))
				}
			}
			return m
		}
		var tape ad.Tape[float64]
		var leaves []*ad.Var[float64]
		network := goldenNetwork(c)
		g := network.On(func(p *hvae.Param[float64]) *ad.Var[float64] {
			leaves = append(leaves, tape.Leaf(p.Value))
			return leaves[len(leaves)-1]
		})
		x := tape.Const(input(100, pixels, 2, func(v float64) float64 {
			if v > 0.1 {
				return 1
			}
			return 0
		}))
		normal := func(v float64) float64 { return math.Sqrt(12) * v }
		L := max(1, c.Draws)
		epsilon, gamma0 := tape.Const(input(200, 3, 2*L, normal)), tape.Const(input(300, 3, 2*L, normal))

		mean, std := g.Encode(x)
		if c.K == 0 { // otherwise, the ELBO is log p̂ or a mean over log p̂
			sample := g.Draw(ad.Repeat(x, L), ad.Repeat(mean, L), ad.Repeat(std, L), epsilon, gamma0)
			near("log p̂", sample.LogEstimate().Value.Data, want.LogEstimate)
		} else if L == 1 {
			flow := g.Flow(x)
			start := hvae.Phase[float64]{Z: ad.MulAdd(std, epsilon, mean), Rho: gamma0}
			if s := flow.Tempering.MomentumSD; s != nil {
				start.Rho = ad.Mul(s, gamma0)
			}
			path := flow.Path(start)
			if len(want.Trajectory) != len(path) {
				t.Fatalf("%v: golden.json contains %d points of the trajectory, want %d", c, len(want.Trajectory), len(path))
			}
			for k, s := range path {
				near("z", s.Z.Value.Data, want.Trajectory[k].Z)
				near("ρ", s.Rho.Value.Data, want.Trajectory[k].Rho)
			}
		}

		var elbo *ad.Var[float64]
		if c.Kind == "vae" && c.Draws == 0 {
			elbo = g.VAEBound(x, epsilon)
		} else {
			elbo = g.ELBO(x, epsilon, gamma0)
		}
		near("the ELBO", elbo.Value.Data, want.ELBO)
		gradients := ad.Backward(nil, ad.Mean(elbo), leaves...)
		norms := map[string]float64{}
		for i, p := range network.Params() {
			for _, g := range gradients[i].Data {
				norms[p.Name] = math.Hypot(norms[p.Name], g)
			}
		}
		for name, norm := range want.GradientNorms {
			near("the norm of the gradient of "+name, []float64{norms[name]}, []float64{norm})
		}
	}
}
