package linalg

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// integers returns a matrix of random integers from −4 to 4. Their products and sums are exact.
func integers[T Float](rng *rand.Rand, rows, cols int) Matrix[T] {
	m := New[T](rows, cols)
	for i := range m.Data {
		m.Data[i] = T(rng.IntN(9) - 4)
	}
	return m
}

func TestUpdatesAddAllProducts(t *testing.T) {
	t.Run("float32", testUpdates[float32])
	t.Run("float64", testUpdates[float64])
}

func testUpdates[T Float](t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var u Updates[T]
	for _, widths := range [][]int{{1}, {16, 16, 16, 16, 16}, {20, 20, 20, 20, 20}, {64}, {33, 1}, {1, 33, 5}, {3, 32, 32, 7, 100, 2}} {
		for _, s := range []Shape{{1, 1}, {5, 50}, {17, 3}, {40, 49}} {
			c := integers[T](rng, s.Rows, s.Cols)
			want := c.Clone()
			for _, k := range widths {
				a, b := integers[T](rng, s.Rows, k), integers[T](rng, s.Cols, k)
				scratch := make([]T, len(b.Data))
				AddMatMulTB(want, a, b, scratch)
				u.AddMatMulTB(c, a, b, scratch)
				a.Fill(T(math.NaN())) // must not change the sum, because u has copied a and b
				b.Fill(T(math.NaN()))
			}
			for range 2 {
				u.Flush(c)
				if !slices.Equal(c.Data, want.Data) {
					t.Errorf("the sum of products with %d columns is wrong for a matrix C %v", widths, s)
				}
			}
		}
	}
}

func TestUpdatesStoreUpTo64Columns(t *testing.T) {
	one := func(rows, cols int) Matrix[float64] {
		m := New[float64](rows, cols)
		m.Fill(1)
		return m
	}
	var u Updates[float64]
	c := New[float64](2, 3)
	for i, want := range []float64{0, 0, 0, 0, 64, 64, 64, 64, 128} {
		u.AddMatMulTB(c, one(2, 16), one(3, 16), make([]float64, 48))
		if c.Data[0] != want {
			t.Errorf("after %d products of 16 columns of ones, the elements of C are %v, want %v", i+1, c.Data[0], want)
		}
	}
	u.Forget()
	if u.Flush(c); c.Data[0] != 128 {
		t.Errorf("after Forget and Flush, the elements of C are %v, want 128", c.Data[0])
	}
}
