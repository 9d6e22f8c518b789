package model

import (
	"math"

	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
)

// A Param is a named parameter. Its name and Shape are the checkpoint's (PyTorch's
// conventions, image layers flattened as channel, row, column); its matrix has the layout
// of the kernels. layout maps one to the other.
type Param[T linalg.Float] struct {
	Name  string
	Shape []int
	Value linalg.Matrix[T]

	layout layout
	spread float64 // standard deviation of the initial weights; 0 for biases
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

// inventory lists the parameters of a model in the order of the checkpoint: weights with
// the spread of their start but zero, the flow's at their start. Their matrices are made
// by zeros, or by shapeOnly if nothing is to be allocated.
func (c Config) inventory(zeros func(rows, cols int) linalg.Matrix[float64]) []Param[float64] {
	var ps []Param[float64]
	layer := func(name string, weight, bias Param[float64], in, out int) {
		weight.Name, bias.Name = name+".weight", name+".bias"
		weight.spread = 1 / math.Sqrt(float64(in+out)) // sizes of the whole layer
		ps = append(ps, weight, bias)
	}
	dense := func(name string, weights, biases layout, out, in int) {
		layer(name,
			Param[float64]{Shape: []int{out, in}, Value: zeros(out, in), layout: weights},
			Param[float64]{Shape: []int{out}, Value: zeros(out, 1), layout: biases}, in, out)
	}
	// A convolution's weights are (out, in, 5, 5) in a checkpoint, those of a transpose
	// (in, out, 5, 5): either way those of the convolution g.
	convolution := func(name string, g conv.Geometry, channels int) {
		layer(name,
			Param[float64]{Shape: []int{g.OutC, g.InC, g.KernelH, g.KernelW}, Value: zeros(g.Taps(), g.OutC), layout: kernel},
			Param[float64]{Shape: []int{channels}, Value: zeros(channels, 1)}, g.In(), g.Out())
	}
	convolution("encoder.conv1", conv1, conv1.OutC)
	convolution("encoder.conv2", conv2, conv2.OutC)
	convolution("encoder.conv3", conv3, conv3.OutC)
	dense("encoder.hidden", ofCode, plain, hidden, code)
	dense("encoder.mean", plain, plain, c.Latent, hidden)
	dense("encoder.std", plain, plain, c.Latent, hidden)
	dense("decoder.hidden", plain, plain, hidden, c.Latent)
	dense("decoder.expand", toCode, toCode, code, hidden)
	convolution("decoder.deconv1", conv3, conv3.InC)
	convolution("decoder.deconv2", conv2, conv2.InC)
	convolution("decoder.deconv3", conv1, conv1.InC)
	if c.K == 0 {
		return ps
	}

	flow := func(name string, start float64, rows, cols int, shape ...int) {
		p := Param[float64]{Name: "flow." + name, Shape: shape, Value: zeros(rows, cols)}
		p.Value.Fill(start)
		ps = append(ps, p)
	}
	rows := 1
	if c.VaryEps {
		rows = c.K
	}
	flow("step_size_logit", linalg.Logit(0.2/maxEps), rows, c.Latent, rows, c.Latent)
	switch c.Tempering {
	case "free":
		flow("alpha_logit", linalg.Logit(0.9), c.K, 1, c.K)
	case "fixed":
		flow("log_temperature", math.Log(math.Sqrt(1.5)-1), 1, 1, 1)
	}
	return ps
}

// shapeOnly returns a matrix without elements.
func shapeOnly(rows, cols int) linalg.Matrix[float64] {
	return linalg.Matrix[float64]{Rows: rows, Cols: cols}
}

// NewParams returns the parameters of a model at their starting values: weights normal
// with standard deviation 1/√(n_in + n_out), where n_in and n_out are the sizes of the
// whole layer's input and output; biases zero but for the last, which starts at
// outputBias; the flow at ε = 0.2, α_k = 0.9 and 1/β₀ = 1.5.
func NewParams[T linalg.Float](c Config, outputBias float64, seed uint64) []Param[T] {
	var ps []Param[T]
	for _, p := range c.inventory(linalg.New[float64]) {
		if p.spread > 0 {
			hvae.FillNormal(hvae.Stream(seed, "mnist start "+p.Name), p.Value)
			linalg.Scale(p.Value, p.spread, p.Value)
		}
		if p.Name == "decoder.deconv3.bias" {
			p.Value.Fill(outputBias)
		}
		q := Param[T]{Name: p.Name, Shape: p.Shape, Value: linalg.New[T](p.Value.Rows, p.Value.Cols), layout: p.layout}
		for i, v := range p.Value.Data {
			q.Value.Data[i] = T(v)
		}
		ps = append(ps, q)
	}
	return ps
}

// position returns where element i of a checkpoint's tensor is in the parameter's matrix.
func (p Param[T]) position(i int) int {
	// A row of the deepest image layer is (pixel, channel) here, (channel, pixel) there.
	row := func(r int) int { return r%(code/channel)*channel + r/(code/channel) }
	switch p.layout {
	case kernel:
		taps := p.Shape[2] * p.Shape[3]
		a, rest := i/p.Value.Rows, i%p.Value.Rows // rest counts b, then taps
		return (rest%taps*p.Shape[1]+rest/taps)*p.Value.Cols + a
	case toCode:
		return row(i/p.Value.Cols)*p.Value.Cols + i%p.Value.Cols
	case ofCode:
		return i/p.Value.Cols*p.Value.Cols + row(i%p.Value.Cols)
	}
	return i
}
