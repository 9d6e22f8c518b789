package model

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Param is a named parameter. A checkpoint stores it as a tensor with this name and Shape. The tensor has PyTorch's
// layout, in which images are flattened as (channel, row, column). The matrix Value has the layout that the compute
// kernels need (see Order).
type Param[T linalg.Float] struct {
	*hvae.Param[T]
	Shape []int // of the tensor
}

// A spec describes a parameter.
type spec struct {
	name         string
	mean, spread float64 // mean and standard deviation of the initial elements
	shape        []int
}

// specs returns the descriptions of the parameters of a model, in the order of a checkpoint.
func specs(c Config) (all []spec) {
	add := func(name string, mean, spread float64, shape ...int) {
		all = append(all, spec{name, mean, spread, shape})
	}
	dense := func(name string, out, in int) {
		add(name+".weight", 0, 1/math.Sqrt(float64(in+out)), out, in)
		add(name+".bias", 0, 0, out)
	}
	// PyTorch's weights have the shape (out, in, 5, 5) for a convolution and (in, out, 5, 5) for a transposed
	// convolution. The transpose of a convolution g exchanges in and out, so both have weights of the same shape.
	convolution := func(name string, g conv.Geometry, channels int) {
		add(name+".weight", 0, 1/math.Sqrt(float64(g.In()+g.Out())), g.OutC, g.InC, g.KernelH, g.KernelW)
		add(name+".bias", 0, 0, channels)
	}
	convolution("encoder.conv1", conv1, conv1.OutC)
	convolution("encoder.conv2", conv2, conv2.OutC)
	convolution("encoder.conv3", conv3, conv3.OutC)
	dense("encoder.hidden", hidden, code)
	dense("encoder.mean", c.Latent, hidden)
	dense("encoder.std", c.Latent, hidden)
	dense("decoder.hidden", hidden, c.Latent)
	dense("decoder.expand", code, hidden)
	convolution("decoder.deconv1", conv3, conv3.InC)
	convolution("decoder.deconv2", conv2, conv2.InC)
	convolution("decoder.deconv3", conv1, conv1.InC)
	if c.K == 0 {
		return all
	}
	rows := 1
	if c.VaryEps {
		rows = c.K
	}
	eps, alpha := cmp.Or(c.Eps, 0.2), cmp.Or(c.Alpha, 0.9)
	add("flow.step_size_logit", hvae.Unconstrain(eps, 0, maxEps), 0, rows, c.Latent)
	switch c.Tempering {
	case "fixed":
		add("flow.log_temperature", hvae.Unconstrain(math.Sqrt(1.5), 1, math.Inf(1)), 0, 1)
	case "free":
		add("flow.alpha_logit", hvae.Unconstrain(alpha, 0, 1), 0, c.K)
	case "untied":
		add("flow.alpha_logit", hvae.Unconstrain(alpha, 0, 1), 0, c.K)
		add("flow.log_momentum_sd", -float64(c.K)*math.Log(alpha), 0, 1)
	}
	return all
}

// NewParams returns the initial parameters of a model. Weights are drawn from N(0, 1/(n_in + n_out)), where n_in and
// n_out are the numbers of elements of the layer's input and output image or vector, for example 28·28 and 14·14·16 in
// conv1. The decoder's last bias is outputBias, and all other biases are zero. The flow starts with ε = 0.2, fixed
// tempering with 1/β₀ = 1.5, and free and untied tempering with α_k = 0.9. Untied tempering starts with s = Π 1/α_k for
// the momentum's standard deviation. Config.Eps and Config.Alpha change ε and α_k.
func NewParams[T linalg.Float](c Config, outputBias float64, seed uint64) (ps []Param[T]) {
	for _, s := range specs(c) {
		if s.name == "decoder.deconv3.bias" {
			s.mean = outputBias
		}
		p, rng := newParam[T](s), random.Stream(seed, "mnist start "+s.name)
		for i := range p.Value.Data {
			p.Value.Data[i] = T(s.mean + s.spread*rng.NormFloat64())
		}
		ps = append(ps, p)
	}
	return ps
}

// A Flow summarises the parameters of a flow. Fields that do not apply to the model are 0.
type Flow struct {
	Eps        float64 `json:"eps,omitempty"`         // median of the step sizes ε
	Alpha      float64 `json:"alpha,omitempty"`       // Π α_k
	MomentumSD float64 `json:"momentum_sd,omitempty"` // s, the standard deviation of ρ₀
}

// FlowOf returns the summary of the parameters of a flow.
func FlowOf(params []Param[float32]) (f Flow) {
	sigmoid := func(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }
	for _, p := range params {
		switch data := p.Value.Data; p.Name {
		case "flow.step_size_logit":
			f.Eps = maxEps * sigmoid(slices.Sorted(slices.Values(data))[len(data)/2])
		case "flow.alpha_logit":
			f.Alpha = 1
			for _, x := range data {
				f.Alpha *= sigmoid(x)
			}
			f.MomentumSD = 1 / f.Alpha
		case "flow.log_momentum_sd":
			f.MomentumSD = math.Exp(float64(data[0]))
		case "flow.log_temperature":
			f.MomentumSD = 1 + math.Exp(float64(data[0]))
			f.Alpha = 1 / f.MomentumSD
		}
	}
	return f
}

// newParam returns a parameter whose elements are zero.
func newParam[T linalg.Float](s spec) Param[T] {
	rows, cols := s.shape[0], 1
	for _, n := range s.shape[1:] {
		cols *= n
	}
	if len(s.shape) == 4 { // weights of a convolution
		rows, cols = cols, rows
	}
	return Param[T]{&hvae.Param[T]{Name: s.name, Value: linalg.New[T](rows, cols)}, s.shape}
}

// Order returns, for each element of the tensor in row-major order, its index in Value.Data.
func (p Param[T]) Order() (order []int) {
	const area = code / channels // pixels of the smallest image
	// View the tensor as an array with three axes. The elements of Value.Data have these strides along the axes.
	axes, strides := [3]int{1, 1, len(p.Value.Data)}, [3]int{0, 0, 1}
	switch {
	case len(p.Shape) == 4: // (a, b, pixel) in the tensor becomes [(pixel, b) × a], where a and b are channels
		a, b := p.Shape[0], p.Shape[1]
		axes, strides = [3]int{a, b, p.Shape[2] * p.Shape[3]}, [3]int{1, a, a * b}
	case p.Name == "encoder.hidden.weight": // [hidden × (channel, pixel)] becomes [hidden × (pixel, channel)]
		axes, strides = [3]int{hidden, channels, area}, [3]int{code, 1, channels}
	case strings.HasPrefix(p.Name, "decoder.expand."): // [(channel, pixel) × n] becomes [(pixel, channel) × n]
		n := p.Value.Cols
		axes, strides = [3]int{channels, area, n}, [3]int{n, channels * n, 1}
	}
	order = make([]int, 0, len(p.Value.Data))
	for a := range axes[0] {
		for b := range axes[1] {
			for c := range axes[2] {
				order = append(order, a*strides[0]+b*strides[1]+c*strides[2])
			}
		}
	}
	return order
}
