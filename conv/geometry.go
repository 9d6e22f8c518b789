// Package conv implements the strided convolution of image layers, its transpose and its
// weight gradient.
//
// A layer is a matrix with one column for each sample and one row for each channel of each
// pixel. In an image of width W with C channels, channel c of pixel (y, x) is row
// (y·W + x)·C + c. The functions Forward, Input and Weight compute the gradients of the
// trilinear form
//
//	⟨δ, W ∗ X⟩
//
// with respect to the output gradient δ, the input X and the weights W. Each function is
// bilinear in the other two variables, so its derivatives of any order are again computed by
// these three functions.
//
// Start with Geometry in this file. kernels.go contains the three functions, and ops.go
// contains the corresponding operations on a tape. The package imports ad and linalg.
package conv

import "fmt"

// A Geometry describes the sizes, stride and padding of a convolution. A tap (ky, kx) is a
// position in the kernel. Output pixel (oy, ox) is the sum over all taps of the weights of the
// tap times the input pixel
//
//	(oy·Stride + ky − PadTop, ox·Stride + kx − PadLeft).
//
// Input pixels outside the image are zero. All sizes must be positive, and paddings must not
// be negative. The padding at the bottom and on the right follows from the size of the output.
type Geometry struct {
	InH, InW, InC    int // height, width and channels of the input
	OutH, OutW, OutC int // height, width and channels of the output
	KernelH, KernelW int
	Stride           int
	PadTop, PadLeft  int
}

// Same returns the geometry of a convolution with a square kernel and TensorFlow's SAME
// padding. The output has ⌈size/stride⌉ pixels along each axis. The required padding is split
// evenly between both sides; if it is odd, the top or left side gets one pixel less. Same
// panics unless all sizes are positive.
func Same(inH, inW, inC, outC, kernel, stride int) Geometry {
	outH, top := same(inH, kernel, stride)
	outW, left := same(inW, kernel, stride)
	g := Geometry{
		InH: inH, InW: inW, InC: inC, OutH: outH, OutW: outW, OutC: outC,
		KernelH: kernel, KernelW: kernel, Stride: stride, PadTop: top, PadLeft: left,
	}
	g.check()
	return g
}

func same(size, kernel, stride int) (out, before int) {
	if size < 1 || kernel < 1 || stride < 1 {
		panic(fmt.Sprintf("conv: Same: size %d, kernel %d and stride %d must be positive", size, kernel, stride))
	}
	out = (size + stride - 1) / stride
	return out, max(0, (out-1)*stride+kernel-size) / 2
}

// In returns the number of rows of the input layer, InH·InW·InC.
func (g *Geometry) In() int { return g.InH * g.InW * g.InC }

// Out returns the number of rows of the output layer, OutH·OutW·OutC.
func (g *Geometry) Out() int { return g.OutH * g.OutW * g.OutC }

// Taps returns the number of weights for each output channel, KernelH·KernelW·InC. Weights are
// stored as a matrix [Taps×OutC], in which row (ky·KernelW + kx)·InC + c belongs to tap (ky, kx)
// of input channel c.
func (g *Geometry) Taps() int { return g.KernelH * g.KernelW * g.InC }

// MultiplyAdds returns the number of multiply-adds that Forward, Input or Weight performs for
// one sample, where multiply-adds on padding are also counted.
func (g *Geometry) MultiplyAdds() int { return g.OutH * g.OutW * g.OutC * g.Taps() }

func (g *Geometry) check() {
	if min(g.InH, g.InW, g.InC, g.OutH, g.OutW, g.OutC, g.KernelH, g.KernelW, g.Stride) < 1 || min(g.PadTop, g.PadLeft) < 0 {
		panic(fmt.Sprintf("conv: impossible geometry %+v", *g))
	}
}
