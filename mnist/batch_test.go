package main

import (
	"slices"
	"testing"

	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
)

// grey returns n images whose pixels are ink half of the time.
func grey(n int) data.Images {
	images := data.Images{Pixels: make([]byte, n*side*side)}
	for i := range images.Pixels {
		images.Pixels[i] = 128
	}
	return images
}

// drawn is what a batch, or an evaluation, gives for an image.
type drawn struct{ x, epsilon, gamma0 []float32 }

func (d drawn) sameAs(other drawn) (x, epsilon, gamma0 bool) {
	return slices.Equal(d.x, other.x), slices.Equal(d.epsilon, other.epsilon), slices.Equal(d.gamma0, other.gamma0)
}

func TestABatchIsDrawnAfreshInEachEpochWhateverItsPlace(t *testing.T) {
	images := grey(5)
	draw := func(seed uint64, epoch, image, place int) drawn {
		which := make([]int, place+1)
		which[place] = image
		b := &batch{images: images, which: which, seed: seed, epoch: epoch}
		x, epsilon, gamma0 := linalg.New[float32](side*side, 1), linalg.New[float32](40, 1), linalg.New[float32](40, 1)
		b.Fill(place, x, epsilon, gamma0, new(hvae.Keyed))
		return drawn{x.Data, epsilon.Data, gamma0.Data}
	}
	first := draw(1, 1, 3, 0)
	if x, e, g := first.sameAs(draw(1, 1, 3, 4)); !x || !e || !g {
		t.Error("an image's draw depends on its place in the batch")
	}
	for what, other := range map[string]drawn{"seed": draw(2, 1, 3, 0), "epoch": draw(1, 2, 3, 0), "image": draw(1, 1, 2, 0)} {
		if x, e, g := first.sameAs(other); x || e || g {
			t.Errorf("another %s: the same pixels %v, the same ε %v, the same γ₀ %v", what, x, e, g)
		}
	}
	if slices.Equal(first.epsilon, first.gamma0) {
		t.Error("ε and γ₀ are the same")
	}
}

func TestAnEpochIsAPermutationOfItsOwn(t *testing.T) {
	training := []int{4, 8, 15, 16, 23, 42, 108}
	first, second := shuffled(training, 1, 1), shuffled(training, 1, 2)
	for _, order := range [][]int{first, second} {
		if !slices.Equal(slices.Sorted(slices.Values(order)), training) {
			t.Errorf("%v is not a permutation of %v", order, training)
		}
	}
	if slices.Equal(first, second) || slices.Equal(first, shuffled(training, 2, 1)) || !slices.Equal(first, shuffled(training, 1, 1)) {
		t.Error("the order must depend on seed and epoch, and on nothing else")
	}
	for _, c := range []struct{ train, batch, want int }{{200, 100, 2}, {201, 100, 3}, {299, 100, 3}, {7, 7, 1}} {
		if got := (&run{settings: settings{batch: c.batch}, images: c.train}).batches(); got != c.want {
			t.Errorf("%d images make %d batches of %d, want %d", c.train, got, c.batch, c.want)
		}
	}
}

func TestValidationIsDrawnOnce(t *testing.T) {
	v := newValidation(grey(4), []int{2, 0}, 1)
	draw := func(lo int) drawn {
		v.lo, v.hi = lo, lo+1
		x, epsilon, gamma0 := linalg.New[float32](side*side, 1), linalg.New[float32](40, 1), linalg.New[float32](40, 1)
		v.Fill(0, x, epsilon, gamma0, new(hvae.Keyed))
		return drawn{x.Data, epsilon.Data, gamma0.Data}
	}
	if x, e, g := draw(0).sameAs(draw(0)); !x || !e || !g {
		t.Error("two draws of a validation image differ")
	}
	if x, e, g := draw(0).sameAs(draw(1)); x || e || g {
		t.Error("two validation images share their draws")
	}
	if d := draw(0); slices.Equal(d.epsilon, d.gamma0) {
		t.Error("ε and γ₀ are the same")
	}
}

func TestAnEvaluationIsDrawnAfreshInEachRun(t *testing.T) {
	images := grey(4)
	draw := func(seed uint64, run, image int) drawn {
		x, noise := linalg.New[float32](side*side, 1), linalg.New[float32](40, 1)
		var k hvae.Keyed
		evaluationOf(images, []int{2, 0}, seed, run)(image, x, &k)
		hvae.FillNormal(k.Stream(), noise)
		return drawn{x.Data, noise.Data, nil}
	}
	first := draw(1, 0, 0)
	for what, other := range map[string]drawn{"seed": draw(2, 0, 0), "run": draw(1, 1, 0), "image": draw(1, 0, 1)} {
		if x, noise, _ := first.sameAs(other); x || noise {
			t.Errorf("another %s: the same pixels %v, the same noise %v", what, x, noise)
		}
	}
	if x, noise, _ := first.sameAs(draw(1, 0, 0)); !x || !noise {
		t.Error("two draws of the same differ")
	}
}
