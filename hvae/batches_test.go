package hvae

import (
	"context"
	"slices"
	"testing"

	"hvae/ad"
	"hvae/linalg"
)

// gradients is an optimiser that records gradients and does not change parameters.
type gradients struct{ seen []float64 }

func (g *gradients) Start() []float64 { return nil }

func (g *gradients) Ascend(_ int, _, gradient []float64, _ [][]float64) {
	g.seen = append(g.seen, gradient...)
}

// The bound of column j is jθ with θ = 2 and j = 1 … 7. So the gradient of a batch is the mean
// of j, and its bound is twice the mean, independent of earlier batches.
func TestStepAveragesOverBatchesOfAnySize(t *testing.T) {
	var g gradients
	var params Params[float64]
	theta := params.Add("θ", linalg.Column(2.0))
	numbers := linalg.Of(1, 7, []float64{1, 2, 3, 4, 5, 6, 7})
	trainer := NewTrainer(params, &g, func(b *Block[float64]) *ad.Var[float64] {
		return ad.Mul(b.Var(theta), b.Columns(numbers))
	})
	trainer.BlockSize = 2
	var bounds []float64
	for _, n := range []int{3, 7, 2, 1, 5} {
		batch := []int{0, 1, 2, 3, 4, 5, 6}[:n]
		bound, err := trainer.Step(context.Background(), batch)
		if err != nil {
			t.Fatal(err)
		}
		alone, _, err := trainer.Evaluate(context.Background(), batch, 1, nil)
		if err != nil || alone != bound {
			t.Errorf("%d columns: Step returns %v, but Evaluate returns %v, %v", n, bound, alone, err)
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
