package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// These tests change images that a command must not use, and check that its results stay
// bit-identical. They do so for several values of -seed, -train, -split and -limit.

const trainFile, testFile = "train-images-idx3-ubyte", "t10k-images-idx3-ubyte"

// changed copies a folder of images and inverts the given images of one file.
func changed(t *testing.T, folder, file string, which []int) string {
	t.Helper()
	other := t.TempDir()
	for _, name := range []string{trainFile, testFile} {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == file {
			for _, i := range which {
				for pixel := range 784 {
					b[16+784*i+pixel] ^= 255
				}
			}
		}
		if err := os.WriteFile(filepath.Join(other, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return other
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
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
			return sameTensors(a.weights, b.weights) && a.training == b.training && a.validation == b.validation
		}
		run := func(folder string) (r result) {
			t.Helper()
			dir := t.TempDir()
			mustTrain(t, append(strings.Fields("train -dataset own -latent 2 -batch 10 -epochs 1 -out "+dir+" -data "+folder), strings.Fields(c.flags)...)...)
			r.weights, _ = tensors(t, filepath.Join(dir, "model.safetensors"))
			m := lines(t, filepath.Join(dir, "metrics.jsonl"))[0]
			r.training, r.validation = m["train_elbo"], m["val_elbo"]
			return r
		}
		want := run(folder)
		if !same(run(changed(t, folder, testFile, upTo(4))), want) {
			t.Errorf("%s: a test image was seen in training", c.flags)
		}
		if rest := training[c.n:]; len(rest) > 0 && !same(run(changed(t, folder, trainFile, rest)), want) {
			t.Errorf("%s: an image that is left out was seen", c.flags)
		}
		got := run(changed(t, folder, trainFile, validation))
		if !sameTensors(got.weights, want.weights) || got.training != want.training {
			t.Errorf("%s: a validation image was trained on", c.flags)
		}
		if got.validation == want.validation {
			t.Errorf("%s: the validation images make no difference", c.flags)
		}
		if got := run(changed(t, folder, trainFile, training[c.n-1:c.n])); sameTensors(got.weights, want.weights) || got.training == want.training {
			t.Errorf("%s: the last training image makes no difference", c.flags)
		}
	}
}

func TestEvaluationAndPicturesUseOnlyTheirSplit(t *testing.T) {
	folder := ownImages(t, 31, 6)
	dir := t.TempDir()
	mustTrain(t, strings.Fields("train -dataset own -latent 2 -batch 10 -train 10 -epochs 1 -seed 5 -out "+dir+" -data "+folder)...)
	training, validation := parts(31, 5)
	for _, c := range []struct {
		args         string
		file         string
		seen, unseen []int // of the file
		other        string
		images       int // of the other
	}{
		{"eval -samples 3 -runs 1 -seed 8 -limit 4", testFile, upTo(4), upTo(6)[4:], trainFile, 31},
		{"eval -samples 3 -runs 1 -seed 8 -limit 3 -split validation", trainFile, validation[:3], append(validation[3:], training...), testFile, 6},
		{"eval -samples 2 -runs 1 -limit 6", testFile, upTo(6), nil, trainFile, 31}, // all of the split
		{"eval -samples 2 -runs 1 -limit 5 -split validation", trainFile, validation, training, testFile, 6},
		{"reconstruct -n 6", testFile, upTo(6), nil, trainFile, 31},
		{"reconstruct -n 4 -seed 8", testFile, upTo(4), upTo(6)[4:], trainFile, 31},
	} {
		run := func(folder string) string {
			t.Helper()
			picture := filepath.Join(t.TempDir(), "x.png")
			args := append(strings.Fields(c.args), "-checkpoint", filepath.Join(dir, "model.safetensors"), "-dataset", "own", "-data", folder)
			if args[0] == "reconstruct" {
				args = append(args, "-o", picture)
			}
			stdout, stderr, status := mnist(t.Context(), args...)
			if status != 0 {
				t.Fatalf("%v: status %d, %s", args, status, stderr)
			}
			if args[0] == "reconstruct" {
				b, err := os.ReadFile(picture)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			_, numbers, _ := strings.Cut(stdout, "\n") // the first line has the time
			return numbers
		}
		want := run(folder)
		if run(changed(t, folder, c.file, c.unseen)) != want || run(changed(t, folder, c.other, upTo(c.images))) != want {
			t.Errorf("%s sees other images", c.args)
		}
		for _, i := range c.seen {
			if run(changed(t, folder, c.file, []int{i})) == want {
				t.Errorf("%s: image %d makes no difference", c.args, i)
			}
		}
	}
}
