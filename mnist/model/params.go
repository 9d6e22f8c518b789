package model

import (
	"iter"
	"math"

	"hvae/ad"
	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Param is a named parameter. A checkpoint stores it as a tensor with the same name and Shape
// (PyTorch's conventions, image layers flattened as channel, row, column). Its matrix has
// the layout that the kernels need.
type Param[T linalg.Float] struct {
	*hvae.Param[T]
	Shape []int

	layout layout
}

// A layout is the relation between a parameter's matrix and its tensor in a checkpoint.
type layout int

const (
	plain    layout = iota // both have the same elements in row-major order
	kernel                 // matrix [(ky, kx, b) × a], tensor (a, b, ky, kx)
	codeRows               // the rows are the deepest image layer: matrix (pixel, channel), tensor (channel, pixel)
	codeCols               // the columns are
)

// A spec describes a parameter.
type spec[T linalg.Float] struct {
	field  **ad.Var[T] // of the network
	name   string
	shape  []int // of the tensor in a checkpoint
	layout layout
	start  float64 // the mean of its elements' starting values
	spread float64 // their standard deviation
}

// specs lists the parameters of a model, stored in fields of n, in the checkpoint's order.
func (n *Network[T]) specs(c Config) (all []spec[T]) {
	add := func(field **ad.Var[T], name string, l layout, start, spread float64, shape ...int) {
		all = append(all, spec[T]{field, name, shape, l, start, spread})
	}
	spread := func(in, out int) float64 { return 1 / math.Sqrt(float64(in+out)) }
	dense := func(name string, l *layer[T], weights, biases layout, out, in int) {
		add(&l.weight, name+".weight", weights, 0, spread(in, out), out, in)
		add(&l.bias, name+".bias", biases, 0, 0, out)
	}
	// The checkpoint's shapes, (out, in, 5, 5) for a convolution and (in, out, 5, 5) for a
	// transpose, are the same for g and its transpose.
	convolution := func(name string, l *layer[T], g conv.Geometry, channels int) {
		add(&l.weight, name+".weight", kernel, 0, spread(g.In(), g.Out()), g.OutC, g.InC, g.KernelH, g.KernelW)
		add(&l.bias, name+".bias", plain, 0, 0, channels)
	}
	e, d := &n.encoder, &n.decoder
	convolution("encoder.conv1", &e.conv1, conv1, conv1.OutC)
	convolution("encoder.conv2", &e.conv2, conv2, conv2.OutC)
	convolution("encoder.conv3", &e.conv3, conv3, conv3.OutC)
	dense("encoder.hidden", &e.hidden, codeCols, plain, hidden, code)
	dense("encoder.mean", &e.mean, plain, plain, c.Latent, hidden)
	dense("encoder.std", &e.std, plain, plain, c.Latent, hidden)
	dense("decoder.hidden", &d.hidden, plain, plain, hidden, c.Latent)
	dense("decoder.expand", &d.expand, codeRows, codeRows, code, hidden)
	convolution("decoder.deconv1", &d.deconv1, conv3, conv3.InC)
	convolution("decoder.deconv2", &d.deconv2, conv2, conv2.InC)
	convolution("decoder.deconv3", &d.deconv3, conv1, conv1.InC)
	if c.K == 0 {
		return all
	}
	rows := 1
	if c.VaryEps {
		rows = c.K
	}
	add(&n.stepSizeLogit, "flow.step_size_logit", plain, hvae.Unconstrain(0.2, 0, maxEps), 0, rows, c.Latent)
	switch c.Tempering {
	case "free":
		add(&n.alphaLogit, "flow.alpha_logit", plain, hvae.Unconstrain(0.9, 0, 1), 0, c.K)
	case "fixed":
		add(&n.logTemperature, "flow.log_temperature", plain, hvae.Unconstrain(math.Sqrt(1.5), 1, math.Inf(1)), 0, 1)
	}
	return all
}

// NewParams returns the parameters of a model at their starting values. Weights are normal
// with standard deviation 1/√(n_in + n_out), where n_in and n_out are the sizes of the
// layer's whole input and output. Biases are zero, except that the decoder's last bias is
// outputBias. The flow starts at ε = 0.2, α_k = 0.9 and 1/β₀ = 1.5.
func NewParams[T linalg.Float](c Config, outputBias float64, seed uint64) []Param[T] {
	ps := zeroParams[T](c)
	var n Network[T]
	for i, s := range n.specs(c) {
		if s.field == &n.decoder.deconv3.bias {
			s.start = outputBias
		}
		rng := random.Stream(seed, "mnist start "+s.name)
		for j := range ps[i].Value.Data {
			ps[i].Value.Data[j] = T(s.start + s.spread*rng.NormFloat64())
		}
	}
	return ps
}

// zeroParams returns the parameters of a model, all zero.
func zeroParams[T linalg.Float](c Config) (ps []Param[T]) {
	for _, s := range new(Network[T]).specs(c) {
		rows, cols := s.shape[0], 1
		for _, n := range s.shape[1:] {
			cols *= n
		}
		if s.layout == kernel {
			rows, cols = cols, rows
		}
		ps = append(ps, Param[T]{&hvae.Param[T]{Name: s.name, Value: linalg.New[T](rows, cols)}, s.shape, s.layout})
	}
	return ps
}

// order yields, for each element of the parameter's tensor in row-major order, its index in
// the tensor and its index in the matrix.
func (p Param[T]) order() iter.Seq2[int, int] {
	rows, cols := p.Value.Rows, p.Value.Cols
	// The tensor as an array of three axes, and the distance in the matrix between
	// neighbours along each.
	length, step := [3]int{1, 1, rows * cols}, [3]int{0, 0, 1}
	switch p.layout {
	case kernel:
		b, taps := p.Shape[1], p.Shape[2]*p.Shape[3]
		length, step = [3]int{cols, b, taps}, [3]int{1, cols, b * cols}
	case codeRows:
		length, step = [3]int{channels, code / channels, cols}, [3]int{cols, channels * cols, 1}
	case codeCols:
		length, step = [3]int{rows, channels, code / channels}, [3]int{cols, 1, channels}
	}
	return func(yield func(int, int) bool) {
		i := 0
		for a := range length[0] {
			for b := range length[1] {
				for c := range length[2] {
					if !yield(i, a*step[0]+b*step[1]+c*step[2]) {
						return
					}
					i++
				}
			}
		}
	}
}
