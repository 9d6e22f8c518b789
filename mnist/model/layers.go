package model

import (
	"cmp"
	"math"
	"slices"

	"hvae/ad"
	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A param is a parameter of a network. A checkpoint stores it as a tensor in PyTorch's layout, in which images are
// flattened as (channel, row, column). In the matrix Value, images are flattened as (row, column, channel).
type param[T linalg.Float] struct {
	hvae.Param[T]
	shape        []int   // of the tensor
	axes         []axis  // of the tensor; the index of the last axis varies fastest
	mean, spread float64 // mean and standard deviation of the initial elements
}

// An axis holds the size of a tensor axis and the stride between its elements in param.Value.Data.
type axis struct{ size, stride int }

// add appends a parameter whose elements are not yet allocated. By default, its Value has the layout of the stored
// tensor. The caller may choose another layout.
func (n *Network[T]) add(name string, mean, spread float64, shape ...int) *param[T] {
	size := 1
	for _, n := range shape {
		size *= n
	}
	value := linalg.Matrix[T]{Rows: shape[0], Cols: size / shape[0]}
	p := &param[T]{hvae.Param[T]{Name: name, Value: value}, shape, []axis{{size, 1}}, mean, spread}
	n.params = append(n.params, p)
	return p
}

// order returns the index in Value.Data of each element of the tensor, in row-major order.
func (p *param[T]) order() []int {
	order := []int{0}
	for _, a := range p.axes {
		longer := make([]int, 0, len(order)*a.size)
		for _, first := range order {
			for i := range a.size {
				longer = append(longer, first+i*a.stride)
			}
		}
		order = longer
	}
	return order
}

func (n *Network[T]) dense(name string, out, in int) (weight, bias *param[T]) {
	weight = n.add(name+".weight", 0, 1/math.Sqrt(float64(out+in)), out, in)
	return weight, n.add(name+".bias", 0, 0, out)
}

// convolution appends the parameters of a layer that applies g or its transpose. The argument channels is the number of
// output channels: g.OutC for g, or g.InC for the transpose. The weight always has the shape (g.OutC, g.InC, 5, 5).
func (n *Network[T]) convolution(name string, g *conv.Geometry, channels int) {
	weight := n.add(name+".weight", 0, 1/math.Sqrt(float64(g.In()+g.Out())), g.OutC, g.InC, g.KernelH, g.KernelW)
	weight.Value = linalg.Matrix[T]{Rows: g.Taps(), Cols: g.OutC}
	weight.axes = []axis{{g.OutC, 1}, {g.InC, g.OutC}, {g.KernelH * g.KernelW, g.InC * g.OutC}}
	n.add(name+".bias", 0, 0, channels)
}

// The convolutions of the encoder map 28×28 pixels to 14×14, 7×7 and 4×4, with TensorFlow's SAME padding. In conv1 and
// conv2, this padding adds 1 pixel before and 2 pixels after each row and column; in conv3, it adds 2 pixels on all
// sides. The decoder applies the transposes of these convolutions.
var (
	conv1 = conv.Same(28, 28, 1, 16, 5, 2)
	conv2 = conv.Same(14, 14, 16, 32, 5, 2)
	conv3 = conv.Same(7, 7, 32, channels, 5, 2)
)

const (
	pixels   = 28 * 28
	channels = 32              // output channels of conv3
	area     = 4 * 4           // output pixels of conv3
	code     = area * channels // size of the output of conv3
	hidden   = 450             // size of the output of encoder.hidden and of decoder.hidden
)

// A Network holds the parameters of a model. The methods On and Const return a Graph, which computes with them.
type Network[T linalg.Float] struct {
	Config Config
	params []*param[T] // in the order of their tensors in a checkpoint: encoder, decoder, flow
}

const layers = 11 // number of layers of encoder and decoder, each with a weight and a bias

// describe returns a network whose parameters have names, shapes and initial distributions, but no elements.
func describe[T linalg.Float](c Config) *Network[T] {
	n := &Network[T]{Config: c}
	n.convolution("encoder.conv1", &conv1, conv1.OutC)
	n.convolution("encoder.conv2", &conv2, conv2.OutC)
	n.convolution("encoder.conv3", &conv3, conv3.OutC)
	weight, _ := n.dense("encoder.hidden", hidden, code)
	weight.axes = []axis{{hidden, code}, {channels, 1}, {area, channels}}
	n.dense("encoder.mean", c.Latent, hidden)
	n.dense("encoder.std", c.Latent, hidden)
	n.dense("decoder.hidden", hidden, c.Latent)
	weight, bias := n.dense("decoder.expand", code, hidden)
	weight.axes = []axis{{channels, hidden}, {area, channels * hidden}, {hidden, 1}}
	bias.axes = []axis{{channels, 1}, {area, channels}}
	n.convolution("decoder.deconv1", &conv3, conv3.InC)
	n.convolution("decoder.deconv2", &conv2, conv2.InC)
	n.convolution("decoder.deconv3", &conv1, conv1.InC)
	if c.K == 0 {
		return n
	}
	rows := 1
	if c.VaryEps {
		rows = c.K
	}
	eps, alpha := cmp.Or(c.Eps, 0.2), cmp.Or(c.Alpha, 0.9)
	n.add("flow.step_size_logit", hvae.Unconstrain(eps, 0, maxEps), 0, rows, c.Latent)
	switch c.Tempering {
	case "fixed":
		n.add("flow.log_temperature", hvae.Unconstrain(math.Sqrt(1.5), 1, inf), 0, 1)
	case "free", "untied":
		n.add("flow.alpha_logit", hvae.Unconstrain(alpha, 0, 1), 0, c.K)
	}
	if c.Tempering == "untied" {
		n.add("flow.log_momentum_sd", -float64(c.K)*math.Log(alpha), 0, 1)
	}
	return n
}

var inf = math.Inf(1)

// New returns a network with its initial parameters. Weights are drawn from N(0, 1/(n_in + n_out)), where n_in and
// n_out are the sizes of the layer's input and output, for example 28·28 and 14·14·16 in conv1. The decoder's last bias
// is outputBias, and all other biases are zero. The flow starts with ε = 0.2 and α_k = 0.9, unless Config.Eps or
// Config.Alpha sets another value. Fixed tempering starts with 1/β₀ = 1.5. With untied tempering, the standard
// deviation s of ρ₀ starts at Π 1/α_k.
func New[T linalg.Float](c Config, outputBias float64, seed uint64) *Network[T] {
	n := describe[T](c)
	n.params[2*layers-1].mean = outputBias // decoder.deconv3.bias
	for _, p := range n.params {
		p.Value = linalg.New[T](p.Value.Rows, p.Value.Cols)
		rng := random.Stream(seed, "mnist start "+p.Name)
		for i := range p.Value.Data {
			p.Value.Data[i] = T(p.mean + p.spread*rng.NormFloat64())
		}
	}
	return n
}

// Params returns the hvae.Param of each parameter, in the order of their tensors in a checkpoint.
func (n *Network[T]) Params() (all []*hvae.Param[T]) {
	for _, p := range n.params {
		all = append(all, &p.Param)
	}
	return all
}

// SetEncoderAndDecoder makes n use the encoder and decoder of another network with the same ℓ. It does not copy them.
func (n *Network[T]) SetEncoderAndDecoder(other *Network[T]) { copy(n.params, other.params[:2*layers]) }

// A FlowSummary summarises the parameters of a flow. Fields that do not apply to the model are 0.
type FlowSummary struct {
	Eps        float64 `json:"eps,omitempty"`         // median of the step sizes ε over leapfrog steps and dimensions
	EpsMax     float64 `json:"eps_max,omitempty"`     // largest of these step sizes; 0 in older files
	Alpha      float64 `json:"alpha,omitempty"`       // Π α_k
	MomentumSD float64 `json:"momentum_sd,omitempty"` // s, the standard deviation of ρ₀
}

// FlowSummary returns the summary of the network's flow.
func (n *Network[T]) FlowSummary() (s FlowSummary) {
	f := n.Const(new(ad.Tape[T])).Flow(nil)
	if f.K > 0 {
		eps := slices.Sorted(slices.Values(f.StepSize.Value.Data))
		s.Eps, s.EpsMax = float64(eps[len(eps)/2]), float64(eps[len(eps)-1])
	}
	if alpha := f.Tempering.Alpha; alpha != nil {
		s.Alpha, s.MomentumSD = 1, float64(f.Tempering.MomentumSD.Scalar())
		for _, a := range alpha.Value.Data {
			s.Alpha *= float64(a)
		}
	}
	return s
}
