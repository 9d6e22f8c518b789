package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"hvae/linalg/internal/kernel"
)

func random[T Float](rng *rand.Rand, rows, cols int) Matrix[T] {
	return formula[T](Shape{rows, cols}, func(i, j int) float64 { return rng.NormFloat64() })
}

func transpose[T Float](m Matrix[T]) Matrix[T] {
	return formula[T](Shape{m.Cols, m.Rows}, func(i, j int) float64 { return float64(m.At(j, i)) })
}

// products returns a map from the name of each matrix product in the package to a function that computes a·b, plus bias
// in Affine, for a [m×k] and b [k×n]. The function first transposes an operand if the product expects its transpose.
func products[T Float]() map[string]func(dst, a, b, bias Matrix[T]) {
	type m = Matrix[T]
	return map[string]func(dst, a, b, bias m){
		"MatMul":      func(dst, a, b, bias m) { MatMul(dst, a, b) },
		"Affine":      func(dst, a, b, bias m) { Affine(dst, a, b, bias) },
		"MatMulTA":    func(dst, a, b, bias m) { MatMulTA(dst, transpose(a), b) },
		"MatMulTB":    func(dst, a, b, bias m) { MatMulTB(dst, a, transpose(b), make([]T, len(b.Data))) },
		"AddMatMulTB": func(dst, a, b, bias m) { AddMatMulTB(dst, a, transpose(b), make([]T, len(b.Data))) },
	}
}

func TestProductsMatchTheirFormulas(t *testing.T) {
	testProducts[float64](t)
	testProducts[float32](t)
}

func testProducts[T Float](t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	check := func(m, n, k int) {
		a, b, bias := eighths[T](rng, Shape{m, k}), eighths[T](rng, Shape{k, n}), eighths[T](rng, Shape{m, 1})
		for name, product := range products[T]() {
			dst := New[T](m, n)
			dst.Fill(0.5)
			product(dst, a, b, bias)
			compare(t, dst, formula[T](Shape{m, n}, func(i, j int) float64 {
				sum := map[string]float64{"AddMatMulTB": 0.5, "Affine": float64(bias.Data[i])}[name] // else 0
				for p := range k {
					sum += at(a, i, p) * at(b, p, j)
				}
				return sum
			}), 0, name, a, b)
		}
	}
	for m := range 10 {
		for n := range 10 {
			for _, k := range []int{0, 1, 2, 5, 16} {
				check(m, n, k)
			}
		}
	}
	check(11, 19, 391) // several blocks of steps
}

// The bits of a matrix product must not depend on the number of goroutines.
func TestProductsDoNotDependOnTheNumberOfCores(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	const m, n, k = 145, 103, 581 // at least two goroutines
	a, b, bias := random[float32](rng, m, k), random[float32](rng, k, n), random[float32](rng, m, 1)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	kernel.OnEachLevel(func(level string) {
		for name, product := range products[float32]() {
			run := func(cores int) Matrix[float32] {
				runtime.GOMAXPROCS(cores)
				dst := New[float32](m, n)
				dst.Fill(1)
				product(dst, a, b, bias)
				return dst
			}
			compare(t, run(4), run(1), 0, level+", four cores: "+name, a, b)
		}
	})
}

func TestTransposeBlocksTransposesEachBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 2))
	kernel.OnEachLevel(func(level string) {
		for _, rows := range []int{1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 15, 16, 17, 24, 33, 40} {
			for _, cols := range []int{0, 1, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 50, 100} {
				for _, blocks := range []int{0, 1, 2, 31} {
					a := random[float32](rng, blocks*rows, cols)
					dst, want := New[float32](a.Rows, cols), New[float32](a.Rows, cols)
					dst.Fill(float32(math.NaN()))
					for i := range blocks {
						copy(want.Data[i*rows*cols:], transpose(a.RowRange(i*rows, (i+1)*rows)).Data)
					}
					TransposeBlocks(dst, a, rows)
					compare(t, dst, want, 0, fmt.Sprintf("%s: TransposeBlocks in blocks of %d rows", level, rows), a)
				}
			}
		}
	})
}
