package hvae

import (
	"fmt"
	"math"

	"hvae/linalg"
)

// An Optimiser climbs an objective along stochastic gradients: the lines UpdateTheta
// and UpdatePhi of Algorithm 2.
type Optimiser[T linalg.Float] interface {
	// Ascend moves the parameters, in place, to increase an objective whose gradients
	// are given in the same order and shapes. The parameters must be the same in
	// every call: the optimiser keeps averages for each.
	Ascend(params, gradients []linalg.Matrix[T])
}

// RMSProp divides the gradient by a running root mean square of it (Tieleman and
// Hinton, lecture 6.5, 2012), in the form of TensorFlow 1's ApplyRMSProp without
// momentum:
//
//	v ← decay·v + (1 − decay)·g²,   θ ← θ + rate·g/√(v + ε).
type RMSProp[T linalg.Float] struct {
	Rate, Decay, Epsilon T
	// Start is v before the first step: 0 in the lecture, 1 in TensorFlow 1, where
	// it keeps the first steps short.
	Start T

	meanSquare [][]T
}

// NewRMSProp returns the optimiser of the paper's Gaussian experiment: TensorFlow 1's
// defaults, decay 0.9, ε = 1e-10 and a mean square that starts at one.
func NewRMSProp[T linalg.Float](rate T) *RMSProp[T] {
	return &RMSProp[T]{Rate: rate, Decay: 0.9, Epsilon: 1e-10, Start: 1}
}

// Ascend implements Optimiser.
func (o *RMSProp[T]) Ascend(params, gradients []linalg.Matrix[T]) {
	o.meanSquare = averages(o.meanSquare, params, gradients, o.Start)
	for i, p := range params {
		g, v := gradients[i].Data[:len(p.Data)], o.meanSquare[i][:len(p.Data)]
		for j := range p.Data {
			v[j] = o.Decay*v[j] + (1-o.Decay)*g[j]*g[j]
			p.Data[j] += o.Rate * g[j] / T(math.Sqrt(float64(v[j]+o.Epsilon)))
		}
	}
}

// Adamax is the variant of Adam by the infinity norm (Kingma and Ba, 2014, algorithm 2):
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   θ ← θ + rate/(1 − β₁ᵗ)·m/(u + ε).
type Adamax[T linalg.Float] struct {
	Rate, Beta1, Beta2 T
	// Epsilon keeps a parameter whose gradients have all been zero where it is.
	Epsilon T
	// Start is u before the first step: 0 in the paper.
	Start T

	step       int
	mean, norm [][]T
	now        adamaxStep[T]
	rows       func(lo, hi int) // now.run
}

// NewAdamax returns Adamax with the constants of its paper, β₁ = 0.9 and β₂ = 0.999.
func NewAdamax[T linalg.Float](rate T) *Adamax[T] {
	return &Adamax[T]{Rate: rate, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
}

// State returns how many steps have been taken and the averages m and u of each
// parameter, themselves and not copies, for a run to be saved and resumed.
func (o *Adamax[T]) State(params []linalg.Matrix[T]) (step int, mean, norm [][]T) {
	o.mean = averages(o.mean, params, params, 0)
	o.norm = averages(o.norm, params, params, o.Start)
	return o.step, o.mean, o.norm
}

// SetStep says how many steps have been taken.
func (o *Adamax[T]) SetStep(step int) { o.step = step }

// Ascend implements Optimiser.
func (o *Adamax[T]) Ascend(params, gradients []linalg.Matrix[T]) {
	o.mean = averages(o.mean, params, gradients, 0)
	o.norm = averages(o.norm, params, gradients, o.Start)
	o.step++
	rate := o.Rate / T(1-math.Pow(float64(o.Beta1), float64(o.step)))
	for i, p := range params {
		o.now = adamaxStep[T]{p, linalg.Of(p.Rows, p.Cols, o.mean[i]), linalg.Of(p.Rows, p.Cols, o.norm[i]), gradients[i], rate}
		if o.rows == nil { // made once, so that a step allocates nothing
			o.rows = func(lo, hi int) { o.now.run(o, lo, hi) }
		}
		linalg.For(p.Rows, max(1, adamaxGrain/max(1, p.Cols)), o.rows)
	}
}

// adamaxGrain is how many elements outweigh starting a goroutine.
const adamaxGrain = 1 << 15

// An adamaxStep is what the step of one parameter works on.
type adamaxStep[T linalg.Float] struct {
	param, mean, norm, gradient linalg.Matrix[T]
	rate                        T
}

// run takes the step for rows lo to hi-1.
func (s *adamaxStep[T]) run(o *Adamax[T], lo, hi int) {
	linalg.Adamax(s.param.RowRange(lo, hi), s.mean.RowRange(lo, hi), s.norm.RowRange(lo, hi), s.gradient.RowRange(lo, hi),
		o.Beta1, o.Beta2, s.rate, o.Epsilon)
}

// averages returns an average for each parameter, made on the first call, and checks
// that parameters and gradients fit.
func averages[T linalg.Float](avg [][]T, params, gradients []linalg.Matrix[T], start T) [][]T {
	if len(params) != len(gradients) || avg != nil && len(avg) != len(params) {
		panic(fmt.Sprintf("hvae: %d parameters, %d gradients, %d averages", len(params), len(gradients), len(avg)))
	}
	for i, p := range params {
		if len(avg) == i {
			m := linalg.New[T](p.Rows, p.Cols)
			m.Fill(start)
			avg = append(avg, m.Data)
		}
		if p.Shape() != gradients[i].Shape() || len(avg[i]) != len(p.Data) {
			panic(fmt.Sprintf("hvae: parameter %d is %v, its gradient %v, its average has %d elements", i, p.Shape(), gradients[i].Shape(), len(avg[i])))
		}
	}
	return avg
}
