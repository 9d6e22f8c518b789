package model

import (
	"fmt"
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
	decoder[T]

	// Unconstrained parameters of the flow. A parameter that the model lacks is nil.
	stepSizeLogit, alphaLogit, logMomentumSD, logTemperature *ad.Var[T]

	flow hvae.Flow[T] // without a target
}

// A layer is a dense layer, a convolution or a transposed convolution.
type layer[T linalg.Float] struct{ weight, bias *ad.Var[T] }

// A decoder is the generative network.
type decoder[T linalg.Float] struct{ hidden, expand, deconv1, deconv2, deconv3 layer[T] }

// NewNetwork returns a network whose parameters are vars, in the order of NewParams. The network is valid
// until the tape of vars is reset. NewNetwork panics if len(vars) is wrong for the configuration.
func NewNetwork[T linalg.Float](c Config, vars []*ad.Var[T]) *Network[T] {
	n := &Network[T]{config: c}
	specs := n.specs(c)
	if len(vars) != len(specs) {
		panic(fmt.Sprintf("model: got %d parameters, but the model %v has %d", len(vars), c, len(specs)))
	}
	for i, v := range vars {
		*specs[i].field = v
	}
	n.flow.K = c.K
	if n.stepSizeLogit != nil {
		n.flow.StepSize = hvae.Constrain(n.stepSizeLogit, 0, maxEps)
	}
	if n.logTemperature != nil {
		n.flow.Tempering = hvae.FixedTempering(c.K, hvae.Constrain(n.logTemperature, 1, math.Inf(1)))
	}
	if n.alphaLogit != nil {
		alpha := hvae.Constrain(n.alphaLogit, 0, 1)
		if n.flow.Tempering = hvae.FreeTempering(alpha); n.logMomentumSD != nil {
			n.flow.Tempering = hvae.UntiedTempering(alpha, hvae.Constrain(n.logMomentumSD, 0, math.Inf(1)))
		}
	}
	return n
}

// Vars returns params as variables. record is the method Const or Leaf of a tape.
func Vars[T linalg.Float](record func(linalg.Matrix[T]) *ad.Var[T], params []Param[T]) (vars []*ad.Var[T]) {
	for _, p := range params {
		vars = append(vars, record(p.Value))
	}
	return vars
}

// Flow returns the Hamiltonian flow for images x [784×B].
func (n *Network[T]) Flow(x *ad.Var[T]) *hvae.Flow[T] {
	flow := n.flow
	flow.Target = &target[T]{&n.decoder, x}
	return &flow
}

// Encode returns the mean and the standard deviation [ℓ×B] of the variational prior q(z|x) for images x
// [784×B]. The encoder has three convolutions with 16, 32 and 32 channels, a dense layer of 450 units, and
// two dense output layers. Softplus follows every layer except the output layer of the mean. If the input
// of the last softplus is below −44, the standard deviation is zero (linalg.Softplus) and the ELBO is −∞.
func (n *Network[T]) Encode(x *ad.Var[T]) (mean, std *ad.Var[T]) {
	e := &n.encoder
	h := ad.Softplus(e.conv1.conv(&conv1, x))
	h = ad.Softplus(e.conv2.conv(&conv2, h))
	h = ad.Softplus(e.conv3.conv(&conv3, h))
	h = ad.Softplus(e.hidden.dense(h))
	return e.mean.dense(h), ad.Softplus(e.std.dense(h))
}

// Decode returns the logits [784×B] of the pixel probabilities π_θ(z) for z [ℓ×B]. The decoder has two
// dense layers, followed by the transposes of the encoder's convolutions in reverse order. Softplus
// follows every layer except the last.
func (d *decoder[T]) Decode(z *ad.Var[T]) *ad.Var[T] {
	h := ad.Softplus(d.hidden.dense(z))
	h = ad.Softplus(d.expand.dense(h))
	h = ad.Softplus(d.deconv1.transpose(&conv3, h))
	h = ad.Softplus(d.deconv2.transpose(&conv2, h))
	return d.deconv3.transpose(&conv1, h)
}

func (l *layer[T]) dense(x *ad.Var[T]) *ad.Var[T] { return ad.Affine(l.weight, x, l.bias) }

func (l *layer[T]) conv(g *conv.Geometry, x *ad.Var[T]) *ad.Var[T] {
	return conv.Conv(g, l.weight, x, l.bias)
}

func (l *layer[T]) transpose(g *conv.Geometry, x *ad.Var[T]) *ad.Var[T] {
	return conv.Transpose(g, l.weight, x, l.bias)
}
