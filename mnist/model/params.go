package model

import (
	"math"

	"hvae/ad"
	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
)

// A Param is a named parameter. Its name and Shape are the checkpoint's (PyTorch's
// conventions, image layers flattened as channel, row, column); its matrix has the layout
// of the kernels. layout maps one to the other.
type Param[T linalg.Float] struct {
	*hvae.Param[T]
	Shape []int

	layout layout
}

// A layout says how the rows and columns of a parameter's matrix are ordered in a
// checkpoint.
type layout int

const (
	plain  layout = iota // row by row, as in the matrix
	kernel               // matrix [(ky, kx, b) × a], checkpoint (a, b, ky, kx)
	toCode               // the rows are those of the deepest image layer
	ofCode               // the columns are
)

// A spec describes a parameter: its tensor in a checkpoint, its matrix, its start and its
// place in a network.
type spec[T linalg.Float] struct {
	name       string
	shape      []int // of the tensor
	rows, cols int   // of the matrix
	layout     layout
	start      float64 // of every element, but for weights:
	spread     float64 // standard deviation of their start; 0 for the rest
	place      **ad.Var[T]
}

// specs lists the parameters of a model in the order of the checkpoint, with their places
// in n.
func (n *Network[T]) specs(c Config) (all []spec[T]) {
	add := func(name string, l *layer[T], weight, bias spec[T], in, out int) {
		weight.name, weight.place = name+".weight", &l.weight
		bias.name, bias.place = name+".bias", &l.bias
		weight.spread = 1 / math.Sqrt(float64(in+out)) // sizes of the whole layer
		all = append(all, weight, bias)
	}
	dense := func(name string, l *layer[T], weights, biases layout, out, in int) {
		weight := spec[T]{shape: []int{out, in}, rows: out, cols: in, layout: weights}
		bias := spec[T]{shape: []int{out}, rows: out, cols: 1, layout: biases}
		add(name, l, weight, bias, in, out)
	}
	// A convolution's weights are (out, in, 5, 5) in a checkpoint, those of a transpose
	// (in, out, 5, 5): either way those of the convolution g.
	convolution := func(name string, l *layer[T], g conv.Geometry, channels int) {
		weight := spec[T]{shape: []int{g.OutC, g.InC, g.KernelH, g.KernelW}, rows: g.Taps(), cols: g.OutC, layout: kernel}
		bias := spec[T]{shape: []int{channels}, rows: channels, cols: 1}
		add(name, l, weight, bias, g.In(), g.Out())
	}
	e, d := &n.encoder, &n.decoder
	convolution("encoder.conv1", &e.conv1, conv1, conv1.OutC)
	convolution("encoder.conv2", &e.conv2, conv2, conv2.OutC)
	convolution("encoder.conv3", &e.conv3, conv3, conv3.OutC)
	dense("encoder.hidden", &e.hidden, ofCode, plain, hidden, code)
	dense("encoder.mean", &e.mean, plain, plain, c.Latent, hidden)
	dense("encoder.std", &e.std, plain, plain, c.Latent, hidden)
	dense("decoder.hidden", &d.hidden, plain, plain, hidden, c.Latent)
	dense("decoder.expand", &d.expand, toCode, toCode, code, hidden)
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
	all = append(all, spec[T]{name: "flow.step_size_logit", shape: []int{rows, c.Latent}, rows: rows, cols: c.Latent,
		start: hvae.Unconstrain(0.2, 0, maxEps), place: &n.stepSizeLogit})
	switch c.Tempering {
	case "free":
		all = append(all, spec[T]{name: "flow.alpha_logit", shape: []int{c.K}, rows: c.K, cols: 1,
			start: hvae.Unconstrain(0.9, 0, 1), place: &n.alphaLogit})
	case "fixed":
		all = append(all, spec[T]{name: "flow.log_temperature", shape: []int{1}, rows: 1, cols: 1,
			start: hvae.Unconstrain(math.Sqrt(1.5), 1, math.Inf(1)), place: &n.logTemperature})
	}
	return all
}

// NewParams returns the parameters of a model at their starting values: weights normal
// with standard deviation 1/√(n_in + n_out), where n_in and n_out are the sizes of the
// whole layer's input and output; biases zero but for the last, which starts at
// outputBias; the flow at ε = 0.2, α_k = 0.9 and 1/β₀ = 1.5.
func NewParams[T linalg.Float](c Config, outputBias float64, seed uint64) []Param[T] {
	ps := zeroParams[T](c)
	var n Network[T]
	for i, s := range n.specs(c) {
		if s.place == &n.decoder.deconv3.bias {
			s.start = outputBias
		}
		rng := hvae.Stream(seed, "mnist start "+s.name)
		for j := range ps[i].Value.Data {
			v := s.start
			if s.spread > 0 {
				v = s.spread * rng.NormFloat64()
			}
			ps[i].Value.Data[j] = T(v)
		}
	}
	return ps
}

// zeroParams returns the parameters of a model, all zero.
func zeroParams[T linalg.Float](c Config) (ps []Param[T]) {
	for _, s := range new(Network[T]).specs(c) {
		ps = append(ps, Param[T]{Param: &hvae.Param[T]{Name: s.name, Value: linalg.New[T](s.rows, s.cols)}, Shape: s.shape, layout: s.layout})
	}
	return ps
}

// axes describes a checkpoint's tensor as an array of three axes: how long each is, and how
// far apart neighbours along it are in the parameter's matrix.
func (p Param[T]) axes() (length, step [3]int) {
	rows, cols := p.Value.Rows, p.Value.Cols
	switch p.layout {
	case kernel:
		b, taps := p.Shape[1], p.Shape[2]*p.Shape[3]
		return [3]int{cols, b, taps}, [3]int{1, cols, b * cols}
	// A row of the deepest image layer is (pixel, channel) here, (channel, pixel) there.
	case toCode:
		return [3]int{channel, code / channel, cols}, [3]int{cols, channel * cols, 1}
	case ofCode:
		return [3]int{rows, channel, code / channel}, [3]int{cols, 1, channel}
	}
	return [3]int{1, 1, rows * cols}, [3]int{0, 0, 1}
}

// lines goes through a checkpoint's tensor by its lines, each n elements from i, which are in
// the parameter's matrix at at, at + step, ….
func (p Param[T]) lines(line func(i, n, at, step int)) {
	length, step := p.axes()
	i := 0
	for a := range length[0] {
		for b := range length[1] {
			line(i, length[2], a*step[0]+b*step[1], step[2])
			i += length[2]
		}
	}
}
