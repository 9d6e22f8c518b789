package conv

import (
	"fmt"

	"hvae/linalg"
)

// The three maps walk over pixels and let linalg multiply. Neighbouring pixels that see
// the same taps are the groups of one linalg.Contraction and share its weights; taps
// that lie on padding are left out, and cost nothing. Along a row, with a kernel of three
// columns, stride 2 and a column of padding on the left:
//
//	  .  0  1  2  3  4  5  6  7      input columns
//	 [=======]                       output 0 sees taps 1 and 2, its tap 0 is on padding
//	       [=======]                 output 1 sees all three
//	             [=======]           output 2 too
//	                   [=======]     output 3 too: 1, 2 and 3 are a run, one contraction
//
// Likewise for pixels below each other: at the left and right edge of an image, whose runs
// are short along a row, the groups go down. In a block of 16 columns that takes 4 % from a
// step of training, in one of 4, whose vectors have four groups each, 10 %.
//
// What tricks bring is given below in time of a map of the paper's encoder, the minimum of
// 40 or more measurements of a batch of 100 in float32 on one core with AVX-512. A run as
// groups in place of a contraction for each pixel: Forward 5 to 16 %, Input 9 to 11 %.

// grain is how many multiply-adds outweigh starting a goroutine: some 50 µs.
const grain = 1 << 21

// maxSegments is how many segments a contraction of this package can have without an
// allocation.
const maxSegments = 64

// maxRuns is how many runs of input columns there can be without an allocation.
const maxRuns = 16

// Forward sets y [Out×B] = W ∗ x + bias for weights [Taps×OutC], x [In×B] and a bias
// [OutC×1] for each pixel; an empty bias is zero. It panics, naming the shapes, where they
// do not fit g. It takes g.MultiplyAdds() for each column, less those on padding; rows of
// the output are shared among the cores.
func Forward[T linalg.Float](g *Geometry, y, w, x, bias linalg.Matrix[T]) {
	g.mustFit("Forward", y.Shape(), w.Shape(), x.Shape())
	mustFitBias("Forward", g.OutC, bias)
	grain := rowsPerGrain(g.OutH, g.MultiplyAdds()*x.Cols)
	if linalg.Serial(g.OutH, grain) {
		forwardRows(g, y, w, x, bias, 0, g.OutH)
		return
	}
	linalg.For(g.OutH, grain, func(lo, hi int) { forwardRows(g, y, w, x, bias, lo, hi) })
}

// forwardRows computes output pixels of rows lo to hi-1.
func forwardRows[T linalg.Float](g *Geometry, y, w, x, bias linalg.Matrix[T], lo, hi int) {
	var room [maxSegments]linalg.Segment
	n := x.Cols
	for oy := lo; oy < hi; {
		top, bottom, down := g.runAlongY(oy)
		down = min(down, hi-oy)
		for ox := 0; ox < g.OutW; {
			first, last, run := g.runAlongX(ox)
			segments := room[:0] // a kernel row each: contiguous weights, contiguous pixels
			for ky := top; ky < bottom && first < last; ky++ {
				iy, ix := oy*g.Stride+ky-g.PadTop, ox*g.Stride+first-g.PadLeft
				segments = append(segments, linalg.Segment{
					A: (ky*g.KernelW + first) * g.InC * g.OutC,
					B: (iy*g.InW + ix) * g.InC * n,
				})
			}
			runPixels(linalg.Contraction[T]{
				Rows: g.OutC, Cols: n, Steps: max(0, last-first) * g.InC,
				C: y.Data, CStart: (oy*g.OutW + ox) * g.OutC * n, CRow: n,
				A: w.Data, ARow: 1, AStep: g.OutC,
				B: x.Data, BStep: n,
				Segments: segments, Bias: bias.Data,
			}, run, g.OutC*n, g.Stride*g.InC*n, down, g.OutW*g.OutC*n, g.Stride*g.InW*g.InC*n)
			ox += run
		}
		oy += down
	}
}

// runPixels runs c, which is that of the first pixel, for each pixel of a rectangle: across
// pixels side by side, which are cAcross apart in C and bAcross in B, times down below each
// other. The groups of a contraction go along the longer side.
func runPixels[T linalg.Float](c linalg.Contraction[T], across, cAcross, bAcross, down, cDown, bDown int) {
	if down > across {
		across, cAcross, bAcross, down, cDown, bDown = down, cDown, bDown, across, cAcross, bAcross
	}
	c.Groups, c.CGroup, c.BGroup = across, cAcross, bAcross
	b := c.B
	for i := range down {
		c.B = b[min(i*bDown, len(b)):] // beyond b only where all taps are on padding
		c.Run()
		c.CStart += cDown
	}
}

