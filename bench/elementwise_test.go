package bench

import (
	"testing"

	"hvae/linalg"
)

// BenchmarkElementwise measures elementwise functions, applied to 4,096 elements on one core. The program
// torch_elementwise.py measures them in PyTorch.
func BenchmarkElementwise(b *testing.B) {
	b.Run("float32", elementwise[float32])
	b.Run("float64", elementwise[float64])
}

func elementwise[T linalg.Float](b *testing.B) {
	x, y := normal[T](64, 64), linalg.New[T](64, 64)
	positive := linalg.New[T](64, 64)
	linalg.Mul(positive, x, x)
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) { measure(b, 0, f) })
	}
	run("exp", func() { linalg.Exp(y, x) })
	run("log", func() { linalg.Log(y, positive) })
	run("tanh", func() { linalg.Tanh(y, x) })
	run("sigmoid", func() { linalg.Sigmoid(y, x) })
	run("softplus", func() { linalg.SoftplusSigmoid(y, y, x) })
}
