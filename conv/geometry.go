// Package conv implements strided convolutions of images, transposed convolutions and weight gradients.
//
// A batch of B images is a matrix with B columns. Channel c of pixel (y, x) is row (y·width + x)·channels + c. For
// weights W, input images X and a matrix δ with the shape of the output, three operations compute the gradients of
// the inner product ⟨δ, W ∗ X⟩, where W ∗ X is the convolution:
//
//	Conv             W ∗ X     the gradient with respect to δ
//	Transpose        Wᵀ ∗ δ    the gradient with respect to X
//	WeightGradient             the gradient with respect to W
//
// Each gradient is linear in each of the two variables on which it depends, so derivatives of any order need only these
// three operations.
//
// Start with Geometry in this file. The file ops.go contains the operations and their differentiation rule, and
// kernels.go contains the functions that compute the values of the operations.
package conv

import "fmt"

// A Geometry describes the sizes, stride and padding of a convolution. The positions (ky, kx) in the kernel are called
// taps. Output pixel (oy, ox) is the sum over all taps of
//
//	weights of tap (ky, kx) · input pixel (oy·Stride + ky − PadTop, ox·Stride + kx − PadLeft).
//
// Input pixels outside the image are zero (padding). All sizes must be positive, and paddings must not be negative.
// Each output pixel must depend on at least one input pixel, which limits PadTop, PadLeft, OutH and OutW. The padding
// at the bottom and on the right follows from the sizes of input and output.
type Geometry struct {
	InH, InW, InC    int // height, width and channels of the input
	OutH, OutW, OutC int // height, width and channels of the output
	KernelH, KernelW int
	Stride           int
	PadTop, PadLeft  int
}

// Same returns the geometry of a convolution with a square kernel and TensorFlow's SAME padding. The output has
// ⌈size/stride⌉ pixels along each axis. If the padding along an axis is odd, the bottom or right side gets the extra
// pixel. Same panics unless all arguments are positive.
func Same(inH, inW, inC, outC, kernel, stride int) Geometry {
	if min(inH, inW, inC, outC, kernel, stride) < 1 {
		panic(fmt.Sprintf("conv: Same(%d, %d, %d, %d, %d, %d): all arguments must be positive",
			inH, inW, inC, outC, kernel, stride))
	}
	same := func(size int) (out, before int) {
		out = (size + stride - 1) / stride
		return out, max(0, (out-1)*stride+kernel-size) / 2
	}
	outH, top := same(inH)
	outW, left := same(inW)
	return Geometry{
		InH: inH, InW: inW, InC: inC, OutH: outH, OutW: outW, OutC: outC,
		KernelH: kernel, KernelW: kernel, Stride: stride, PadTop: top, PadLeft: left,
	}
}

// In returns InH·InW·InC, the number of elements in an input image. B images form a matrix [In×B].
func (g *Geometry) In() int { return g.InH * g.InW * g.InC }

// Out returns OutH·OutW·OutC, the number of elements in an output image. B images form a matrix [Out×B].
func (g *Geometry) Out() int { return g.OutH * g.OutW * g.OutC }

// Taps returns KernelH·KernelW·InC, the number of taps times the number of input channels. The weights are a matrix
// [Taps×OutC]. Row (ky·KernelW + kx)·InC + c holds the weights of tap (ky, kx) for input channel c.
func (g *Geometry) Taps() int { return g.KernelH * g.KernelW * g.InC }

// MultiplyAdds returns the number of multiply-adds per image. It is the same for a convolution, its transpose and each
// of their gradients. Taps that fall on padding are not counted.
func (g *Geometry) MultiplyAdds() int {
	return g.vertical().connections() * g.horizontal().connections() * g.InC * g.OutC
}

// check panics if the geometry is invalid. The panic message contains name, the name of the operation.
func (g *Geometry) check(name string) {
	valid := min(g.InH, g.InW, g.InC, g.OutH, g.OutW, g.OutC, g.KernelH, g.KernelW, g.Stride, g.PadTop+1, g.PadLeft+1) > 0
	for _, a := range []axis{g.vertical(), g.horizontal()} {
		valid = valid && a.pad < a.kernel && a.out <= (a.in-1+a.pad)/a.stride+1
	}
	if !valid {
		panic(fmt.Sprintf("conv: %s: invalid geometry %+v: sizes and stride must be positive, padding at least 0 and less "+
			"than the kernel, and OutH and OutW so small that no output depends only on padding", name, *g))
	}
}

// An axis is the vertical or horizontal part of a Geometry. Along an axis, tap k connects output pixel o to input pixel
// i if o·stride + k = i + pad.
type axis struct{ in, out, kernel, stride, pad int }

func (g *Geometry) vertical() axis   { return axis{g.InH, g.OutH, g.KernelH, g.Stride, g.PadTop} }
func (g *Geometry) horizontal() axis { return axis{g.InW, g.OutW, g.KernelW, g.Stride, g.PadLeft} }

// taps returns the range [first, last) of taps of output pixel o that fall on input pixels rather than on padding.
func (a axis) taps(o int) (first, last int) {
	start := o*a.stride - a.pad
	return max(0, -start), min(a.kernel, a.in-start)
}

// connections returns the number of taps that do not fall on padding, summed over all output pixels.
func (a axis) connections() (n int) {
	for o := range a.out {
		first, last := a.taps(o)
		n += last - first
	}
	return n
}

// outputs returns the range [first, last) of output pixels that depend on input pixel i.
func (a axis) outputs(i int) (first, last int) {
	d := i + a.pad
	first = max(0, (d-a.kernel+a.stride)/a.stride) // the smallest o with d − o·stride < kernel
	return first, max(first, min(a.out, d/a.stride+1))
}

// A run is a sequence of pixels along an axis that are computed together (see kernels.go). The field count is the
// number of pixels, and the field pixel is the index of the first one. In a run of output pixels, [first, last) is the
// range of the first pixel's taps. In a run of input pixels, it is the range of output pixels that depend on the first
// pixel.
type run struct{ pixel, count, first, last int }

// outputRuns divides output pixels lo to hi−1 into runs and appends the runs to dst. The pixels of a run are neighbours
// with the same taps.
func outputRuns(dst []run, a axis, lo, hi int) []run { return runs(dst, lo, hi, 1, 0, a.taps) }

// inputRuns divides input pixels lo to hi−1 into runs and appends the runs to dst. The pixels of a run are a.stride
// apart. If output pixels first to last−1 depend on a pixel of a run, output pixels first+1 to last depend on the next
// pixel of the run.
func inputRuns(dst []run, a axis, lo, hi int) []run { return runs(dst, lo, hi, a.stride, 1, a.outputs) }

// runs divides pixels lo to hi−1 into runs and appends the runs to dst. The pixels of a run are i, i + distance, i +
// 2·distance, and so on. From each pixel of a run to the next, both results of rangeOf increase by shift. Each run is
// as long as possible.
func runs(dst []run, lo, hi, distance, shift int, rangeOf func(pixel int) (first, last int)) []run {
	for start := lo; start < min(lo+distance, hi); start++ {
		begin := len(dst)
		for pixel := start; pixel < hi; pixel += distance {
			first, last := rangeOf(pixel)
			if n := len(dst); n > begin {
				if r := &dst[n-1]; first == r.first+r.count*shift && last == r.last+r.count*shift {
					r.count++
					continue
				}
			}
			dst = append(dst, run{pixel, 1, first, last})
		}
	}
	return dst
}