// Input sets x [In×B] = Wᵀ ∗ δ + bias for weights [Taps×OutC], δ [Out×B] and a bias
// [InC×1] for each pixel, or zero; it is the transpose of Forward as a map of x: the
// gradient of ⟨δ, W ∗ X⟩ in X, and the upsampling layer of a generative network. It panics
// and costs as Forward does. Cores share rows of the image; columns if it has one channel.
func Input[T linalg.Float](g *Geometry, x, w, delta, bias linalg.Matrix[T]) {
	g.mustFit("Input", delta.Shape(), w.Shape(), x.Shape())
	mustFitBias("Input", g.InC, bias)
	if g.InC == 1 {
		grain := max(16, rowsPerGrain(x.Cols, g.MultiplyAdds()*x.Cols))
		if linalg.Serial(x.Cols, grain) {
			inputOfOne(g, x, w, delta, bias, 0, x.Cols)
			return
		}
		linalg.For(x.Cols, grain, func(lo, hi int) { inputOfOne(g, x, w, delta, bias, lo, hi) })
		return
	}
	grain := rowsPerGrain(g.InH, g.MultiplyAdds()*x.Cols)
	if linalg.Serial(g.InH, grain) {
		inputRows(g, x, w, delta, bias, 0, g.InH)
		return
	}
	linalg.For(g.InH, grain, func(lo, hi int) { inputRows(g, x, w, delta, bias, lo, hi) })
}

// inputRows computes input pixels of rows lo to hi-1. Along an axis, pixel i meets
// output o through tap i + pad − o·stride: pixels a stride apart meet the same taps,
// and so fall into stride² classes, each a convolution of its own with stride one. With
// stride 2 and a kernel of 5×5 the four classes share out its 25 taps by parity:
//
//	pixel column ix     0  1  2  3  4  5  …         pad 1: tap column kx = ix + 1 − 2·ox
//	tap columns         o  e  o  e  o  e            o: 1 and 3,  e: 0, 2 and 4
//
//	pixel row iy  0  o  a  b  a  b  a  b            a: 2·2 taps
//	              1  e  c  d  c  d  c  d            b: 2·3
//	              2  o  a  b  a  b  a  b            c: 3·2
//	              3  e  c  d  c  d  c  d            d: 3·3
//
// Pixels of one letter in one row or column are the groups of a contraction, each an output
// further on.
func inputRows[T linalg.Float](g *Geometry, x, w, delta, bias linalg.Matrix[T], lo, hi int) {
	var room [maxSegments]linalg.Segment
	var roomX, roomY [maxRuns]inputRun
	runs := g.inputColumns(roomX[:0])
	n := x.Cols
	for _, d := range inputRuns(roomY[:0], lo, hi, g.PadTop, g.KernelH, g.Stride, g.OutH) {
		for _, r := range runs {
			segments := room[:0] // a tap each
			for oy := d.first; oy < d.last; oy++ {
				for ox := r.first; ox < r.last; ox++ {
					ky, kx := d.i+g.PadTop-oy*g.Stride, r.i+g.PadLeft-ox*g.Stride
					segments = append(segments, linalg.Segment{
						A: (ky*g.KernelW + kx) * g.InC * g.OutC,
						B: (oy*g.OutW + ox) * g.OutC * n,
					})
				}
			}
			runPixels(linalg.Contraction[T]{
				Rows: g.InC, Cols: n, Steps: g.OutC,
				C: x.Data, CStart: (d.i*g.InW + r.i) * g.InC * n, CRow: n,
				A: w.Data, ARow: g.OutC, AStep: 1,
				B: delta.Data, BStep: n,
				Segments: segments, Bias: bias.Data,
			}, r.count, g.Stride*g.InC*n, g.OutC*n, d.count, g.Stride*g.InW*g.InC*n, g.OutW*g.OutC*n)
		}
	}
}

