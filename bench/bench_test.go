// Package bench measures the hot paths; nothing else in the repository makes claims
// about speed. Run it with
//
//	go test -run '^$' -bench . ./bench
//
// Its folder plot draws the figures of the experiments.
package bench

import (
	"fmt"
	"strconv"
	"testing"

	"hvae/gaussian/model"
	"hvae/hvae"
	"hvae/linalg"
)

// One optimiser step of the Gaussian experiment, HVAE with K = 10 and tempering, in
// each of several dimensions.
func BenchmarkGaussian(b *testing.B) {
	for _, d := range []int{1, 11, 50, 101, 301} {
		b.Run(strconv.Itoa(d), func(b *testing.B) { gaussianStep(b, "hvae-k10", d) })
	}
}

// One optimiser step of each method in 50 dimensions.
func BenchmarkGaussianMethod(b *testing.B) {
	for _, m := range model.MethodNames() {
		b.Run(m, func(b *testing.B) { gaussianStep(b, m, 50) })
	}
}

func gaussianStep(b *testing.B, name string, d int) {
	data := model.Draw(model.Truth(d), 10000, hvae.Stream(1, "data"))
	m, err := model.NewMethod(name, data, hvae.Stream(1, "start"))
	if err != nil {
		b.Fatal(err)
	}
	t := model.NewTrainer(m, 10, 1e-3, hvae.Stream(1, "noise"))
	step := func() {
		if err := t.Step(); err != nil {
			b.Fatal(err)
		}
	}
	step() // the first makes the arena
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}

// Products of matrices in float32, in the form of a layer, on all cores.
func BenchmarkGEMM(b *testing.B) {
	for _, s := range []struct{ m, n, k int }{{450, 100, 64}, {512, 100, 450}, {1024, 1024, 1024}} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k), func(b *testing.B) {
			rng := hvae.Stream(1, "gemm")
			x, y, z := linalg.New[float32](s.m, s.k), linalg.New[float32](s.k, s.n), linalg.New[float32](s.m, s.n)
			hvae.FillNormal(rng, x)
			hvae.FillNormal(rng, y)
			b.ReportAllocs()
			for b.Loop() {
				linalg.MatMul(z, x, y)
			}
			flops := 2 * float64(s.m) * float64(s.n) * float64(s.k)
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
