package hvae_test

import (
	"math"
	"slices"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
)

func TestPathEndsAtResultOfForward(t *testing.T) {
	var tape ad.Tape[float64]
	const K = 3
	target := hvaetest.Bimodal{Dims: 2}
	f := hvae.Flow[float64]{
		Target: target, K: K, Tempering: hvae.FreeTempering(tape.Const(linalg.Column(0.9, 0.7, 0.8))),
		StepSize: tape.Const(linalg.Of(K, 2, []float64{0.1, 0.2, 0.3, 0.15, 0.25, 0.05})),
	}
	rng := random.Stream(1, "path")
	start := hvae.Phase[float64]{Z: hvae.Noise(&tape, rng, 2, 5), Rho: hvae.Noise(&tape, rng, 2, 5)}
	path, end := f.Path(start), f.Forward(start)
	if len(path) != K+1 || path[0].Z != start.Z || !slices.Equal(path[K].Z.Value.Data, end.Z.Value.Data) || !slices.Equal(path[K].Rho.Value.Data, end.Rho.Value.Data) {
		t.Errorf("the path with %d phases ends at %v, but Forward returns %v", len(path), path[len(path)-1].Z.Value, end.Z.Value)
	}
	for k, s := range path {
		logJoint, H := target.LogJoint(s.Z).Value, s.Energy(target).Value
		for i := range 5 {
			x, y := s.Rho.Value.At(0, i), s.Rho.Value.At(1, i)
			if want := (x*x+y*y)/2 - logJoint.At(0, i); !(math.Abs(H.At(0, i)-want) <= 1e-12) {
				t.Errorf("H(z_%d, ρ_%d) of column %d is %v, want %v", k, k, i, H.At(0, i), want)
			}
		}
	}
}