// inputOfOne is Input for images of one channel and columns lo to hi-1. A contraction of
// inputRows would have one row, and use each element of δ that it loads for one product.
// Here, the pixels below each other that an output row meets, one through each kernel row,
// are the rows of a contraction, and add up over output rows:
//
//	            kernel row 0 → pixel row top       ⎫
//	output oy   kernel row 1 → pixel row top + 1   ⎬ the rows of C
//	            kernel row 2 → pixel row top + 2   ⎭
//
// The paper's first layer, the generator's last, takes 0.19 ms like this and 0.43 ms by
// inputRows.
func inputOfOne[T linalg.Float](g *Geometry, x, w, delta, bias linalg.Matrix[T], lo, hi int) {
	var room [maxSegments]linalg.Segment
	var runRoom [maxRuns]inputRun
	runs := g.inputColumns(runRoom[:0])
	n := x.Cols
	start := T(0)
	if bias.Data != nil {
		start = bias.Data[0]
	}
	for j := lo; j < hi; j++ {
		x.Data[j] = start
	}
	for i := 1; i < x.Rows; i++ {
		copy(x.Data[i*n+lo:i*n+hi], x.Data[lo:hi])
	}
	for oy := range g.OutH {
		top := oy*g.Stride - g.PadTop // input row of the first kernel row
		from, to := max(0, -top), min(g.KernelH, g.InH-top)
		if from >= to {
			continue
		}
		for _, r := range runs {
			c := linalg.Contraction[T]{
				Rows: to - from, Cols: hi - lo, Steps: g.OutC, Groups: r.count,
				C: x.Data, CStart: ((top+from)*g.InW+r.i)*n + lo, CRow: g.InW * n, CGroup: g.Stride * n,
				A: w.Data, ARow: g.KernelW * g.OutC, AStep: 1,
				B: delta.Data, BStep: n, BGroup: g.OutC * n,
				Segments: room[:0], Add: true,
			}
			for ox := r.first; ox < r.last; ox++ {
				c.Segments = append(c.Segments, linalg.Segment{
					A: (from*g.KernelW + r.i + g.PadLeft - ox*g.Stride) * g.OutC,
					B: (oy*g.OutW+ox)*g.OutC*n + lo,
				})
			}
			if len(c.Segments) > 0 {
				c.Run()
			}
		}
	}
}

// Weight sets w [Taps×OutC] to the gradient of ⟨δ, W ∗ X⟩ in W for δ [Out×B] and
// x [In×B], summed over columns and pixels. scratch has room for δ, which is transposed
// there, pixel by pixel. It panics and costs as Forward does; cores share w's rows.
func Weight[T linalg.Float](g *Geometry, w, delta, x linalg.Matrix[T], scratch []T) {
	weight(g, w, delta, x, scratch, false)
}

// weight is Weight, or adds to w.
func weight[T linalg.Float](g *Geometry, w, delta, x linalg.Matrix[T], scratch []T, add bool) {
	g.mustFit("Weight", delta.Shape(), w.Shape(), x.Shape())
	transposed := linalg.Of(delta.Rows, delta.Cols, scratch[:len(delta.Data)])
	linalg.TransposeBlocks(transposed, delta, g.OutC)
	rows := g.KernelW * g.InC
	grain := rowsPerGrain(rows, g.MultiplyAdds()*x.Cols)
	if linalg.Serial(rows, grain) {
		weightRows(g, w, transposed, x, add, 0, rows)
		return
	}
	linalg.For(rows, grain, func(lo, hi int) { weightRows(g, w, transposed, x, add, lo, hi) })
}

// weightRows computes, or adds to, rows lo to hi-1 of each kernel row from δ, transposed pixel by
// pixel. The products are summed over samples (steps) and pixels (segments). An input row
// meets, through kernel rows a stride apart, output rows next to each other: those kernel
// rows are the groups, from the last, which meets the first output row, to the first. With
// five kernel rows, stride 2 and a row of padding, iy + 1 = ky + 2·oy:
//
//	input row 5   kernel row   4   2   0     group 0, 1, 2: CGroup is two kernel rows up,
//	              output row   1   2   3                    BGroup an output row down
//	input row 6   kernel row   3   1         the other class
//	              output row   2   3
//
// So a row of x is loaded once for all kernel rows of its class, which saves 15 % of the
// first layer's time and none of the others'. Input rows that meet as many output rows as
// the one before are further segments of the same contraction, so that its sums stay in
// registers; others begin the next one. That saves 23 % of the second layer's time, 7 % of
// the third's and none of the first's.
func weightRows[T linalg.Float](g *Geometry, w, delta, x linalg.Matrix[T], add bool, lo, hi int) {
	var room [maxSegments]linalg.Segment
	n, kernelRow := x.Cols, g.KernelW*g.InC*g.OutC
	for ky := 0; ky < g.KernelH && !add; ky++ {
		clear(w.Data[ky*kernelRow+lo*g.OutC : ky*kernelRow+hi*g.OutC])
	}
	for class := range min(g.Stride, g.KernelH) {
		count := (g.KernelH - class + g.Stride - 1) / g.Stride // kernel rows of the class
		for ox := 0; ox < g.OutW; {
			first, last, run := g.runAlongX(ox)
			from, to := max(lo, first*g.InC), min(hi, last*g.InC)
			c := linalg.Contraction[T]{
				Rows: to - from, Cols: g.OutC, Steps: n,
				C: w.Data, CRow: g.OutC, CGroup: -g.Stride * kernelRow,
				A: x.Data, ARow: n, AStep: 1,
				B: delta.Data, BStep: g.OutC, BGroup: g.OutW * g.OutC * n,
				Segments: room[:0], Add: true,
			}
			begin := 0 // the first group; there are none yet, and a Run of none does nothing
			for iy := ((class-g.PadTop)%g.Stride + g.Stride) % g.Stride; iy < g.InH && from < to; iy += g.Stride {
				oy := (iy+g.PadTop-class)/g.Stride - (count - 1) // of group 0
				b, e := max(0, -oy), min(count, g.OutH-oy)
				if b >= e {
					continue
				}
				if b != begin || e-b != c.Groups || len(c.Segments)+run > maxSegments {
					c.Run()
					begin, c.Groups, c.Segments = b, e-b, room[:0]
					c.CStart = (class+(count-1-b)*g.Stride)*kernelRow + from*g.OutC
				}
				for o := ox; o < ox+run; o++ {
					c.Segments = append(c.Segments, linalg.Segment{
						A: ((iy*g.InW+o*g.Stride-g.PadLeft)*g.InC + from) * n,
						B: ((oy+b)*g.OutW + o) * g.OutC * n,
					})
				}
			}
			c.Run()
			ox += run
		}
	}
}

