package model

import (
	"math"

	"hvae/ad"
	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
)

// A Network is the encoder, decoder and flow of a model. Its parameters are variables on a tape.
type Network[T linalg.Float] struct {
	config  Config
	encoder struct{ conv1, conv2, conv3, hidden, mean, std layer[T] }
	decoder struct{ hidden, expand, deconv1, deconv2, deconv3 layer[T] }
	flow    hvae.Flow[T] // without a target
}

// A layer is a dense layer, a convolution or a transposed convolution.
type layer[T linalg.Float] struct{ weight, bias *ad.Var[T] }

// NewNetwork returns a network whose parameters are vars, in the order of NewParams. The network is valid
// until the tape of vars is reset.
func NewNetwork[T linalg.Float](c Config, vars []*ad.Var[T]) *Network[T] {
	n := &Network[T]{config: c}
	e, d := &n.encoder, &n.decoder
	layers := []*layer[T]{&e.conv1, &e.conv2, &e.conv3, &e.hidden, &e.mean, &e.std, &d.hidden, &d.expand, &d.deconv1, &d.deconv2, &d.deconv3}
	for i, l := range layers {
		*l = layer[T]{vars[2*i], vars[2*i+1]}
	}
	if n.flow.K = c.K; c.K == 0 {
		return n
	}
	flow := vars[2*len(layers):]
	n.flow.StepSize = hvae.Constrain(flow[0], 0, maxEps)
	switch c.Tempering {
	case "fixed":
		n.flow.Tempering = hvae.FixedTempering(c.K, hvae.Constrain(flow[1], 1, math.Inf(1)))
	case "free":
		n.flow.Tempering = hvae.FreeTempering(hvae.Constrain(flow[1], 0, 1))
	case "untied":
		n.flow.Tempering = hvae.UntiedTempering(hvae.Constrain(flow[1], 0, 1), hvae.Constrain(flow[2], 0, math.Inf(1)))
	}
	return n
}

// Network returns the network of a checkpoint. Its parameters are constants on tape t.
func (c Checkpoint) Network(t *ad.Tape[float32]) *Network[float32] {
	return NewNetwork(c.Config, Vars(t.Const, c.Params))
}

// Vars records the parameters on a tape and returns their variables. The argument record is the method Const or Leaf of
// the tape.
func Vars[T linalg.Float](record func(linalg.Matrix[T]) *ad.Var[T], params []Param[T]) (vars []*ad.Var[T]) {
	for _, p := range params {
		vars = append(vars, record(p.Value))
	}
	return vars
}

// Flow returns the Hamiltonian flow for images x [784×B].
func (n *Network[T]) Flow(x *ad.Var[T]) *hvae.Flow[T] {
	flow := n.flow
	flow.Target = &target[T]{n, x}
	return &flow
}

// Encode returns the mean and the standard deviation [ℓ×B] of the variational prior q(z|x) for images x [784×B]. If the
// input of the last softplus is below −44, the standard deviation is zero (linalg.Softplus) and the ELBO is −∞.
func (n *Network[T]) Encode(x *ad.Var[T]) (mean, std *ad.Var[T]) {
	e := &n.encoder
	h := ad.Softplus(conv.Conv(&conv1, e.conv1.weight, x, e.conv1.bias))
	h = ad.Softplus(conv.Conv(&conv2, e.conv2.weight, h, e.conv2.bias))
	h = ad.Softplus(conv.Conv(&conv3, e.conv3.weight, h, e.conv3.bias))
	h = ad.Softplus(ad.Affine(e.hidden.weight, h, e.hidden.bias))
	return ad.Affine(e.mean.weight, h, e.mean.bias), ad.Softplus(ad.Affine(e.std.weight, h, e.std.bias))
}

// Decode returns the logits [784×B] of the pixel probabilities π_θ(z) for z [ℓ×B].
func (n *Network[T]) Decode(z *ad.Var[T]) *ad.Var[T] {
	d := &n.decoder
	h := ad.Softplus(ad.Affine(d.hidden.weight, z, d.hidden.bias))
	h = ad.Softplus(ad.Affine(d.expand.weight, h, d.expand.bias))
	h = ad.Softplus(conv.Transpose(&conv3, d.deconv1.weight, h, d.deconv1.bias))
	h = ad.Softplus(conv.Transpose(&conv2, d.deconv2.weight, h, d.deconv2.bias))
	return conv.Transpose(&conv1, d.deconv3.weight, h, d.deconv3.bias)
}

