// Package bench contains benchmarks of training, evaluation and their kernels; go test -run '^$' -bench . ./bench runs
// them. The subfolders contain packages that the gaussian and mnist programs share: command (command line and files),
// progress (remaining time) and plot (charts).
package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"hvae/ad"
	"hvae/conv"
	"hvae/gaussian/model"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	mnist "hvae/mnist/model"
)

// BenchmarkGaussian measures an optimiser step of HVAE (K = 10) in the Gaussian experiment, in 1 to 301 dimensions.
func BenchmarkGaussian(b *testing.B) {
	for _, d := range []int{1, 11, 50, 101, 301} {
		b.Run(strconv.Itoa(d), func(b *testing.B) {
			data := model.Draw(model.Truth(d), 10000, random.Stream(1, "data"))
			method := model.NewMethod("hvae-k10", data, random.Stream(1, "start"))
			measureSteps(b, model.NewTrainer(method, 1e-3, 1), hvae.Draws(10), 0)
		})
	}
}

// measure reports the time per call to f, and the rate in GFLOP/s and as a percentage of the peak. It does not time the
// first two calls, which allocate memory. The argument flops is the number of operations per call, or 0 for no rate.
func measure(b *testing.B, flops float64, f func()) {
	for range 2 {
		f()
	}
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
	if flops == 0 {
		return
	}
	rate := flops * float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate/1e9, "GFLOP/s")
	if p := peak(); p > 0 {
		b.ReportMetric(100*rate/p, "%peak")
	}
}

func measureSteps[T linalg.Float](b *testing.B, t *hvae.Trainer[T], batch hvae.Batch, flops float64) {
	measure(b, flops, func() {
		if _, err := t.Step(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	})
}

// normal returns a matrix of draws from N(0, 1). The draws are the same in every run.
func normal[T linalg.Float](rows, cols int) linalg.Matrix[T] {
	m := linalg.New[T](rows, cols)
	random.FillNormal(random.Stream(1, "normal", rows, cols), m)
	return m
}

// binary returns a matrix of random pixels, each 0 or 1. The pixels are the same in every run.
func binary(rows, cols int) linalg.Matrix[float32] {
	m, rng := linalg.New[float32](rows, cols), random.Stream(1, "binary")
	for i := range m.Data {
		m.Data[i] = float32(rng.IntN(8) / 7)
	}
	return m
}

// columns returns a batch of columns 0 to n−1 of the data, in random order as in training.
func columns(n int) hvae.Batch { return random.Stream(1, "columns").Perm(n) }

// BenchmarkGEMM measures products of float32 matrices [m×k] and [k×n] on all cores. The sizes m×n×k are 1024×1024×1024,
// the sizes of two layers of the MNIST model, and three small sizes for which the product is a single AVX-512 tile and
// the operands stay in the first-level cache.
func BenchmarkGEMM(b *testing.B) {
	for _, s := range []struct{ m, n, k int }{
		{8, 48, 192}, {8, 48, 32}, {16, 16, 192}, {450, 100, 64}, {512, 100, 450}, {1024, 1024, 1024},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k), func(b *testing.B) {
			x, y, z := normal[float32](s.m, s.k), normal[float32](s.k, s.n), linalg.New[float32](s.m, s.n)
			measure(b, 2*float64(s.m*s.n*s.k), func() { linalg.MatMul(z, x, y) })
		})
	}
}

func hvaeOf(K int) mnist.Config {
	return mnist.Config{Kind: "hvae", K: K, Tempering: "free", VaryEps: true, Latent: 64}
}

// BenchmarkTrainStep measures one optimiser step for each of several MNIST models, in float32 on all cores with batch
// size 100. The reported rate excludes operations that are repeated because of the -recompute flag.
func BenchmarkTrainStep(b *testing.B) {
	s := mnist.Defaults()
	b.Run("VAE", func(b *testing.B) { trainStep(b, s) })
	for _, K := range []int{1, 5, 10, 20} {
		s.Config = hvaeOf(K)
		b.Run(fmt.Sprintf("HVAE-K%d", K), func(b *testing.B) { trainStep(b, s) })
	}
	s.Config, s.Recompute = hvaeOf(10), true
	b.Run("HVAE-K10-recompute", func(b *testing.B) { trainStep(b, s) })
}

