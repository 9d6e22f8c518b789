// Package conv is the strided convolution of image layers as a linear map on columns,
// its transpose and its weight gradient.
//
// A layer is a matrix whose columns are samples and whose rows are (pixel, channel):
// the row of channel c at (y, x) is (y·W + x)·C + c. With Y = W ∗ X, the trilinear form
//
//	⟨δ, W ∗ X⟩
//
// has three gradients, and they are the package's three operations: Forward (in δ),
// Input (in X) and Weight (in W). Each is bilinear in the other two, so the derivatives
// of any of them are the other two, to any order.
//
// Start with Geometry in this file, then kernels.go (the three maps) and ops.go (the
// same on the tape).
//
// The package imports ad and linalg.
package conv

import "fmt"

// A Geometry is the shape of a convolution. Output pixel (oy, ox) is the sum over kernel
// taps (ky, kx) of the weights of the tap times input pixel
//
//	(oy·Stride + ky − PadTop, ox·Stride + kx − PadLeft),
//
// or nothing where that is outside the image. All sizes are positive, paddings not negative;
// of padding below and on the right there is as much as the output takes.
type Geometry struct {
	InH, InW, InC    int // input image and channels
	OutH, OutW, OutC int // output image and channels
	KernelH, KernelW int
	Stride           int
	PadTop, PadLeft  int
}

// Same returns the geometry of TensorFlow's SAME padding for a square kernel: the output
// has ⌈size/stride⌉ pixels along each axis, and of the padding that this takes, the
// smaller half comes first. It panics unless all sizes are positive.
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

// In returns the number of rows of an input.
func (g *Geometry) In() int { return g.InH * g.InW * g.InC }

// Out returns the number of rows of an output.
func (g *Geometry) Out() int { return g.OutH * g.OutW * g.OutC }

// Taps returns the number of weights of an output channel. Weights are a matrix
// [Taps × OutC]; tap (ky, kx) of input channel c is in row (ky·KernelW + kx)·InC + c.
func (g *Geometry) Taps() int { return g.KernelH * g.KernelW * g.InC }

// MultiplyAdds returns the multiply-adds of a sample in each of the three maps, those on
// padding included.
func (g *Geometry) MultiplyAdds() int { return g.OutH * g.OutW * g.OutC * g.Taps() }

func (g *Geometry) check() {
	if min(g.InH, g.InW, g.InC, g.OutH, g.OutW, g.OutC, g.KernelH, g.KernelW, g.Stride) < 1 || min(g.PadTop, g.PadLeft) < 0 {
		panic(fmt.Sprintf("conv: impossible geometry %+v", *g))
	}
}
