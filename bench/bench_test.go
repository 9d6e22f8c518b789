package bench

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"hvae/gaussian/model"
	"hvae/hvae"
)

var dims = []int{1, 11, 50, 101, 301}

func BenchmarkGaussian(b *testing.B) {
	for _, d := range dims {
		b.Run(strconv.Itoa(d), func(b *testing.B) { gaussianStep(b, "hvae-k10", d) })
	}
}

func BenchmarkGaussianMethods(b *testing.B) {
	for _, m := range model.MethodNames() {
		b.Run(m, func(b *testing.B) { gaussianStep(b, m, 50) })
	}
}

func gaussianStep(b *testing.B, name string, d int) {
	data := model.Draw(model.Truth(d), 10000, hvae.Stream(1, "data"))
	m, err := model.NewMethod(name, data, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		b.Fatal(err)
	}
	t := model.NewTrainer(m, 10, 1e-3, hvae.Stream(1, "noise"))
	for range 10 {
		t.Step()
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := t.Step(); err != nil {
			b.Fatal(err)
		}
	}
}