// runAlongX returns the kernel columns, first to last−1, that lie on the image over output
// column ox, and how many columns from there on have the same; runAlongY does so for rows.
func (g *Geometry) runAlongX(ox int) (first, last, run int) {
	return runAlong(ox, g.OutW, g.PadLeft, g.KernelW, g.Stride, g.InW)
}

func (g *Geometry) runAlongY(oy int) (first, last, run int) {
	return runAlong(oy, g.OutH, g.PadTop, g.KernelH, g.Stride, g.InH)
}

func runAlong(o, end, pad, kernel, stride, size int) (first, last, run int) {
	taps := func(o int) (first, last int) {
		start := o*stride - pad
		return max(0, -start), min(kernel, size-start)
	}
	first, last = taps(o)
	for run = 1; o+run < end; run++ {
		if f, l := taps(o + run); f != first || l != last {
			break
		}
	}
	return first, last, run
}

// An inputRun is count input columns or rows, i and each a stride further on, that meet as
// many outputs: i those from first to last−1, the next those an output further on.
type inputRun struct{ i, count, first, last int }

// inputColumns appends the runs that input columns fall into.
func (g *Geometry) inputColumns(runs []inputRun) []inputRun {
	return inputRuns(runs, 0, g.InW, g.PadLeft, g.KernelW, g.Stride, g.OutW)
}

// inputRuns appends the runs that inputs lo to hi−1 of an axis fall into.
func inputRuns(runs []inputRun, lo, hi, pad, kernel, stride, size int) []inputRun {
	for class := range min(stride, hi-lo) {
		start := len(runs)
		for i := lo + class; i < hi; i += stride {
			first, last := outputs(i+pad, kernel, stride, size)
			if len(runs) > start {
				if r := &runs[len(runs)-1]; first == r.first+r.count && last == r.last+r.count {
					r.count++
					continue
				}
			}
			runs = append(runs, inputRun{i, 1, first, last})
		}
	}
	return runs
}

// outputs returns the range of outputs along an axis, first to last−1, that have tap
// d − o·stride on a pixel at distance d from the start of the padding.
func outputs(d, kernel, stride, size int) (first, last int) {
	first = max(0, (d-kernel+stride)/stride) // the least o with d − o·stride < kernel
	return first, max(first, min(size, d/stride+1))
}

// rowsPerGrain returns how many of rows that make work multiply-adds together outweigh
// starting a goroutine.
func rowsPerGrain(rows, work int) int { return max(1, grain*rows/max(1, work)) }

func mustFitBias[T linalg.Float](name string, channels int, bias linalg.Matrix[T]) {
	if bias.Data != nil && bias.Shape() != (linalg.Shape{Rows: channels, Cols: 1}) {
		panic(fmt.Sprintf("conv: %s: bias %v for %d channels, which need [%d×1]", name, bias.Shape(), channels, channels))
	}
}

func (g *Geometry) mustFit(name string, y, w, x linalg.Shape) {
	g.check()
	if y != (linalg.Shape{Rows: g.Out(), Cols: x.Cols}) || w != (linalg.Shape{Rows: g.Taps(), Cols: g.OutC}) || x.Rows != g.In() {
		panic(fmt.Sprintf("conv: %s: output %v, weights %v and input %v do not fit %+v, which needs [%d×B], [%d×%d] and [%d×B]",
			name, y, w, x, *g, g.Out(), g.Taps(), g.OutC, g.In()))
	}
}
