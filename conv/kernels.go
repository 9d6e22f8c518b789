package conv

import (
	"fmt"

	"hvae/linalg"
)

// Forward, Input and Weight loop over pixels and compute matrix products with linalg. Taps on
// padding are skipped. Neighbouring pixels that use the same kernel taps form a run. One
// linalg.Contraction computes a run. Each pixel of the run is a group of the contraction, and
// all groups share the same weights. This drawing shows a row of output pixels in Forward, for a
// kernel with three columns, stride 2 and one column of padding on the left:
//
//	  .  0  1  2  3  4  5  6  7      input columns
//	 [=======]                       output 0: taps 1 and 2; tap 0 is on padding
//	       [=======]                 output 1: all taps
//	             [=======]           output 2: all taps; outputs 1, 2 and 3 form a run
//	                   [=======]     output 3: all taps
//
// Runs also extend down columns. At the left and right edges of an image, runs along a row are
// short, so a contraction computes the pixels of a column instead. This saves 4 % of the time of
// a training step for blocks of 16 samples, and 10 % for blocks of 4 samples, where a vector
// holds four groups.
//
// All other savings stated in this file are savings of time in one of the three functions, for
// one layer of the paper's encoder. Each is computed from the minimum of at least 40 measurements
// with a batch of 100 in float32 on one core with AVX-512. Compared with one contraction for each
// pixel, runs save 5 to 16 % in Forward and 9 to 11 % in Input.

const (
	grain       = 1 << 21 // multiply-adds that are worth a separate goroutine, about 50 µs of work
	maxSegments = 64      // number of segments of a contraction that need no allocation
	maxRuns     = 16      // number of runs of inputs along an axis that need no allocation
)

// Forward sets y to the convolution W ∗ X + bias. The shapes are y [Out×B], w [Taps×OutC],
// x [In×B] and bias [OutC×1] for a batch of B samples. If bias is empty, no bias is added.
// Forward panics and names the shapes if they do not fit g. It performs g.MultiplyAdds()
// multiply-adds for each sample, except on padding, and splits the rows of the output image
// among the cores.
func Forward[T linalg.Float](g *Geometry, y, w, x, bias linalg.Matrix[T]) {
	g.mustFit("Forward", y.Shape(), w.Shape(), x.Shape(), bias.Shape(), g.OutC)
	grain := rowsPerGrain(g.OutH, g.MultiplyAdds()*x.Cols)
	if linalg.Serial(g.OutH, grain) {
		forwardRows(g, y, w, x, bias, 0, g.OutH)
		return
	}
	linalg.For(g.OutH, grain, func(lo, hi int) { forwardRows(g, y, w, x, bias, lo, hi) })
}

