package model

import (
	"math"

	"hvae/hvae"
	"hvae/linalg"
)

// A Param is a named parameter. Its name and Shape are the checkpoint's (DESIGN: PyTorch's
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
	kernel               // matrix [a × (ky, kx, b)], checkpoint (a, b, ky, kx)
	toCode               // the rows are those of the deepest image layer
	ofCode               // the columns are
)

// Params returns the parameters of a model, in the order of the checkpoint, zero but for
// the flow's, which start at ε = 0.2, α_k = 0.9 and 1/β₀ = 1.5.
func (c Config) params64() []Param[float64] {
	var ps []Param[float64]
	add := func(name string, l layout, fanIn, fanOut int, rows, cols int, shape ...int) {
		weight := Param[float64]{Name: name + ".weight", Shape: shape, Value: linalg.New[float64](rows, cols), layout: l}
		weight.spread = 1 / math.Sqrt(float64(fanIn+fanOut))
		ps = append(ps, weight)
	}
	bias := func(name string, l layout, n int) {
		ps = append(ps, Param[float64]{Name: name + ".bias", Shape: []int{n}, Value: linalg.New[float64](n, 1), layout: l})
	}
	dense := func(name string, weights, biases layout, out, in int) {
		add(name, weights, in, out, out, in, out, in)
		bias(name, biases, out)
	}
	convolution := func(name string, in, out, a, b, biases int) {
		add(name, kernel, in, out, a, 25*b, a, b, 5, 5)
		bias(name, plain, biases)
	}
	convolution("encoder.conv1", conv1.In(), conv1.Out(), 16, 1, 16)
	convolution("encoder.conv2", conv2.In(), conv2.Out(), 32, 16, 32)
	convolution("encoder.conv3", conv3.In(), conv3.Out(), 32, 32, 32)
	dense("encoder.hidden", ofCode, plain, hidden, code)
	dense("encoder.mean", plain, plain, c.Latent, hidden)
	dense("encoder.std", plain, plain, c.Latent, hidden)
	dense("decoder.hidden", plain, plain, hidden, c.Latent)
	dense("decoder.expand", toCode, toCode, code, hidden)
	convolution("decoder.deconv1", conv3.Out(), conv3.In(), 32, 32, 32)
	convolution("decoder.deconv2", conv2.Out(), conv2.In(), 32, 16, 16)
	convolution("decoder.deconv3", conv1.Out(), conv1.In(), 16, 1, 1)
	if c.K == 0 {
		return ps
	}

	rows := 1
	if c.VaryEps {
		rows = c.K
	}
	flow := func(name string, rows, cols int, start float64, shape ...int) {
		p := Param[float64]{Name: "flow." + name, Shape: shape, Value: linalg.New[float64](rows, cols)}
		p.Value.Fill(start)
		ps = append(ps, p)
	}
	flow("step_size_logit", rows, c.Latent, linalg.Logit(0.2/maxEps), rows, c.Latent)
	switch c.Tempering {
	case "free":
		flow("alpha_logit", c.K, 1, linalg.Logit(0.9), c.K)
	case "fixed":
		flow("log_temperature", 1, 1, math.Log(math.Sqrt(1.5)-1), 1)
	}
	return ps
}

// NewParams returns the parameters of a model at their starting values: weights normal
// with standard deviation 1/√(n_in + n_out), where n_in and n_out are the sizes of the
// whole layer's input and output; biases zero but for the last, which starts at
// outputBias; the flow at ε = 0.2, α_k = 0.9 and 1/β₀ = 1.5.
func NewParams[T linalg.Float](c Config, outputBias float64, seed uint64) []Param[T] {
	var ps []Param[T]
	for _, p := range c.params64() {
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
		taps := 25
		b := p.Value.Cols / taps
		a, rest := i/p.Value.Cols, i%p.Value.Cols
		return a*p.Value.Cols + rest%taps*b + rest/taps
	case toCode:
		return row(i/p.Value.Cols)*p.Value.Cols + i%p.Value.Cols
	case ofCode:
		return i/p.Value.Cols*p.Value.Cols + row(i%p.Value.Cols)
	}
	return i
}
