package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// These tests invert some images of a dataset. The results of a command must change if and only if the
// command should use these images.

// changed returns the folder of a copy of a dataset. In the copy, the given images of one file are
// inverted.
func changed(t *testing.T, folder, file string, images []int) string {
	t.Helper()
	other := copyFiles(t, folder, trainFile, testFile)
	b := read(t, folder, file)
	for _, i := range images {
		for pixel := range 784 {
			b[16+784*i+pixel] ^= 255
		}
	}
	write(t, b, other, file)
	return other
}

func TestTrainingUsesOnlyItsImages(t *testing.T) {
	folder := ownImages(t, 31, 4)
	for _, c := range []struct {
		flags string
		seed  uint64
		n     int
	}{{"-seed 5 -train 20", 5, 20}, {"-seed 6", 6, 26}} {
		training, validation := parts(31, c.seed)
		type result struct {
			weights              map[string][]float32
			training, validation float64
		}
		same := func(a, b result) bool {
			return sameTensors(a.weights, b.weights) && a.training == b.training
		}
		run := func(folder string) (r result) {
			t.Helper()
			dir := t.TempDir()
			mustRun(t, slices.Concat(strings.Fields("train -latent 2 -batch 10 -epochs 1 -out "+dir), own(folder), strings.Fields(c.flags))...)
			r.weights, _ = tensors(t, dir, modelFile)
			m := metricsOf(t, dir)[0]
			r.training, r.validation = m["train_elbo"], m["val_elbo"]
			return r
		}
		want := run(folder)
		if got := run(changed(t, folder, testFile, upTo(4))); !same(got, want) || got.validation != want.validation {
			t.Errorf("%s: training uses test images", c.flags)
		}
		if rest := training[c.n:]; len(rest) > 0 {
			if got := run(changed(t, folder, trainFile, rest)); !same(got, want) || got.validation != want.validation {
				t.Errorf("%s: training uses images that -train excludes", c.flags)
			}
		}
		got := run(changed(t, folder, trainFile, validation))
		if !same(got, want) {
			t.Errorf("%s: training uses validation images", c.flags)
		}
		if got.validation == want.validation {
			t.Errorf("%s: the validation ELBO does not depend on the validation images", c.flags)
		}
		if got := run(changed(t, folder, trainFile, training[c.n-1:c.n])); sameTensors(got.weights, want.weights) || got.training == want.training {
			t.Errorf("%s: training does not use the last training image", c.flags)
		}
	}
}

func TestEvaluationAndPicturesUseOnlyTheirSplit(t *testing.T) {
	folder, dir := ownImages(t, 31, 6), t.TempDir()
	mustRun(t, append(strings.Fields("train -latent 2 -batch 10 -train 10 -epochs 1 -seed 5 -out "+dir), own(folder)...)...)
	training, validation := parts(31, 5)
	for _, c := range []struct {
		args         string
		file         string
		used, unused []int // images in file
		other        string
		images       int // number of images in other, all unused
	}{
		{"eval -samples 3 -runs 1 -seed 8 -limit 4", testFile, upTo(4), upTo(6)[4:], trainFile, 31},
		{"eval -samples 3 -runs 1 -seed 8 -limit 3 -split validation", trainFile, validation[:3], append(validation[3:], training...), testFile, 6},
		{"eval -samples 2 -runs 1 -limit 6", testFile, upTo(6), nil, trainFile, 31}, // the whole split
		{"eval -samples 2 -runs 1 -limit 5 -split validation", trainFile, validation, training, testFile, 6},
		{"reconstruct -n 6", testFile, upTo(6), nil, trainFile, 31},
		{"reconstruct -n 4 -seed 8", testFile, upTo(4), upTo(6)[4:], trainFile, 31},
	} {
		run := func(folder string) string {
			t.Helper()
			args := slices.Concat(strings.Fields(c.args), []string{"-checkpoint", filepath.Join(dir, modelFile)}, own(folder))
			if args[0] == "reconstruct" {
				picture := filepath.Join(t.TempDir(), "x.png")
				mustRun(t, append(args, "-o", picture)...)
				return string(read(t, picture))
			}
			stdout, _ := mustRun(t, args...)
			_, numbers, _ := strings.Cut(stdout, "\n") // the first line contains the duration
			return numbers
		}
		want := run(folder)
		if run(changed(t, folder, c.file, c.unused)) != want || run(changed(t, folder, c.other, upTo(c.images))) != want {
			t.Errorf("%s uses images that it should not use", c.args)
		}
		for _, i := range c.used {
			if run(changed(t, folder, c.file, []int{i})) == want {
				t.Errorf("%s does not use image %d", c.args, i)
			}
		}
	}
}
