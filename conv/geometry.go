// Package conv implements strided convolutions of images, transposed convolutions and the gradient
// with respect to the weights.
//
// A batch of images is a matrix with one column for each image and one row for each channel of each
// pixel. In an image of width W with C channels, channel c of pixel (y, x) is row (y·W + x)·C + c.
// The functions Forward, Input and Weight compute the gradients of the trilinear form
//
//	⟨δ, W ∗ X⟩
//
// with respect to the output gradient δ, the input X and the weights W. Each gradient is bilinear
// in the other two variables. Derivatives of any order can therefore be computed with the same
// three functions.
//
// Start with Geometry in this file. kernels.go contains the three functions, and ops.go contains
// the corresponding operations on a tape.
package conv

import "fmt"

// A Geometry describes the sizes, stride and padding of a convolution. A tap (ky, kx) is a position
// in the kernel. Output pixel (oy, ox) is the sum over all taps of
//
//	weights of tap (ky, kx) · input pixel (oy·Stride + ky − PadTop, ox·Stride + kx − PadLeft).
//
// Input pixels outside the image are zero. All sizes must be positive, and paddings must not be
// negative. The padding at the bottom and on the right follows from the sizes of input and output.
type Geometry struct {
	InH, InW, InC    int // height, width and channels of the input
	OutH, OutW, OutC int // height, width and channels of the output
	KernelH, KernelW int
	Stride           int
	PadTop, PadLeft  int
}

// Same returns the geometry of a convolution with a square kernel and TensorFlow's SAME padding.
// The output has ⌈size/stride⌉ pixels along each axis. The padding is split evenly between opposite
// sides. If the padding is odd, the bottom or right side gets one more pixel. Same panics unless
// all arguments are positive.
func Same(inH, inW, inC, outC, kernel, stride int) Geometry {
	if min(inH, inW, inC, outC, kernel, stride) < 1 {
		panic(fmt.Sprintf("conv: Same(%d, %d, %d, %d, %d, %d): all arguments must be positive", inH, inW, inC, outC, kernel, stride))
	}
	outH, top := same(inH, kernel, stride)
	outW, left := same(inW, kernel, stride)
	return Geometry{
		InH: inH, InW: inW, InC: inC, OutH: outH, OutW: outW, OutC: outC,
		KernelH: kernel, KernelW: kernel, Stride: stride, PadTop: top, PadLeft: left,
	}
}

// same returns, for padding SAME, the output size along an axis, ⌈size/stride⌉, and the padding
// before the first pixel.
func same(size, kernel, stride int) (out, before int) {
	out = (size + stride - 1) / stride
	return out, max(0, (out-1)*stride+kernel-size) / 2
}

// In returns the number of elements of an input image, InH·InW·InC. A batch of B input images is a
// matrix [In×B].
func (g *Geometry) In() int { return g.InH * g.InW * g.InC }

// Out returns the number of elements of an output image, OutH·OutW·OutC. A batch of B output images
// is a matrix [Out×B].
func (g *Geometry) Out() int { return g.OutH * g.OutW * g.OutC }

// Taps returns the number of weights for each output channel, KernelH·KernelW·InC. The weights are
// a matrix [Taps×OutC]. Its row (ky·KernelW + kx)·InC + c contains the weights for kernel position
// (ky, kx) and input channel c.
func (g *Geometry) Taps() int { return g.KernelH * g.KernelW * g.InC }

// MultiplyAdds returns the number of multiply-adds for one sample in Forward, Input or Weight. The
// number includes multiply-adds on padding, although these functions skip padding.
func (g *Geometry) MultiplyAdds() int { return g.OutH * g.OutW * g.OutC * g.Taps() }

// An axis is the vertical or horizontal part of a Geometry. Kernel position k, called a tap,
// connects output pixel o with input pixel i if o·stride + k = i + pad.
type axis struct{ in, out, kernel, stride, pad int }

func (g *Geometry) vertical() axis   { return axis{g.InH, g.OutH, g.KernelH, g.Stride, g.PadTop} }
func (g *Geometry) horizontal() axis { return axis{g.InW, g.OutW, g.KernelW, g.Stride, g.PadLeft} }

// taps returns the range of kernel positions, first to last−1, that connect output pixel o with
// pixels of the input image. Other kernel positions are on padding.
func (a axis) taps(o int) (first, last int) {
	start := o*a.stride - a.pad
	return max(0, -start), min(a.kernel, a.in-start)
}

// outputs returns the range of output pixels, first to last−1, that depend on input pixel i.
func (a axis) outputs(i int) (first, last int) {
	d := i + a.pad
	first = max(0, (d-a.kernel+a.stride)/a.stride) // the smallest o with d − o·stride < kernel
	return first, max(first, min(a.out, d/a.stride+1))
}

// A run is a sequence of count pixels along an axis that one contraction computes. It starts at the
// given pixel. In a run of output pixels, the first pixel uses taps first to last−1. In a run of
// input pixels, output pixels first to last−1 depend on the first pixel.
type run struct{ pixel, count, first, last int }

// outputRuns divides output pixels lo to hi−1 into runs and appends the runs to list. A run
// consists of neighbouring pixels with the same taps.
func outputRuns(list []run, a axis, lo, hi int) []run {
	return runs(list, lo, hi, 1, 0, a.taps)
}

// inputRuns divides input pixels lo to hi−1 into runs and appends the runs to list. A run consists
// of pixels i + j·stride for j = 0, 1, 2, …, such that output pixels first + j to last−1 + j depend
// on pixel i + j·stride.
func inputRuns(list []run, a axis, lo, hi int) []run {
	return runs(list, lo, hi, a.stride, 1, a.outputs)
}

// runs divides pixels lo to hi−1 into runs and appends the runs to list. Each pixel has a range,
// rangeOf(pixel). In a run, the ranges move by a constant number of elements, shift, from each
// pixel to the next. A run with the first pixel i and its range (first, last) consists of pixels
//
//	i + j·distance for j = 0, 1, 2, …, such that rangeOf(i + j·distance) = (first + j·shift, last + j·shift).
func runs(list []run, lo, hi, distance, shift int, rangeOf func(pixel int) (first, last int)) []run {
	for start := lo; start < min(lo+distance, hi); start++ {
		n := len(list)
		for pixel := start; pixel < hi; pixel += distance {
			first, last := rangeOf(pixel)
			if len(list) > n {
				if r := &list[len(list)-1]; first == r.first+r.count*shift && last == r.last+r.count*shift {
					r.count++
					continue
				}
			}
			list = append(list, run{pixel, 1, first, last})
		}
	}
	return list
}
