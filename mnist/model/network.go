package model

import (
	"fmt"
	"math"

	"hvae/ad"
	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
)

// A Network is the layers and the flow of a model, their parameters on a tape.
type Network[T linalg.Float] struct {
	config  Config
	encoder struct{ conv1, conv2, conv3, hidden, mean, std layer[T] }
	decoder decoder[T]

	// The flow's parameters as they are trained; nil where the model has none.
	stepSizeLogit, alphaLogit, logTemperature *ad.Var[T]

	places []**ad.Var[T] // of all parameters, in their order

	flow      hvae.Flow[T] // with the target of one call of ELBO or LogEstimates
	prior     hvae.DiagonalNormal[T]
	target    target[T]
	recompute hvae.Recompute[T]
}

// A layer is the parameters of one.
type layer[T linalg.Float] struct{ weight, bias *ad.Var[T] }

// A decoder is the layers of the generative network.
type decoder[T linalg.Float] struct{ hidden, expand, deconv1, deconv2, deconv3 layer[T] }

// NewNetwork puts a model's parameters on a tape, as leaves if they are to be trained and
// as constants if not. It returns the network and the variables in the parameters' order,
// both valid until the tape's Reset.
func NewNetwork[T linalg.Float](t *ad.Tape[T], c Config, params []Param[T], train bool) (*Network[T], []*ad.Var[T]) {
	n, vars := newNetwork[T](c), variables(nil, t, params, train)
	n.bind(vars, nil)
	return n, vars
}

// variables appends the parameters on a tape to vars.
func variables[T linalg.Float](vars []*ad.Var[T], t *ad.Tape[T], params []Param[T], train bool) []*ad.Var[T] {
	for _, p := range params {
		if train {
			vars = append(vars, t.Leaf(p.Value))
		} else {
			vars = append(vars, t.Const(p.Value))
		}
	}
	return vars
}

// newNetwork returns a network for bind to give parameters.
func newNetwork[T linalg.Float](c Config) *Network[T] {
	n := &Network[T]{config: c}
	for _, s := range n.specs(c) {
		n.places = append(n.places, s.place)
	}
	inner := &target[T]{decoder: new(decoder[T])}
	n.recompute.Target = func(params []*ad.Var[T]) hvae.Target[T] {
		for i, l := range inner.decoder.layers() {
			*l = layer[T]{params[2*i], params[2*i+1]}
		}
		inner.x = params[len(params)-1]
		return inner
	}
	return n
}

// bind gives the network the variables of its parameters and, if its flow is to recompute,
// a scratch tape.
func (n *Network[T]) bind(vars []*ad.Var[T], scratch *ad.Tape[T]) {
	if len(vars) != len(n.places) {
		panic(fmt.Sprintf("model: %d parameters for %v, which has %d", len(vars), n.config, len(n.places)))
	}
	for i, v := range vars {
		*n.places[i] = v
	}
	n.flow.K = n.config.K
	n.recompute.Tape = scratch
	if n.stepSizeLogit != nil {
		n.flow.StepSize = hvae.Constrain(n.stepSizeLogit, 0, maxEps)
	}
	if n.logTemperature != nil {
		n.flow.Tempering = hvae.FixedTempering(hvae.Constrain(n.logTemperature, 1, math.Inf(1)))
	}
	if n.alphaLogit != nil {
		n.flow.Tempering = hvae.FreeTempering(hvae.Constrain(n.alphaLogit, 0, 1))
	}
}

// Flow returns the Hamiltonian flow for images x [784×B].
func (n *Network[T]) Flow(x *ad.Var[T]) *hvae.Flow[T] {
	f := n.flow
	f.Target = &target[T]{&n.decoder, x}
	return &f
}

// flowFor returns the same in memory of the network's own, until the next call.
func (n *Network[T]) flowFor(x *ad.Var[T]) *hvae.Flow[T] {
	n.target = target[T]{&n.decoder, x}
	n.flow.Target = &n.target
	n.flow.Recompute = &n.recompute
	n.recompute.Params = n.recompute.Params[:0]
	for _, l := range n.decoder.layers() {
		n.recompute.Params = append(n.recompute.Params, l.weight, l.bias)
	}
	n.recompute.Params = append(n.recompute.Params, x)
	return &n.flow
}

// Encode returns the mean and the standard deviation [ℓ×B] of the variational prior
// q(z|x) for images x [784×B]: three convolutions with 16, 32 and 32 channels, a dense
// layer of 450, and two heads; softplus after every layer but the mean. A standard deviation
// is zero, and the ELBO −∞, where its head's input is below −44 (linalg.Softplus).
func (n *Network[T]) Encode(x *ad.Var[T]) (mean, std *ad.Var[T]) {
	e := &n.encoder
	h := ad.SoftplusInPlace(e.conv1.conv(&conv1, x))
	h = ad.SoftplusInPlace(e.conv2.conv(&conv2, h))
	h = ad.SoftplusInPlace(e.conv3.conv(&conv3, h))
	h = ad.SoftplusInPlace(e.hidden.dense(h))
	return e.mean.dense(h), ad.SoftplusInPlace(e.std.dense(h))
}

// Decode returns the logits [784×B] of the pixels' probabilities π_θ(z) for z [ℓ×B].
func (n *Network[T]) Decode(z *ad.Var[T]) *ad.Var[T] { return n.decoder.decode(z) }

// decode is the encoder's structure in reverse, with the transposes of its convolutions;
// softplus after every layer but the last.
func (d *decoder[T]) decode(z *ad.Var[T]) *ad.Var[T] {
	h := ad.SoftplusInPlace(d.hidden.dense(z))
	h = ad.SoftplusInPlace(d.expand.dense(h))
	h = ad.SoftplusInPlace(d.deconv1.transpose(&conv3, h))
	h = ad.SoftplusInPlace(d.deconv2.transpose(&conv2, h))
	return d.deconv3.transpose(&conv1, h)
}

func (d *decoder[T]) layers() [5]*layer[T] {
	return [...]*layer[T]{&d.hidden, &d.expand, &d.deconv1, &d.deconv2, &d.deconv3}
}

func (l *layer[T]) dense(x *ad.Var[T]) *ad.Var[T] { return ad.Affine(l.weight, x, l.bias) }

func (l *layer[T]) conv(g *conv.Geometry, x *ad.Var[T]) *ad.Var[T] {
	return conv.Conv(g, l.weight, x, l.bias)
}

func (l *layer[T]) transpose(g *conv.Geometry, x *ad.Var[T]) *ad.Var[T] {
	return conv.Transpose(g, l.weight, x, l.bias)
}