// forwardRows performs Forward for rows lo to hi−1 of the output image.
func forwardRows[T linalg.Float](g *Geometry, y, w, x, bias linalg.Matrix[T], lo, hi int) {
	var room [maxSegments]linalg.Segment
	n := x.Cols
	for oy := lo; oy < hi; {
		top, bottom, down := runAlong(oy, g.OutH, g.PadTop, g.KernelH, g.Stride, g.InH)
		down = min(down, hi-oy)
		for ox := 0; ox < g.OutW; {
			first, last, run := runAlong(ox, g.OutW, g.PadLeft, g.KernelW, g.Stride, g.InW)
			segments := room[:0] // one for each kernel row, in which the weights and the pixels are contiguous
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

// runPixels computes a rectangle of across × down pixels, where c is the contraction for the top
// left pixel. Horizontal neighbours are cAcross elements apart in C and bAcross in B; vertical
// neighbours are cDown elements apart in C and bDown in B. Each contraction computes a whole line
// of pixels along the longer side of the rectangle.
func runPixels[T linalg.Float](c linalg.Contraction[T], across, cAcross, bAcross, down, cDown, bDown int) {
	if down > across {
		across, cAcross, bAcross, down, cDown, bDown = down, cDown, bDown, across, cAcross, bAcross
	}
	c.Groups, c.CGroup, c.BGroup = across, cAcross, bAcross
	b := c.B
	for i := range down {
		c.B = b[min(i*bDown, len(b)):] // i·bDown exceeds len(b) only if all taps are on padding
		c.Run()
		c.CStart += cDown
	}
}

// Input sets x to Wᵀ ∗ δ + bias. The shapes are x [In×B], w [Taps×OutC], delta [Out×B] and bias
// [InC×1] for a batch of B samples. If bias is empty, no bias is added. Wᵀ ∗ δ is the transpose of
// the linear map X ↦ W ∗ X, applied to δ. It is the gradient of ⟨δ, W ∗ X⟩ with respect to X, and
// also the upsampling layer of a generative network. Input panics if shapes do not fit g, and
// takes the same time as Forward. It splits the rows of the input image among the cores. If the
// image has only one channel, Input splits the samples instead.
func Input[T linalg.Float](g *Geometry, x, w, delta, bias linalg.Matrix[T]) {
	g.mustFit("Input", delta.Shape(), w.Shape(), x.Shape(), bias.Shape(), g.InC)
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

// inputRows computes rows lo to hi−1 of the input image for Input. Along an axis, tap
// i + pad − o·stride connects input pixel i with output pixel o. Pixels whose distance is a
// multiple of stride therefore use the same taps. The pixels form stride² classes, and each class
// is computed by a convolution with stride 1. With stride 2 and a 5×5 kernel, the 25 taps are
// divided among four classes a, b, c and d by parity (o: odd, e: even):
//
//	pixel column ix     0  1  2  3  4  5  …         pad 1: tap column kx = ix + 1 − 2·ox
//	tap columns         o  e  o  e  o  e            o: 1 and 3,  e: 0, 2 and 4
//
//	pixel row iy  0  o  a  b  a  b  a  b            a: 2·2 taps
//	              1  e  c  d  c  d  c  d            b: 2·3
//	              2  o  a  b  a  b  a  b            c: 3·2
//	              3  e  c  d  c  d  c  d            d: 3·3
//
// One contraction computes the pixels with the same letter in a row or column, except near the
// edges of the image. From one of these pixels to the next, the connected output pixels shift
// by one.
func inputRows[T linalg.Float](g *Geometry, x, w, delta, bias linalg.Matrix[T], lo, hi int) {
	var room [maxSegments]linalg.Segment
	var roomX, roomY [maxRuns]inputRun
	runs := inputRuns(roomX[:0], 0, g.InW, g.PadLeft, g.KernelW, g.Stride, g.OutW)
	n := x.Cols
	for _, d := range inputRuns(roomY[:0], lo, hi, g.PadTop, g.KernelH, g.Stride, g.OutH) {
		for _, r := range runs {
			segments := room[:0] // one for each tap
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

// inputOfOne computes columns lo to hi−1 of x for Input if the image has one channel. In this
// case, inputRows would use contractions with a single row, which use each loaded element of δ
// only once. inputOfOne uses contractions that have one row for each kernel row. Kernel row ky
// connects output row oy with pixel row top + ky, where top = oy·Stride − PadTop. The
// contributions of all output rows are added to x.
//
//	            kernel row 0 → pixel row top       ⎫
//	output oy   kernel row 1 → pixel row top + 1   ⎬ the rows of C
//	            kernel row 2 → pixel row top + 2   ⎭
//
// For the first layer of the paper's encoder, which is the last layer of its generator,
// inputOfOne takes 0.19 ms and inputRows takes 0.43 ms.
func inputOfOne[T linalg.Float](g *Geometry, x, w, delta, bias linalg.Matrix[T], lo, hi int) {
	var room [maxSegments]linalg.Segment
	var runRoom [maxRuns]inputRun
	runs := inputRuns(runRoom[:0], 0, g.InW, g.PadLeft, g.KernelW, g.Stride, g.OutW)
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
		top := oy*g.Stride - g.PadTop // the input row to which the first kernel row belongs
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

// Weight sets w [Taps×OutC] to the gradient of ⟨δ, W ∗ X⟩ with respect to W, which is a sum
// over pixels and samples. The shapes of the operands are delta [Out×B] and x [In×B]. Weight
// transposes the [OutC×B] matrix of each pixel of δ into scratch, which must be at least as
// long as delta.Data. Weight panics if the shapes do not fit g, and takes the same time as
// Forward. It splits the rows of w among the cores.
func Weight[T linalg.Float](g *Geometry, w, delta, x linalg.Matrix[T], scratch []T) {
	weight(g, w, delta, x, scratch, false)
}

// weight is like Weight, but adds the weight gradient to w if add is true.
func weight[T linalg.Float](g *Geometry, w, delta, x linalg.Matrix[T], scratch []T, add bool) {
	g.mustFit("Weight", delta.Shape(), w.Shape(), x.Shape(), linalg.Shape{}, 0)
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

// weightRows computes a part of the weight gradient. Each kernel row consists of KernelW·InC
// rows of w; weightRows sets rows lo to hi−1 of each kernel row, or adds to them if add is true.
// delta contains the transpose of each pixel's [OutC×B] matrix of δ. A contraction sums over
// samples (its steps) and pixels (its segments).
//
// Kernel rows ky, ky + stride, ky + 2·stride, … form a class: they connect one input row with
// successive output rows. The kernel rows of a class are the groups of a contraction, in
// descending order, because the last kernel row belongs to the first output row. With five kernel rows, stride 2 and one row
// of padding, input row iy, kernel row ky and output row oy satisfy iy + 1 = ky + 2·oy:
//
//	input row 5   kernel row   4   2   0     group 0, 1, 2: CGroup is two kernel rows up,
//	              output row   1   2   3                    BGroup an output row down
//	input row 6   kernel row   3   1         the other class
//	              output row   2   3
//
// A row of x is thus loaded once for all kernel rows of a class. This saves 15 % of the time for
// the encoder's first layer and nothing for its other layers. If an input row has the same groups
// as the previous input row of its class, its segments are added to the same contraction, so that
// sums stay in registers. This saves 23 % for the second layer, 7 % for the third and nothing for
// the first.
func weightRows[T linalg.Float](g *Geometry, w, delta, x linalg.Matrix[T], add bool, lo, hi int) {
	var room [maxSegments]linalg.Segment
	n, kernelRow := x.Cols, g.KernelW*g.InC*g.OutC
	for ky := 0; ky < g.KernelH && !add; ky++ {
		clear(w.Data[ky*kernelRow+lo*g.OutC : ky*kernelRow+hi*g.OutC])
	}
	for class := range min(g.Stride, g.KernelH) {
		count := (g.KernelH - class + g.Stride - 1) / g.Stride // number of kernel rows in the class
		for ox := 0; ox < g.OutW; {
			first, last, run := runAlong(ox, g.OutW, g.PadLeft, g.KernelW, g.Stride, g.InW)
			from, to := max(lo, first*g.InC), min(hi, last*g.InC)
			c := linalg.Contraction[T]{
				Rows: to - from, Cols: g.OutC, Steps: n,
				C: w.Data, CRow: g.OutC, CGroup: -g.Stride * kernelRow,
				A: x.Data, ARow: n, AStep: 1,
				B: delta.Data, BStep: g.OutC, BGroup: g.OutW * g.OutC * n,
				Segments: room[:0], Add: true,
			}
			begin := 0 // first group of c; c has no groups yet, so the first Run does nothing
			for iy := ((class-g.PadTop)%g.Stride + g.Stride) % g.Stride; iy < g.InH && from < to; iy += g.Stride {
				oy := (iy+g.PadTop-class)/g.Stride - (count - 1) // output row of group 0
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

// runAlong returns the kernel taps along an axis, first to last−1, that lie on the image and not
// on padding for output pixel o. run is the number of successive output pixels, from o to at most
// end−1, that use the same taps.
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

// An inputRun is a sequence of count input columns or rows with indices i, i + stride,
// i + 2·stride, …. The first of them is connected with outputs first to last−1, the second with
// outputs first+1 to last, and so on.
type inputRun struct{ i, count, first, last int }

// inputRuns divides the input columns or rows lo to hi−1 into runs and appends them to the slice
// runs.
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

// outputs returns the range of output pixels o along an axis, first to last−1, that are connected
// with input pixel d − pad, where pad is the padding before the image. Tap d − o·stride connects
// them.
func outputs(d, kernel, stride, size int) (first, last int) {
	first = max(0, (d-kernel+stride)/stride) // the smallest o with d − o·stride < kernel
	return first, max(first, min(size, d/stride+1))
}

// rowsPerGrain returns the number of rows that are worth a separate goroutine, given that all
// rows together take work multiply-adds.
func rowsPerGrain(rows, work int) int { return max(1, grain*rows/max(1, work)) }

// mustFit panics unless the shapes of the operands of function name fit g. bias must be empty or
// have one row for each of the given number of channels.
func (g *Geometry) mustFit(name string, y, w, x, bias linalg.Shape, channels int) {
	g.check()
	if y != (linalg.Shape{Rows: g.Out(), Cols: x.Cols}) || w != (linalg.Shape{Rows: g.Taps(), Cols: g.OutC}) || x.Rows != g.In() {
		panic(fmt.Sprintf("conv: %s: output %v, weights %v and input %v do not fit %+v, which needs [%d×B], [%d×%d] and [%d×B]",
			name, y, w, x, *g, g.Out(), g.Taps(), g.OutC, g.In()))
	}
	if bias != (linalg.Shape{}) && bias != (linalg.Shape{Rows: channels, Cols: 1}) {
		panic(fmt.Sprintf("conv: %s: bias %v for %d channels, which need [%d×1]", name, bias, channels, channels))
	}
}
