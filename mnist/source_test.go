package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hvae/mnist/data"
	"hvae/mnist/model"
)

// evaluated runs eval with and without -json. It returns the text, the notes on stderr and the JSON object.
func evaluated(t *testing.T, args ...string) (text, note string, o map[string]any) {
	t.Helper()
	args = append([]string{"eval", "-limit", "2", "-samples", "2", "-runs", "1"}, args...)
	text, note = mustRun(t, args...)
	stdout, _ := mustRun(t, append(args, "-json")...)
	return text, note, object(t, stdout)
}

func TestEvalNamesItsDataAndNotesOtherTrainingData(t *testing.T) {
	name := filepath.Join(t.TempDir(), modelFile)
	c := model.Checkpoint{Config: model.Config{Kind: "vae", Tempering: "none", Latent: 2}, Epoch: 1, ELBO: -1}
	c.Params = model.NewParams[float32](c.Config, -1, 1)
	images := own(ownImages(t, 30, 3))
	for _, k := range []struct {
		data, digest string // of the checkpoint
		args         []string
		name         string // of the images
		note         string // about the training images, or empty
	}{
		{"synthetic", syntheticDigest, []string{"-data", "synthetic"}, "synthetic", ""},
		{"synthetic", syntheticDigest, images, "own", `trained on "synthetic"`},
		{"own", strings.Repeat("0", 64), images, "own", `trained on other images called "own"`},
		{"mnist", strings.Repeat("0", 64), []string{"-data", "synthetic"}, "synthetic", `trained on "mnist"`},
		{"", "", images, "own", ""}, // a model of an older version
	} {
		c.Data, c.DataSHA256 = k.data, k.digest
		write(t, c.File().Encode(), name)
		text, note, object := evaluated(t, slices.Concat(k.args, []string{"-checkpoint", name})...)
		if !strings.Contains(text, " images of "+k.name+",") || object["data"] != k.name {
			t.Errorf("%+v: the text %q or the JSON object %v lacks the name of the images", k, text, object)
		}
		if k.note == "" && (note != "" || strings.Contains(text, "trained on")) || !strings.Contains(note, k.note) || !strings.Contains(text, k.note) {
			t.Errorf("%+v: stderr %q, stdout %q", k, note, text)
		}
		if trained, _ := object["trained_on"].(string); trained != k.data {
			t.Errorf("%+v: trained_on is %q in %v", k, trained, object)
		}
	}
}

func TestARunOnOwnImagesContainsTheirName(t *testing.T) {
	folder, out := ownImages(t, 90, 7), filepath.Join(t.TempDir(), "run")
	args := []string{"train", "-data", folder, "-latent", "2", "-batch", "25", "-out", out, "-epochs", "1"}
	mustFail(t, 1, args, "-dataset NAME")
	if stdout, _ := mustRun(t, append(args, "-dataset", "own")...); !strings.Contains(stdout, " on own ") {
		t.Errorf("stdout %s", stdout)
	}
	set, err := data.Load(t.Context(), folder, "own", nil)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint := filepath.Join(out, modelFile)
	c, err := model.ReadCheckpoint(checkpoint)
	if err != nil || c.Data != "own" || c.DataSHA256 != set.SHA256() {
		t.Errorf("the model contains the data %q, %s, %v", c.Data, c.DataSHA256, err)
	}
	if state, _ := saved(t, out); state.Settings["dataset"] != "own" || state.Settings["dataset_sha256"] != set.SHA256() || state.Settings["train"] != "0" {
		t.Errorf("the state contains %v", state.Settings)
	}
	if curve := read(t, out, curveFile); !strings.Contains(string(curve), "on own") {
		t.Error("the curve does not contain the name of the images")
	}
	for _, c := range [][]string{{"sample"}, append([]string{"reconstruct", "-n", "3"}, own(folder)...)} {
		if _, stderr := mustRun(t, append(c, "-checkpoint", checkpoint, "-o", filepath.Join(out, "x.png"))...); !strings.Contains(stderr, "own") {
			t.Errorf("%s prints %s", c[0], stderr)
		}
	}
	// A sixth of the images must be used for validation.
	validation := append(own(folder), "-checkpoint", checkpoint, "-split", "validation")
	if text, note, _ := evaluated(t, validation...); note != "" || !strings.Contains(text, "validation images of own") {
		t.Errorf("stdout %s, stderr %s", text, note)
	}
	mustFail(t, 2, append([]string{"eval", "-limit", "16"}, validation...), "has 15 images")
	// A resumed run must accept the same images, but not different images with the same name.
	mustRun(t, resume(out, "-epochs", "2")...)
	b := read(t, folder, testFile)
	b[100] ^= 1
	write(t, b, folder, testFile)
	mustFail(t, 1, resume(out, "-epochs", "3"), "the images differ from the dataset own")
}

// syntheticDigest is the output of sha256sum for the two concatenated IDX files of the synthetic images.
const syntheticDigest = "8ec5338b6d3b60442563c18bcf9f2252f3bdd685179cd75ef510779db5291181"
