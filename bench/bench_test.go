package bench

import (
	"fmt"
	"io"
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
	"hvae/mnist/eval"
	mnist "hvae/mnist/model"
)

// BenchmarkGaussian measures one optimiser step of the tempered HVAE with K = 10 in the Gaussian experiment, in 1 to 301
// dimensions.
func BenchmarkGaussian(b *testing.B) {
	for _, d := range []int{1, 11, 50, 101, 301} {
		b.Run(strconv.Itoa(d), func(b *testing.B) {
			data, err := model.Draw(b.Context(), model.Truth(d), 10000, random.Stream(1, "data"))
			if err != nil {
				b.Fatal(err)
			}
			t := model.NewTrainer(model.NewMethod("hvae-k10", data, random.Stream(1, "start")), 1e-3, 1)
			repeat(b, func() error {
				_, err := t.Step(b.Context(), hvae.Draws(10))
				return err
			})
		})
	}
}

// repeat measures calls to step. It does not measure the first two calls, because they allocate memory.
func repeat(b *testing.B, step func() error) {
	for range 2 {
		step()
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := step(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGEMM measures products of float32 matrices [m×k] and [k×n] on all cores. The sizes m×n×k are 1024×1024×1024,
// two layers of the MNIST model, and three single tiles with AVX-512, whose operands stay in the first-level cache.
func BenchmarkGEMM(b *testing.B) {
	for _, s := range []struct{ m, n, k int }{
		{8, 48, 192}, {8, 48, 32}, {16, 16, 192}, {450, 100, 64}, {512, 100, 450}, {1024, 1024, 1024},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k), func(b *testing.B) {
			rng := random.Stream(1, "gemm")
			x, y, z := linalg.New[float32](s.m, s.k), linalg.New[float32](s.k, s.n), linalg.New[float32](s.m, s.n)
			random.FillNormal(rng, x)
			random.FillNormal(rng, y)
			b.ReportAllocs()
			for b.Loop() {
				linalg.MatMul(z, x, y)
			}
			report(b, 2*float64(s.m)*float64(s.n)*float64(s.k))
		})
	}
}

// The constants encoder and generator are the numbers of multiply-adds per sample in the two networks of the MNIST
// model, not counting multiplications by padding. The benchmarks count each multiply-add as two operations.
const encoder, generator = 1_146_256, 1_117_456

func vae() mnist.Config { return mnist.Config{Kind: "vae", Tempering: "none", Latent: 64} }

func hvaeOf(K int) mnist.Config {
	return mnist.Config{Kind: "hvae", K: K, Tempering: "free", VaryEps: true, Latent: 64}
}

// BenchmarkTrainStep measures one optimiser step of several MNIST models in float32 on all cores with batch size 100.
func BenchmarkTrainStep(b *testing.B) {
	b.Run("VAE", func(b *testing.B) { trainStep(b, vae(), false) })
	for _, K := range []int{1, 5, 10, 20} {
		b.Run(fmt.Sprintf("HVAE-K%d", K), func(b *testing.B) { trainStep(b, hvaeOf(K), false) })
	}
}

// BenchmarkTrainStepRecompute measures one optimiser step on all cores with batch size 100 and with -recompute, which
// makes memory use nearly independent of K. The reported rate in GFLOP/s excludes recomputed operations. Tempering is
// fixed, because free tempering with K = 100 starts at a very high temperature, at which all logits exceed 90 in
// magnitude. Such logits are not typical of training.
func BenchmarkTrainStepRecompute(b *testing.B) {
	for _, K := range []int{1, 5, 10, 20, 100} {
		c := hvaeOf(K)
		c.Tempering = "fixed"
		b.Run(fmt.Sprintf("HVAE-K%d", K), func(b *testing.B) { trainStep(b, c, true) })
	}
}

func trainStep(b *testing.B, c mnist.Config, recompute bool) {
	images, indices := newDigits(), make([]int, 100)
	for i := range indices {
		indices[i] = i
	}
	digits := linalg.New[float32](100, 784) // the images as rows
	for i := range digits.Data {
		digits.Data[i] = images.At(i%784, i/784)
	}
	pixels := func(x linalg.Matrix[float32], j, image int, _ *rand.Rand) {
		for i, v := range digits.Row(image) {
			x.Data[i*x.Cols+j] = v
		}
	}
	s := mnist.Settings{Config: c, Rate: 1e-3, Seed: 1, Recompute: recompute}
	n := mnist.New[float32](c, -2, 1)
	t := mnist.NewTrainer(s, n, mnist.Bound(s, n, pixels))
	t.BlockSize = c.BlockSize(len(indices))
	repeat(b, func() error {
		_, err := t.Step(b.Context(), hvae.Columns(indices))
		return err
	})
	report(b, 2*100*float64(c.StepCost()))
}

// BenchmarkLeapfrog measures a flow of one leapfrog step in an MNIST model, on all cores with batch size 100, as in an
// evaluation. The flow computes two gradients of the potential energy.
func BenchmarkLeapfrog(b *testing.B) {
	c := hvaeOf(1)
	model := mnist.New[float32](c, -2, 1)
	images := newDigits()
	z, rho := linalg.New[float32](64, 100), linalg.New[float32](64, 100)
	rng := random.Stream(1, "phase")
	random.FillNormal(rng, z)
	random.FillNormal(rng, rho)
	var tape ad.Tape[float32]
	repeat(b, func() error {
		tape.Reset()
		n := model.Const(&tape)
		n.Flow(tape.Const(images)).Forward(hvae.Phase[float32]{Z: tape.Const(z), Rho: tape.Const(rho)})
		return nil
	})
	report(b, 2*100*2*2*generator)
}

// BenchmarkEvaluate measures how long it takes to estimate the evidence of n simulated images on n cores by importance
// sampling, with 1,000 samples for each image.
func BenchmarkEvaluate(b *testing.B) {
	for _, m := range []struct {
		name  string
		c     mnist.Config
		flops float64 // per image
	}{
		{"VAE", vae(), 2 * (encoder + 1000*generator)},
		{"HVAE-K5", hvaeOf(5), 2 * (encoder + 1000*6*2*generator)},
	} {
		b.Run(m.name, func(b *testing.B) {
			c, n := mnist.Checkpoint{Network: mnist.New[float32](m.c, -2, 1)}, runtime.GOMAXPROCS(0)
			for b.Loop() {
				if _, err := eval.Evaluate(b.Context(), c, eval.Images{N: n, Seed: 1}, eval.Options{Samples: 1000, Runs: 1}, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
			report(b, float64(n)*m.flops)
		})
	}
}

// newDigits returns 100 images [784×100] with random pixels. The pixels are the same in all runs.
func newDigits() linalg.Matrix[float32] {
	images, rng := linalg.New[float32](784, 100), random.Stream(1, "digits")
	for i := range images.Data {
		images.Data[i] = float32(rng.IntN(8) / 7)
	}
	return images
}

// BenchmarkConv measures the forward pass, the input gradient and the weight gradient of each convolution of the MNIST
// encoder on all cores with batch size 100.
func BenchmarkConv(b *testing.B) {
	for _, l := range []struct {
		name string
		g    conv.Geometry
	}{{"28to14", conv.Same(28, 28, 1, 16, 5, 2)}, {"14to7", conv.Same(14, 14, 16, 32, 5, 2)}, {"7to4", conv.Same(7, 7, 32, 32, 5, 2)}} {
		rng := random.Stream(1, "conv")
		w, x, delta := linalg.New[float32](l.g.Taps(), l.g.OutC), linalg.New[float32](l.g.In(), 100), linalg.New[float32](l.g.Out(), 100)
		for _, m := range []linalg.Matrix[float32]{w, x, delta} {
			random.FillNormal(rng, m)
		}
		var tape ad.Tape[float32]
		for _, direction := range []struct {
			name string
			run  func(w, x, delta *ad.Var[float32]) *ad.Var[float32]
		}{
			{"forward", func(w, x, _ *ad.Var[float32]) *ad.Var[float32] { return conv.Conv(&l.g, w, x, nil) }},
			{"dinput", func(w, _, delta *ad.Var[float32]) *ad.Var[float32] { return conv.Transpose(&l.g, w, delta, nil) }},
			{"dweight", func(_, x, delta *ad.Var[float32]) *ad.Var[float32] { return conv.WeightGradient(&l.g, delta, x) }},
		} {
			b.Run(l.name+"/"+direction.name, func(b *testing.B) {
				for b.Loop() {
					tape.Reset()
					direction.run(tape.Const(w), tape.Const(x), tape.Const(delta))
				}
				report(b, 2*100*float64(l.g.MultiplyAdds()))
			})
		}
	}
}

// BenchmarkPeak measures the peak rate of float32 multiply-adds on all cores.
func BenchmarkPeak(b *testing.B) {
	if peak() == 0 {
		b.Skip("the peak is measured only with SIMD instructions")
	}
	for b.Loop() {
	}
	b.ReportMetric(peak()/1e9, "GFLOP/s")
}

var peaks = map[int]float64{} // by GOMAXPROCS

// peak returns the peak rate of float32 multiply-adds in FLOP/s, where a multiply-add counts as two operations. It
// measures GOMAXPROCS goroutines that compute in registers, with the widest vectors that linalg uses. The result is the
// best of five measurements of about 0.1 s. Shorter measurements may end before the operating system has spread the
// goroutines over the cores. Without SIMD instructions, peak returns 0.
func peak() float64 {
	const rounds = 10 << 20
	n := runtime.GOMAXPROCS(0)
	if _, measured := peaks[n]; measured {
		return peaks[n]
	}
	operations := float64(n * rounds * linalg.PeakLoop(1))
	for range 5 {
		start := time.Now()
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { linalg.PeakLoop(rounds) })
		}
		wg.Wait()
		peaks[n] = max(peaks[n], operations/time.Since(start).Seconds())
	}
	return peaks[n]
}

// report reports the rate of a benchmark in GFLOP/s and as a percentage of the peak rate. The argument flops is the
// number of operations in one iteration.
func report(b *testing.B, flops float64) {
	rate := flops * float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate/1e9, "GFLOP/s")
	if p := peak(); p > 0 {
		b.ReportMetric(100*rate/p, "%peak")
	}
}