func trainStep(b *testing.B, s mnist.Settings) {
	images := binary(100, 784) // as rows
	pixels := func(x linalg.Matrix[float32], j, image int, _ *rand.Rand) {
		for i, v := range images.Row(image) {
			x.Data[i*x.Cols+j] = v
		}
	}
	n := mnist.New[float32](s.Config, -2, 1)
	t := mnist.NewTrainer(s, n, mnist.Bound(s, n, pixels))
	t.BlockSize = s.BlockSize(100)
	measureSteps(b, t, columns(100), 2*100*float64(s.StepCost()))
}

// BenchmarkLeapfrog measures a flow of one leapfrog step in an MNIST model, on all cores with batch size 100, as in an
// evaluation. The flow computes two gradients of the potential energy. A gradient takes twice as many multiply-adds as
// a pass through the decoder. A pass takes 1,117,456 multiply-adds per sample, not counting multiplications by padding.
func BenchmarkLeapfrog(b *testing.B) {
	model := mnist.New[float32](hvaeOf(1), -2, 1)
	images, z, rho := binary(784, 100), normal[float32](64, 100), normal[float32](64, 100)
	var tape ad.Tape[float32]
	measure(b, 2*100*2*2*1_117_456, func() {
		tape.Reset()
		n := model.Const(&tape)
		n.Flow(tape.Const(images)).Forward(hvae.Phase[float32]{Z: tape.Const(z), Rho: tape.Const(rho)})
	})
}

// BenchmarkConv measures the forward pass, the input gradient and the weight gradient of each convolution of the MNIST
// encoder on all cores with batch size 100. The program torch_operations.py measures these operations, and three sizes
// of BenchmarkGEMM, in PyTorch.
func BenchmarkConv(b *testing.B) {
	convolution := func(name string, g conv.Geometry) {
		var tape ad.Tape[float32]
		w, x, delta := normal[float32](g.Taps(), g.OutC), normal[float32](g.In(), 100), normal[float32](g.Out(), 100)
		run := func(direction string, f func()) {
			b.Run(name+"/"+direction, func(b *testing.B) {
				measure(b, 2*100*float64(g.MultiplyAdds()), func() {
					tape.Reset()
					f()
				})
			})
		}
		run("forward", func() { conv.Conv(&g, tape.Const(w), tape.Const(x), nil) })
		run("dinput", func() { conv.Transpose(&g, tape.Const(w), tape.Const(delta), nil) })
		run("dweight", func() { conv.WeightGradient(&g, tape.Const(delta), tape.Const(x)) })
	}
	convolution("28to14", conv.Same(28, 28, 1, 16, 5, 2))
	convolution("14to7", conv.Same(14, 14, 16, 32, 5, 2))
	convolution("7to4", conv.Same(7, 7, 32, 32, 5, 2))
}

// BenchmarkPeak measures the peak rate of float32 multiply-adds on all cores.
func BenchmarkPeak(b *testing.B) {
	for b.Loop() {
	}
	b.ReportMetric(peak()/1e9, "GFLOP/s")
}

var peaks = map[int]float64{} // by GOMAXPROCS

// peak returns the peak rate of float32 multiply-adds in FLOP/s, where a multiply-add counts as two operations. It
// times GOMAXPROCS goroutines that compute in registers, with the widest vectors that linalg uses. The result is the
// best of five measurements of about 0.1 s each, because the operating system needs time to spread the goroutines over
// the cores. Without SIMD instructions, peak returns 0.
func peak() float64 {
	const rounds = 10 << 20
	n := runtime.GOMAXPROCS(0)
	if _, measured := peaks[n]; measured {
		return peaks[n]
	}
	for range 5 {
		start := time.Now()
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { linalg.PeakLoop(rounds) })
		}
		wg.Wait()
		peaks[n] = max(peaks[n], float64(n*rounds*linalg.PeakLoop(1))/time.Since(start).Seconds())
	}
	return peaks[n]
}
