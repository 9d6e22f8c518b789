package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/linalg/random"
)

// Each draw must use a separate random stream, so all keys of streams must differ. A key consists of the seed, the
// purpose, and indices such as the epoch or the image. The number of streams for each purpose must also be right.
func TestEveryDrawHasASeparateStream(t *testing.T) {
	images, dir := ownImages(t, 31, 6), t.TempDir() // 26 training and 5 validation images
	checkpoint, picture := filepath.Join(dir, modelFile), filepath.Join(dir, "x.png")
	for _, c := range []struct {
		args string
		want map[string]int // number of streams by purpose
	}{
		{"train -latent 2 -train 23 -batch 9 -epochs 3 -data " + images + " -out " + dir, map[string]int{
			"mnist split": 1, "mnist start": 22, "mnist shuffle": 3, "algorithm 2 step": 3 * 23,
			"mnist validation pixels": 5, "mnist validation noise": 3, "algorithm 2 evaluation": 3 * 5, "mnist sample": 1}},
		{"eval -limit 4 -samples 100 -runs 2 -data " + images + " -checkpoint " + checkpoint, map[string]int{
			"mnist eval pixels": 8, "mnist eval noise": 8}},
		{"eval -limit 2 -samples 2 -runs 2 -method ais -steps 2 -chains 3 -data " + images + " -checkpoint " + checkpoint, map[string]int{
			"mnist split": 1, "mnist ais tuning pixels": 5, "mnist ais tuning": 5, "mnist eval pixels": 4, "mnist eval noise": 4, "mnist ais forward": 12}},
		{"eval -simulated -limit 2 -samples 2 -runs 2 -method ais -steps 2 -chains 3 -checkpoint " + checkpoint, map[string]int{
			"mnist ais tuning simulated": 16, "mnist ais tuning": 16, "mnist eval simulated": 4, "mnist eval noise": 4, "mnist ais forward": 12, "mnist ais reverse": 12}},
		{"reconstruct -n 5 -data " + images + " -checkpoint " + checkpoint + " -o " + picture, map[string]int{
			"mnist reconstruct pixels": 5, "mnist reconstruct": 1}},
		{"sample -n 5 -checkpoint " + checkpoint + " -o " + picture, map[string]int{"mnist sample": 1}},
	} {
		streams, got := map[string]int{}, map[string]int{}
		for _, k := range random.Record(func() { mustRun(t, strings.Fields(c.args)...) }) {
			if c.args[:5] != "train" && k.Purpose == "algorithm 2 evaluation" {
				continue // streams of hvae.Evaluator, from which package eval draws nothing
			}
			purpose, _, _ := strings.Cut(k.Purpose, " encoder") // remove the name of a parameter after "mnist start"
			purpose, _, _ = strings.Cut(purpose, " decoder")
			// The streams for the pixels of validation images and for samples.png do not change from epoch to epoch.
			if streams[fmt.Sprint(k)]++; streams[fmt.Sprint(k)] == 1 {
				got[purpose]++
			} else if purpose != "mnist validation pixels" && purpose != "mnist sample" {
				t.Errorf("%s uses the stream %v twice", c.args, k)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.args, diff)
		}
	}
}