// A target is the log density log p_θ(x, z) as a function of z.
type target[T linalg.Float] struct {
	network *Network[T]
	x       *ad.Var[T] // images [784×B], or one image [784×1] for all columns of z
}

// LogJoint returns log p_θ(x, z) = Σ_j log Bernoulli(x_j | π_θ(z)_j) + log N(z | 0, I) [1×B].
func (t *target[T]) LogJoint(z *ad.Var[T]) *ad.Var[T] {
	return ad.Add(LogBernoulli(t.x, t.network.Decode(z)), hvae.LogNormal(z))
}

// LogBernoulli returns Σ_j log Bernoulli(x_j | sigmoid(a_j)) = Σ_j x_j a_j − softplus(a_j) [1×B] for pixels x ∈ {0, 1}
// and logits a [784×B]. This formula contains no probabilities, so it is accurate for every logit without clipping.
func LogBernoulli[T linalg.Float](x, a *ad.Var[T]) *ad.Var[T] {
	return ad.Sub(ad.MulSumTo(x, a, 1, a.Cols()), ad.SumTo(ad.Softplus(a), 1, a.Cols()))
}

// ELBO returns an estimate [1×B] of the evidence lower bound of each image. The noise ε and γ₀ must be drawn from
// N(0, I); a VAE ignores γ₀. With one draw per image, the noise is [ℓ×B]. The estimate is then log p̂ for an HVAE and
// log p(x|z₀) − KL(q(z₀|x) ‖ N(0, I)) for a VAE, with the divergence in closed form. With L draws per image
// (Config.Draws), the noise is [ℓ×(B·L)], with L adjacent columns per image. The estimate is then the mean of log p̂ or,
// if Config.Importance is true, the logarithm of the mean of p̂ (hvae.ImportanceBound).
func (n *Network[T]) ELBO(x, epsilon, gamma0 *ad.Var[T]) *ad.Var[T] {
	mean, std := n.Encode(x)
	if L := n.config.Draws; L > 0 {
		logs := n.Draw(repeat(x, L), repeat(mean, L), repeat(std, L), epsilon, gamma0).LogEstimate()
		if n.config.Importance {
			return hvae.ImportanceBound(logs, L)
		}
		images := x.Cols()
		return ad.Reshape(ad.Scale(ad.SumTo(ad.Reshape(logs, images, L), images, 1), 1/T(L)), 1, images)
	}
	if n.config.Kind == "vae" {
		z0, prior := ad.MulAdd(std, epsilon, mean), hvae.DiagonalNormal[T]{Mean: mean, SD: std}
		return ad.Sub(LogBernoulli(x, n.Decode(z0)), prior.Divergence())
	}
	return n.Draw(x, mean, std, epsilon, gamma0).LogEstimate()
}

// repeat returns a matrix [n×(B·L)] with L adjacent copies of each column of v [n×B].
func repeat[T linalg.Float](v *ad.Var[T], L int) *ad.Var[T] {
	elements := v.Rows() * v.Cols()
	return ad.Reshape(ad.BroadcastTo(ad.Reshape(v, elements, 1), elements, L), v.Rows(), v.Cols()*L)
}

// Draw runs Algorithm 1 for images x [784×B], with mean and std [ℓ×B] from Encode, and with the noise ε and γ₀ [ℓ×B].
// If x, mean and std have a single column, Draw uses it for all columns of the noise. The LogEstimate of the result is
// log p̂_θ(x), where p̂_θ(x) = p_θ(x, z₀)/q(z₀|x) for a VAE.
func (n *Network[T]) Draw(x, mean, std, epsilon, gamma0 *ad.Var[T]) hvae.Sample[T] {
	return hvae.HIS(n.Flow(x), hvae.DiagonalNormal[T]{Mean: mean, SD: std}, epsilon, gamma0)
}
