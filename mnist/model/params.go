package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Param is a named parameter. A checkpoint stores it as a tensor with this name and Shape. The
// tensor has PyTorch's layout, in which images are flattened as (channel, row, column). The matrix
// Value has the layout that the compute kernels need.
type Param[T linalg.Float] struct {
	*hvae.Param[T]
	Shape []int // of the tensor

	layout layout
}

// A layout is the permutation from a tensor to its matrix. The tensor is viewed as an array with three axes of the
// given lengths, of which axes i and j are swapped in the matrix. The zero value is the identity.
type layout struct {
	axes [3]int
	i, j int
}

// A spec describes a parameter.
type spec struct {
	name  string
	shape []int
	layout
	mean, spread float64 // mean and standard deviation of the initial elements
}

// specs returns the descriptions of the parameters of a model, in the order of a checkpoint.
func specs(c Config) (all []spec) {
	add := func(name string, l layout, mean, spread float64, shape ...int) {
		all = append(all, spec{name, shape, l, mean, spread})
	}
	spread := func(in, out int) float64 { return 1 / math.Sqrt(float64(in+out)) }
	dense := func(name string, weights, biases layout, out, in int) {
		add(name+".weight", weights, 0, spread(in, out), out, in)
		add(name+".bias", biases, 0, 0, out)
	}
	// PyTorch's weights have the shape (out, in, 5, 5) for a convolution and (in, out, 5, 5) for a transposed
	// convolution. The transpose of a convolution g exchanges in and out, so both have weights of the same shape.
	convolution := func(name string, g conv.Geometry, channels int) {
		// The matrix is [(ky, kx, b) × a] for a tensor (a, b, ky, kx), where a and b are channels.
		kernel := layout{[3]int{g.OutC, g.InC, g.KernelH * g.KernelW}, 0, 2}
		add(name+".weight", kernel, 0, spread(g.In(), g.Out()), g.OutC, g.InC, g.KernelH, g.KernelW)
		add(name+".bias", layout{}, 0, 0, channels)
	}
	// In dense layers next to a convolution, (channel, pixel) in the tensor becomes (pixel, channel) in the matrix.
	const area = code / channels
	plain := layout{}
	convolution("encoder.conv1", conv1, conv1.OutC)
	convolution("encoder.conv2", conv2, conv2.OutC)
	convolution("encoder.conv3", conv3, conv3.OutC)
	dense("encoder.hidden", layout{[3]int{hidden, channels, area}, 1, 2}, plain, hidden, code)
	dense("encoder.mean", plain, plain, c.Latent, hidden)
	dense("encoder.std", plain, plain, c.Latent, hidden)
	dense("decoder.hidden", plain, plain, hidden, c.Latent)
	dense("decoder.expand", layout{[3]int{channels, area, hidden}, 0, 1}, layout{[3]int{channels, area, 1}, 0, 1}, code, hidden)
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
	add("flow.step_size_logit", plain, hvae.Unconstrain(eps, 0, maxEps), 0, rows, c.Latent)
	switch c.Tempering {
	case "free", "untied":
		add("flow.alpha_logit", plain, hvae.Unconstrain(alpha, 0, 1), 0, c.K)
		if c.Tempering == "untied" {
			add("flow.log_momentum_sd", plain, -float64(c.K)*math.Log(alpha), 0, 1)
		}
	case "fixed":
		add("flow.log_temperature", plain, hvae.Unconstrain(math.Sqrt(1.5), 1, math.Inf(1)), 0, 1)
	}
	return all
}

// NewParams returns the initial parameters of a model. Weights are drawn from N(0, 1/(n_in + n_out)), where n_in and
// n_out are the numbers of elements of the layer's input and output image or vector, for example 28·28 and 14·14·16 in
// conv1. The decoder's last bias is outputBias, and all other biases are zero. The flow starts with ε = 0.2. Fixed
// tempering starts with 1/β₀ = 1.5. Free and untied tempering start with α_k = 0.9. With untied tempering, the
// momentum's standard deviation starts at s = Π 1/α_k. Config.Eps and Config.Alpha change ε and α_k.
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

// CopyWeights copies the parameters of the encoder and decoder, but not of the flow, from a checkpoint file to params.
func CopyWeights(params []Param[float32], name string) error {
	c, err := ReadCheckpoint(name)
	if err != nil {
		return err
	}
	for i, p := range params {
		if strings.HasPrefix(p.Name, "flow.") {
			break
		}
		if p.Value.Shape() != c.Params[i].Value.Shape() {
			return fmt.Errorf("%s has no parameter %s of shape %v: train a model with its number of latent dimensions, %d", name, p.Name, p.Value.Shape(), c.Config.Latent)
		}
		linalg.Copy(p.Value, c.Params[i].Value)
	}
	return nil
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
	if s.j-s.i == 2 { // the first axis becomes the last
		rows, cols = cols, rows
	}
	return Param[T]{&hvae.Param[T]{Name: s.name, Value: linalg.New[T](rows, cols)}, s.shape, s.layout}
}

// Order returns, for each element of the tensor in row-major order, its index in Value.Data.
func (p Param[T]) Order() (order []int) {
	i, j, length := p.layout.i, p.layout.j, cmp.Or(p.layout.axes, [3]int{1, 1, len(p.Value.Data)})
	swapped := length
	swapped[i], swapped[j] = length[j], length[i]
	step := [3]int{swapped[1] * swapped[2], swapped[2], 1} // distances of neighbours along each axis in Value.Data
	step[i], step[j] = step[j], step[i]
	for a := range length[0] {
		for b := range length[1] {
			for c := range length[2] {
				order = append(order, a*step[0]+b*step[1]+c*step[2])
			}
		}
	}
	return order
}
