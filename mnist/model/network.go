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
}

// A layer is the parameters of one.
type layer[T linalg.Float] struct{ weight, bias *ad.Var[T] }

// Bind puts the parameters on a tape, as leaves if they are to be trained and as
// constants if not. It returns the variables in the parameters' order, valid, as the
// network is, until the tape's Reset.
func (n *Network[T]) Bind(t *ad.Tape[T], c Config, params []Param[T], train bool, leaves []*ad.Var[T]) []*ad.Var[T] {
	n.config = c
	if n.params == nil {
		n.params = make(map[string]*ad.Var[T], len(params))
		n.layers = make(map[string]layer[T], len(params)/2)
	}
	leaves = leaves[:0]
	for _, p := range params {
		v := t.Const(p.Value)
		if train {
			v = t.Leaf(p.Value)
		}
		n.params[p.Name] = v
		leaves = append(leaves, v)
		if name, ok := strings.CutSuffix(p.Name, ".weight"); ok {
			n.layers[name] = layer[T]{weight: v}
		} else if name, ok := strings.CutSuffix(p.Name, ".bias"); ok {
			n.layers[name] = layer[T]{weight: n.layers[name].weight, bias: v}
		}
	}
	n.bindFlow()
	return leaves
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
