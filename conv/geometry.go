// Package conv implements the strided convolution of image layers, its transpose and its
// weight gradient.
//
// A layer is a matrix whose columns are samples and whose rows are (pixel, channel):
// channel c of pixel (y, x) is row (y·W + x)·C + c. The package's three functions are the
// gradients of the trilinear form
//
//	⟨δ, W ∗ X⟩
//
// with respect to δ (Forward), X (Input) and W (Weight). Each is bilinear in the other two
// variables, so derivatives of any order are again one of the three.
//
// Start with Geometry in this file. kernels.go contains the three functions, and ops.go the
// corresponding operations on a tape. The package imports ad and linalg.
package conv

import "fmt"

// A Geometry is the shape of a convolution. Output pixel (oy, ox) is the sum over kernel
// taps (ky, kx) of the weights of the tap times input pixel
//
//	(oy·Stride + ky − PadTop, ox·Stride + kx − PadLeft),
//
// which is zero outside the image. All sizes must be positive and paddings must not be
// negative. The padding at the bottom and on the right follows from the size of the output.
type Geometry struct {
	InH, InW, InC    int // input image and channels
	OutH, OutW, OutC int // output image and channels
	KernelH, KernelW int
	Stride           int
	PadTop, PadLeft  int
}

// Same returns the geometry of TensorFlow's SAME padding for a square kernel. The output
// has ⌈size/stride⌉ pixels along each axis. The required padding is split evenly between
// both sides; if it is odd, the first side has the smaller part. Same panics unless all
// sizes are positive.
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

// In returns the number of rows of the input.
func (g *Geometry) In() int { return g.InH * g.InW * g.InC }

// Out returns the number of rows of the output.
func (g *Geometry) Out() int { return g.OutH * g.OutW * g.OutC }

// Taps returns the number of weights for each output channel. Weights are a matrix
// [Taps × OutC]; row (ky·KernelW + kx)·InC + c is tap (ky, kx) of input channel c.
func (g *Geometry) Taps() int { return g.KernelH * g.KernelW * g.InC }

// MultiplyAdds returns the number of multiply-adds for one sample in each of the three
// functions, including those on padding.
func (g *Geometry) MultiplyAdds() int { return g.OutH * g.OutW * g.OutC * g.Taps() }

func (g *Geometry) check() {
	if min(g.InH, g.InW, g.InC, g.OutH, g.OutW, g.OutC, g.KernelH, g.KernelW, g.Stride) < 1 || min(g.PadTop, g.PadLeft) < 0 {
		panic(fmt.Sprintf("conv: impossible geometry %+v", *g))
	}
}
