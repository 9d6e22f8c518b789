package model

import (
	"math/rand/v2"

	"hvae/ad"
	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Graph computes the functions of a network whose parameters are variables on a tape. It is valid until the tape is
// reset.
type Graph[T linalg.Float] struct {
	network   *Network[T]
	variables map[string]*ad.Var[T] // by the name of the parameter
	recompute bool                  // see hvae.Flow
}

// On returns the graph of the network. The argument record is a function that returns the variable for a parameter, for
// example hvae.Block.Var.
func (n *Network[T]) On(record func(p *hvae.Param[T]) *ad.Var[T]) *Graph[T] {
	g := &Graph[T]{network: n, variables: map[string]*ad.Var[T]{}}
	for _, p := range n.params {
		g.variables[p.Name] = record(&p.Param)
	}
	return g
}

// Const returns the graph of the network with constant parameters on the tape t.
func (n *Network[T]) Const(t *ad.Tape[T]) *Graph[T] {
	return n.On(func(p *hvae.Param[T]) *ad.Var[T] { return t.Const(p.Value) })
}

// Flow returns the Hamiltonian flow for images x [784×B].
func (g *Graph[T]) Flow(x *ad.Var[T]) *hvae.Flow[T] {
	c := g.network.Config
	f := &hvae.Flow[T]{Target: &target[T]{g, x}, K: c.K, Recompute: g.recompute}
	if f.K == 0 {
		return f
	}
	constrained := func(name string, lo, hi float64) *ad.Var[T] { return hvae.Constrain(g.variables[name], lo, hi) }
	f.StepSize = constrained("flow.step_size_logit", 0, maxEps)
	switch c.Tempering {
	case "fixed":
		f.Tempering = hvae.FixedTempering(f.K, constrained("flow.log_temperature", 1, inf))
	case "free":
		f.Tempering = hvae.FreeTempering(constrained("flow.alpha_logit", 0, 1))
	case "untied":
		f.Tempering = hvae.UntiedTempering(constrained("flow.alpha_logit", 0, 1), constrained("flow.log_momentum_sd", 0, inf))
	}
	return f
}

func (g *Graph[T]) dense(name string, x *ad.Var[T]) *ad.Var[T] {
	return ad.Affine(g.variables[name+".weight"], x, g.variables[name+".bias"])
}

// image applies the layer with the given name, a convolution (conv.Conv) or a transposed convolution (conv.Transpose).
func (g *Graph[T]) image(op func(c *conv.Geometry, w, x, bias *ad.Var[T]) *ad.Var[T], c *conv.Geometry, name string,
	x *ad.Var[T]) *ad.Var[T] {
	return op(c, g.variables[name+".weight"], x, g.variables[name+".bias"])
}

// Encode returns the mean and the standard deviation [ℓ×B] of the variational prior q(z|x) for images x [784×B]. The
// standard deviation is the softplus of a layer's output. In float32, ad.Softplus is zero below −44, and the ELBO
// is then −∞.
func (g *Graph[T]) Encode(x *ad.Var[T]) (mean, std *ad.Var[T]) {
	h := ad.Softplus(g.image(conv.Conv, &conv1, "encoder.conv1", x))
	h = ad.Softplus(g.image(conv.Conv, &conv2, "encoder.conv2", h))
	h = ad.Softplus(g.image(conv.Conv, &conv3, "encoder.conv3", h))
	h = ad.Softplus(g.dense("encoder.hidden", h))
	return g.dense("encoder.mean", h), ad.Softplus(g.dense("encoder.std", h))
}

// Decode returns the logits [784×B] of the pixel probabilities π_θ(z) for z [ℓ×B].
func (g *Graph[T]) Decode(z *ad.Var[T]) *ad.Var[T] {
	h := ad.Softplus(g.dense("decoder.hidden", z))
	h = ad.Softplus(g.dense("decoder.expand", h))
	h = ad.Softplus(g.image(conv.Transpose, &conv3, "decoder.deconv1", h))
	h = ad.Softplus(g.image(conv.Transpose, &conv2, "decoder.deconv2", h))
	return g.image(conv.Transpose, &conv1, "decoder.deconv3", h)
}

type target[T linalg.Float] struct {
	graph *Graph[T]
	x     *ad.Var[T] // images [784×B], or one image [784×1] for all columns of z
}

// LogJoint returns log p_θ(x, z) = Σ_j log Bernoulli(x_j | π_θ(z)_j) + log N(z | 0, I) [1×B].
func (t *target[T]) LogJoint(z *ad.Var[T]) *ad.Var[T] {
	return ad.Add(LogBernoulli(t.x, t.graph.Decode(z)), hvae.LogNormal(z))
}

// LogBernoulli returns Σ_j log Bernoulli(x_j | sigmoid(a_j)) = −Σ_j softplus((1 − 2x_j) a_j) [1×B] for pixels
// x ∈ {0, 1} and logits a [784×B]. No term is a difference of larger numbers, so the sum is accurate for all logits.
func LogBernoulli[T linalg.Float](x, a *ad.Var[T]) *ad.Var[T] {
	sign := ad.AddConst(ad.Scale(x, -2), 1)
	return ad.Neg(ad.SumTo(ad.Softplus(ad.Mul(sign, a)), 1, a.Cols()))
}

// ELBO returns log p̂ [1×B], an estimate of the evidence lower bound of each image, for noise ε, γ₀ ~ N(0, I) [ℓ×B].
// With L draws per image (Config.Draws), the noise is [ℓ×(B·L)], with L adjacent columns per image. The estimate is
// then the mean of log p̂ or, if Config.Importance is true, the logarithm of the mean of p̂ (hvae.ImportanceBound).
func (g *Graph[T]) ELBO(x, epsilon, gamma0 *ad.Var[T]) *ad.Var[T] {
	mean, std := g.Encode(x)
	L := max(1, g.network.Config.Draws)
	logs := g.Draw(ad.Repeat(x, L), ad.Repeat(mean, L), ad.Repeat(std, L), epsilon, gamma0).LogEstimate()
	if g.network.Config.Importance {
		return hvae.ImportanceBound(logs, L)
	}
	images := x.Cols()
	return ad.Reshape(ad.Scale(ad.SumTo(ad.Reshape(logs, images, L), images, 1), 1/T(L)), 1, images)
}

// VAEBound returns log p_θ(x|z₀) − KL(q(z₀|x) ‖ N(0, I)) [1×B], an estimate of the evidence lower bound of a VAE for
// each image. Here, z₀ = mean + std·ε, with mean and std from Encode and ε ~ N(0, I) [ℓ×B]. The divergence KL has a
// closed form.
func (g *Graph[T]) VAEBound(x, epsilon *ad.Var[T]) *ad.Var[T] {
	mean, std := g.Encode(x)
	z0, prior := ad.MulAdd(std, epsilon, mean), hvae.DiagonalNormal[T]{Mean: mean, SD: std}
	return ad.Sub(LogBernoulli(x, g.Decode(z0)), prior.Divergence())
}

// Noise returns draws from N(0, I) on the tape t, one in each column [ℓ×draws].
func (n *Network[T]) Noise(t *ad.Tape[T], rng *rand.Rand, draws int) *ad.Var[T] {
	m := t.Matrix(n.Config.Latent, draws)
	random.FillNormal(rng, m)
	return t.Const(m)
}

// Draw runs Algorithm 1 for images x [784×B], with mean and std [ℓ×B] from Encode, and noise ε and γ₀ [ℓ×B]. If x, mean
// and std have one column, it is used for all columns of the noise. Without a flow, p̂ = p(x, z₀)/q(z₀|x).
func (g *Graph[T]) Draw(x, mean, std, epsilon, gamma0 *ad.Var[T]) hvae.Sample[T] {
	return hvae.HIS(g.Flow(x), hvae.DiagonalNormal[T]{Mean: mean, SD: std}, epsilon, gamma0)
}
