package model

import (
	"fmt"
	"strings"

	"hvae/ad"
	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
)

// A Network is a model's parameters on a tape.
type Network[T linalg.Float] struct {
	config Config
	params map[string]*ad.Var[T]
	layers map[string]layer[T]
	flow   hvae.Flow[T]
	target target[T]

	recompute *hvae.Recompute[T] // of the flow; nil to keep everything
}

// A layer is the parameters of one.
type layer[T linalg.Float] struct{ weight, bias *ad.Var[T] }

// Bind puts the parameters on a tape, as leaves if they are to be trained and as
// constants if not. It returns the variables in the parameters' order, valid, as the
// network is, until the tape's Reset.
func (n *Network[T]) Bind(t *ad.Tape[T], c Config, params []Param[T], train bool, leaves []*ad.Var[T]) []*ad.Var[T] {
	n.config = c
	leaves = leaves[:0]
	for _, p := range params {
		v := t.Const(p.Value)
		if train {
			v = t.Leaf(p.Value)
		}
		leaves = append(leaves, v)
		n.adopt(p.Name, v)
	}
	n.bindFlow()
	return leaves
}

// adopt takes a variable for a parameter.
func (n *Network[T]) adopt(param string, v *ad.Var[T]) {
	if n.params == nil {
		n.params, n.layers = map[string]*ad.Var[T]{}, map[string]layer[T]{}
	}
	n.params[param] = v
	if name, ok := strings.CutSuffix(param, ".weight"); ok {
		n.layers[name] = layer[T]{weight: v}
	} else if name, ok := strings.CutSuffix(param, ".bias"); ok {
		n.layers[name] = layer[T]{weight: n.layers[name].weight, bias: v}
	}
}

// decoderParams are the parameters that the target depends on.
var decoderParams = []string{
	"decoder.hidden.weight", "decoder.hidden.bias", "decoder.expand.weight", "decoder.expand.bias",
	"decoder.deconv1.weight", "decoder.deconv1.bias", "decoder.deconv2.weight", "decoder.deconv2.bias",
	"decoder.deconv3.weight", "decoder.deconv3.bias",
}

// Recompute makes the flow keep its steps' results only, and run the steps on a tape of
// its own when the gradient needs the rest (hvae.Recompute).
func (n *Network[T]) Recompute() {
	decoder := new(Network[T])
	n.recompute = &hvae.Recompute[T]{
		Tape: new(ad.Tape[T]),
		Target: func(params []*ad.Var[T]) hvae.Target[T] {
			for i, name := range decoderParams {
				decoder.adopt(name, params[i])
			}
			decoder.target = target[T]{n: decoder, x: params[0].Tape().Const(n.target.x.Value)}
			return &decoder.target
		},
	}
}

// Encode returns the mean and the standard deviation [ℓ×B] of the variational prior
// q(z|x) for images x [784×B]: three convolutions with 16, 32 and 32 channels, a dense
// layer of 450, and two heads; softplus after every layer but the mean.
func (n *Network[T]) Encode(x *ad.Var[T]) (mean, std *ad.Var[T]) {
	h := ad.Activate(n.conv("encoder.conv1", &conv1, x))
	h = ad.Activate(n.conv("encoder.conv2", &conv2, h))
	h = ad.Activate(n.conv("encoder.conv3", &conv3, h))
	h = ad.Activate(n.dense("encoder.hidden", h))
	return n.dense("encoder.mean", h), ad.Activate(n.dense("encoder.std", h))
}

// Decode returns the logits [784×B] of the pixels' probabilities π_θ(z) for z [ℓ×B]: the
// encoder's structure in reverse, with the transposes of its convolutions; softplus after
// every layer but the last.
func (n *Network[T]) Decode(z *ad.Var[T]) *ad.Var[T] {
	h := ad.Activate(n.dense("decoder.hidden", z))
	h = ad.Activate(n.dense("decoder.expand", h))
	h = ad.Activate(n.transpose("decoder.deconv1", &conv3, h))
	h = ad.Activate(n.transpose("decoder.deconv2", &conv2, h))
	return n.transpose("decoder.deconv3", &conv1, h)
}

func (n *Network[T]) param(name string) *ad.Var[T] {
	v, ok := n.params[name]
	if !ok {
		panic(fmt.Sprintf("model: no parameter %q", name))
	}
	return v
}

func (n *Network[T]) layer(name string) layer[T] {
	l, ok := n.layers[name]
	if !ok {
		panic(fmt.Sprintf("model: no layer %q", name))
	}
	return l
}

func (n *Network[T]) dense(name string, x *ad.Var[T]) *ad.Var[T] {
	l := n.layer(name)
	return ad.Affine(l.weight, x, l.bias)
}

func (n *Network[T]) conv(name string, g *conv.Geometry, x *ad.Var[T]) *ad.Var[T] {
	l := n.layer(name)
	return conv.Conv(g, l.weight, x, l.bias)
}

func (n *Network[T]) transpose(name string, g *conv.Geometry, x *ad.Var[T]) *ad.Var[T] {
	l := n.layer(name)
	return conv.Transpose(g, l.weight, x, l.bias)
}
