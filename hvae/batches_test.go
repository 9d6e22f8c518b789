package hvae

import (
	"context"
	"slices"
	"testing"

	"hvae/ad"
	"hvae/linalg"
)

// gradients is an optimiser that only looks on.
type gradients struct{ seen []float64 }

func (g *gradients) Ascend(_, gradients []linalg.Matrix[float64]) {
	g.seen = append(g.seen, gradients[0].Data...)
}

// The bound of column j is jθ, and so are mean and gradient those of the columns' numbers:
// of this batch, whatever sizes others had.
func TestBatchesOfUnequalSizeAreMeansOverTheirOwnColumns(t *testing.T) {
	var g gradients
	theta := []Param[float64]{{Name: "θ", Value: linalg.Column(2.0)}}
	trainer := NewTrainer(theta, &g, func(b *Block[float64]) *ad.Var[float64] {
		x := b.Tape.Matrix(1, b.Hi-b.Lo)
		for j := range x.Data {
			x.Data[j] = float64(b.Lo + j + 1)
		}
		return ad.Mul(b.Params[0], b.Tape.Const(x))
	})
	trainer.BlockSize = func(int) int { return 2 }
	var bounds []float64
	for _, n := range []int{3, 7, 2, 1, 5} {
		bound, err := trainer.Step(context.Background(), n)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := trainer.ELBO(context.Background(), n)
		if err != nil || alone != bound {
			t.Errorf("a step over %d columns says %v, an evaluation %v, %v", n, bound, alone, err)
		}
		bounds = append(bounds, bound)
	}
	if want := []float64{2, 4, 1.5, 1, 3}; !slices.Equal(g.seen, want) {
		t.Errorf("gradients %v, want %v", g.seen, want)
	}
	if want := []float64{4, 8, 3, 2, 6}; !slices.Equal(bounds, want) {
		t.Errorf("bounds %v, want %v", bounds, want)
	}
}
