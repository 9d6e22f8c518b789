package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/linalg/random"
	"hvae/mnist/model"
)

// drawnFrom runs a command and returns the number of uses of each random stream, by key.
func drawnFrom(t *testing.T, args ...string) (keys map[string]int, stdout string) {
	t.Helper()
	keys = map[string]int{}
	for _, k := range random.Record(func() { stdout, _ = mustRun(t, args...) }) {
		if !strings.HasPrefix(k.Purpose, "synthetic") {
			keys[fmt.Sprint(k)]++
		}
	}
	return keys, stdout
}

// expected holds the expected number of uses of each stream, by key.
type expected struct {
	seed uint64
	keys map[string]int
}

// add adds the argument times to the expected number of uses of a stream with the seed e.seed.
func (e expected) add(times int, purpose string, index ...int) {
	e.keys[fmt.Sprint(random.Key{Seed: e.seed, Purpose: purpose, Index: index})] += times
}

// Each draw must use a separate stream. Its key consists of the seed, the purpose, the epoch or run, and the
// image. Only draws that need the same random numbers share a stream.
func TestEveryDrawHasASeparateStream(t *testing.T) {
	dataset, dir := []string{"-data", ownImages(t, 31, 6)}, t.TempDir()
	_, validation := parts(31, 3)

	want := expected{3, map[string]int{}}
	got, stdout := drawnFrom(t, append(strings.Fields("train -model hvae -K 1 -tempering free -latent 2 -train 23 -batch 9 -epochs 3 -seed 3 -out "+dir), dataset...)...)
	want.add(1, "mnist split")
	for _, p := range model.NewParams[float32](model.Config{Kind: "hvae", K: 1, Tempering: "free", Latent: 2}, 0, 3) {
		want.add(1, "mnist start "+p.Name)
	}
	const epochs = 3
	for epoch := 1; epoch <= epochs; epoch++ {
		want.add(1, "mnist shuffle", epoch)
		for j := range 23 { // three batches: a step has a stream for the pixels and the noise of each column
			want.add(1, "algorithm 2 step", 3*(epoch-1)+j/9, j%9)
		}
	}
	for _, i := range validation {
		want.add(epochs, "mnist validation pixels", i) // the same pixels in each epoch
	}
	for epoch := 1; epoch <= epochs; epoch++ {
		want.add(1, "mnist validation noise", epoch, 0)
		noise := expected{random.Stream(3, "mnist validation noise", epoch, 0).Uint64(), want.keys}
		for j := range validation {
			noise.add(1, "algorithm 2 evaluation", j)
		}
	}
	want.add(strings.Count(stdout, "best so far"), "mnist sample") // the same latent variables in each picture
	if diff := cmp.Diff(want.keys, got); diff != "" {
		t.Errorf("train (-want +got):\n%s", diff)
	}

	checkpoint := filepath.Join(dir, modelFile)
	for _, c := range []struct {
		args string
		want func(e expected)
	}{
		{"eval -limit 4 -samples 100 -runs 2", func(e expected) {
			for run := range 2 {
				for i := range 4 {
					e.add(1, "mnist eval pixels", run, i)
					e.add(1, "mnist eval noise", run, i)
				}
			}
		}},
		{"eval -limit 2 -samples 2 -runs 2 -method ais -steps 2 -chains 3", func(e expected) {
			expected{3, e.keys}.add(1, "mnist split")
			for j, i := range validation { // step sizes are tuned on validation images
				e.add(1, "mnist ais tuning pixels", i)
				e.add(1, "mnist ais tuning", j)
			}
			for k := range 4 {
				run, i := k/2, k%2
				e.add(1, "mnist eval pixels", run, i) // both methods use the same images
				e.add(1, "mnist eval noise", run, i)
				for chain := range 3 {
					e.add(1, "mnist ais forward", run, i, chain)
				}
			}
		}},
		{"eval -simulated -limit 2 -samples 2 -runs 2 -method ais -steps 2 -chains 3", func(e expected) {
			for j := range 16 {
				e.add(1, "mnist ais tuning simulated", j)
				e.add(1, "mnist ais tuning", j)
			}
			for k := range 4 {
				run, i := k/2, k%2
				e.add(1, "mnist eval simulated", run, i)
				e.add(1, "mnist eval noise", run, i)
				for chain := range 3 {
					e.add(1, "mnist ais forward", run, i, chain)
					e.add(1, "mnist ais reverse", run, i, chain)
				}
			}
		}},
		{"reconstruct -n 5", func(e expected) {
			for i := range 5 {
				e.add(1, "mnist reconstruct pixels", i)
			}
			e.add(1, "mnist reconstruct")
		}},
		{"sample -n 5", func(e expected) { e.add(1, "mnist sample") }},
	} {
		args := append(strings.Fields(c.args), "-checkpoint", checkpoint, "-seed", "7")
		if args[0] != "sample" && args[1] != "-simulated" {
			args = append(args, dataset...)
		}
		if args[0] != "eval" {
			args = append(args, "-o", filepath.Join(dir, "x.png"))
		}
		got, _ := drawnFrom(t, args...)
		maps.DeleteFunc(got, func(key string, _ int) bool {
			return strings.HasPrefix(key, "{0 algorithm 2 evaluation") // of hvae.Evaluator; package eval does not use them
		})
		want := expected{7, map[string]int{}}
		c.want(want)
		if diff := cmp.Diff(want.keys, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.args, diff)
		}
	}
}
