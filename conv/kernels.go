package conv

import (
	"fmt"

	"hvae/linalg"
)

// The three maps walk over pixels and let linalg multiply. With channels innermost, the
// input rows under one kernel row are contiguous, so a kernel row is one product of a
// block of weights; where it hangs over the edge it is a shorter one, and padding costs
// nothing.

// grain is how many multiply-adds outweigh starting a goroutine: about 50 µs.
const grain = 1 << 17

// parallel runs body over [0, n), n pieces that make work multiply-adds together.
func parallel(n, work int, body func(lo, hi int)) {
	linalg.For(n, max(1, grain*n/max(1, work)), body)
}

// Forward sets y [Out×B] = W ∗ x for weights [OutC×Taps] and x [In×B].
func Forward[T linalg.Float](g *Geometry, y, w, x linalg.Matrix[T]) {
	g.mustFit("Forward", y.Shape(), w.Shape(), x.Shape())
	parallel(g.OutH*g.OutW, g.MultiplyAdds()*x.Cols, func(lo, hi int) {
		for o := lo; o < hi; o++ {
			out := y.RowRange(o*g.OutC, (o+1)*g.OutC)
			clear(out.Data)
			for ky := range g.KernelH {
				if s, ok := g.segment(o, ky); ok {
					linalg.AddProduct(out, block(g, w, s), x.RowRange(s.row, s.row+s.width))
				}
			}
		}
	})
}

// Input sets x [In×B] = Wᵀ ∗ δ for weights [OutC×Taps] and δ [Out×B], the transpose of
// Forward as a map of x: the gradient of ⟨δ, W ∗ X⟩ in X, and the upsampling layer of a
// generative network.
func Input[T linalg.Float](g *Geometry, x, w, delta linalg.Matrix[T]) {
	g.mustFit("Input", delta.Shape(), w.Shape(), x.Shape())
	// Each input pixel collects from the outputs it went into, so that goroutines write
	// to rows of their own.
	parallel(g.InH*g.InW, g.MultiplyAdds()*x.Cols, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			in := x.RowRange(i*g.InC, (i+1)*g.InC)
			clear(in.Data)
			for ky := range g.KernelH {
				oy, ok := output(i/g.InW+g.PadTop-ky, g.Stride, g.OutH)
				if !ok {
					continue
				}
				for kx := range g.KernelW {
					if ox, ok := output(i%g.InW+g.PadLeft-kx, g.Stride, g.OutW); ok {
						o := oy*g.OutW + ox
						tap := segment{column: (ky*g.KernelW + kx) * g.InC, width: g.InC}
						linalg.AddProductTA(in, block(g, w, tap), delta.RowRange(o*g.OutC, (o+1)*g.OutC))
					}
				}
			}
		}
	})
}

// Weight sets w [OutC×Taps] to the gradient of ⟨δ, W ∗ X⟩ in W for δ [Out×B] and
// x [In×B].
func Weight[T linalg.Float](g *Geometry, w, delta, x linalg.Matrix[T]) {
	g.mustFit("Weight", delta.Shape(), w.Shape(), x.Shape())
	parallel(g.OutC, g.MultiplyAdds()*x.Cols, func(lo, hi int) {
		clear(w.RowRange(lo, hi).Data)
		for o := range g.OutH * g.OutW {
			d := delta.RowRange(o*g.OutC+lo, o*g.OutC+hi)
			for ky := range g.KernelH {
				if s, ok := g.segment(o, ky); ok {
					linalg.AddProductTB(block(g, w.RowRange(lo, hi), s), d, x.RowRange(s.row, s.row+s.width))
				}
			}
		}
	})
}

// A segment is the part of a kernel row that lies on the image, over one output pixel:
// contiguous columns of the weights, and the input rows that they multiply.
type segment struct{ column, row, width int }

// segment returns that of kernel row ky over output pixel o; ok is false if there is
// none.
func (g *Geometry) segment(o, ky int) (s segment, ok bool) {
	iy := o/g.OutW*g.Stride + ky - g.PadTop
	left := o%g.OutW*g.Stride - g.PadLeft
	first, last := max(0, -left), min(g.KernelW, g.InW-left) // kx from first to last−1
	if iy < 0 || iy >= g.InH || first >= last {
		return segment{}, false
	}
	return segment{
		column: (ky*g.KernelW + first) * g.InC,
		row:    (iy*g.InW + left + first) * g.InC,
		width:  (last - first) * g.InC,
	}, true
}

// output returns which output pixel along an axis has its tap at distance d·stride; ok
// is false if none has.
func output(d, stride, size int) (o int, ok bool) {
	o = d / stride
	return o, d >= 0 && d%stride == 0 && o < size
}

// block returns the columns of the weights that belong to a segment.
func block[T linalg.Float](g *Geometry, w linalg.Matrix[T], s segment) linalg.Strided[T] {
	return linalg.Strided[T]{Rows: w.Rows, Cols: s.width, Stride: g.Taps(), Data: w.Data[s.column:]}
}

func (g *Geometry) mustFit(name string, y, w, x linalg.Shape) {
	g.check()
	if y != (linalg.Shape{Rows: g.Out(), Cols: x.Cols}) || w != (linalg.Shape{Rows: g.OutC, Cols: g.Taps()}) || x.Rows != g.In() {
		panic(fmt.Sprintf("conv: %s: output %v, weights %v and input %v do not fit %+v, which needs [%d×B], [%d×%d] and [%d×B]",
			name, y, w, x, *g, g.Out(), g.OutC, g.Taps(), g.In()))
	}
}
