package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hvae/mnist/data"
	"hvae/mnist/model"
)

// ownImages writes a user's own images, all different, into a new folder.
func ownImages(t *testing.T, train, test int) (folder string) {
	t.Helper()
	folder = t.TempDir()
	pixels := func(n int) (p []byte) {
		for i := range n * 784 {
			p = append(p, byte(i*i>>5)&byte(i>>3))
		}
		return p
	}
	if err := writeImages(folder, pixels(train), pixels(test)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// writeImages writes the pixels of training and of test images as their files.
func writeImages(folder string, train, test []byte) error {
	for name, pixels := range map[string][]byte{trainFile: train, testFile: test} {
		var b []byte
		for _, v := range []int{2051, len(pixels) / 784, 28, 28} {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		if err := os.WriteFile(filepath.Join(folder, name), append(b, pixels...), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// evaluated returns the text, the notes on stderr and the JSON object that eval prints.
func evaluated(t *testing.T, args ...string) (text, note string, object map[string]any) {
	t.Helper()
	args = append([]string{"eval", "-limit", "2", "-samples", "2", "-runs", "1"}, args...)
	text, note, status := mnist(t.Context(), args...)
	if status != 0 {
		t.Fatalf("%v: status %d, %s", args, status, note)
	}
	stdout, _, _ := mnist(t.Context(), append(args, "-json")...)
	if err := json.Unmarshal([]byte(stdout), &object); err != nil {
		t.Fatal(err)
	}
	return text, note, object
}

func TestEvalNamesItsDataAndNotesOtherTrainingData(t *testing.T) {
	name := filepath.Join(t.TempDir(), "model.safetensors")
	c := model.Checkpoint{Config: model.Config{Kind: "vae", Tempering: "none", Latent: 2}, Epoch: 1, ELBO: -1}
	c.Params = model.NewParams[float32](c.Config, -1, 1)
	folder := ownImages(t, 30, 3)
	for _, k := range []struct {
		data, digest string // of the checkpoint
		args         []string
		name         string // of the images
		note         string // what is said about the model's, or nothing
	}{
		{"synthetic", syntheticDigest, []string{"-data", "synthetic"}, "synthetic", ""},
		{"synthetic", syntheticDigest, []string{"-data", folder, "-dataset", "own"}, "own", `trained on "synthetic"`},
		{"own", strings.Repeat("0", 64), []string{"-data", folder, "-dataset", "own"}, "own", `trained on other images called "own"`},
		{"mnist", strings.Repeat("0", 64), []string{"-data", "synthetic"}, "synthetic", `trained on "mnist"`},
		{"", "", []string{"-data", folder, "-dataset", "own"}, "own", ""}, // a file of before
	} {
		c.Data, c.DataSHA256 = k.data, k.digest
		if err := os.WriteFile(name, c.File().Encode(), 0o644); err != nil {
			t.Fatal(err)
		}
		text, note, object := evaluated(t, append(k.args, "-checkpoint", name)...)
		if !strings.Contains(text, " images of "+k.name+",") || object["data"] != k.name {
			t.Errorf("%+v: the name of the data is not in %q or not in %v", k, text, object)
		}
		if k.note == "" && (note != "" || strings.Contains(text, "trained on")) || !strings.Contains(note, k.note) || !strings.Contains(text, k.note) {
			t.Errorf("%+v: stderr %q, stdout %q", k, note, text)
		}
		if trained, _ := object["trained_on"].(string); trained != k.data {
			t.Errorf("%+v: %v", k, object)
		}
	}
}

func TestARunOnOwnImagesNamesThem(t *testing.T) {
	folder, out := ownImages(t, 90, 7), filepath.Join(t.TempDir(), "run")
	args := []string{"train", "-data", folder, "-latent", "2", "-batch", "25", "-out", out, "-epochs", "1"}
	if _, stderr, status := mnist(t.Context(), args...); status != 1 || !strings.Contains(stderr, "-dataset NAME") {
		t.Errorf("without a name: status %d, %s", status, stderr)
	}
	stdout, stderr, status := mnist(t.Context(), append(args, "-dataset", "own")...)
	if status != 0 || !strings.Contains(stdout, " on own ") {
		t.Fatalf("status %d, stdout %s, stderr %s", status, stdout, stderr)
	}
	set, err := data.Load(t.Context(), folder, "own", nil)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint := filepath.Join(out, modelFile)
	c, err := model.ReadCheckpoint(checkpoint)
	if err != nil || c.Data != "own" || c.DataSHA256 != set.SHA256() {
		t.Errorf("the model says %q, %s, %v", c.Data, c.DataSHA256, err)
	}
	state, err := model.ReadState(filepath.Join(out, stateFile))
	if err != nil || state.Settings["dataset"] != "own" || state.Settings["dataset_sha256"] != set.SHA256() || state.Settings["train"] != "0" {
		t.Errorf("the state says %v, %v", state.Settings, err)
	}
	if curve, err := os.ReadFile(filepath.Join(out, curveFile)); err != nil || !strings.Contains(string(curve), "on own") {
		t.Errorf("the curve does not say it, %v", err)
	}
	for _, c := range [][]string{{"sample"}, {"reconstruct", "-data", folder, "-dataset", "own", "-n", "3"}} {
		if _, stderr, status := mnist(t.Context(), append(c, "-checkpoint", checkpoint, "-o", filepath.Join(out, "x.png"))...); status != 0 || !strings.Contains(stderr, "own") {
			t.Errorf("%s: status %d, %s", c[0], status, stderr)
		}
	}
	// A sixth of the images is for validation.
	if text, note, _ := evaluated(t, "-data", folder, "-dataset", "own", "-checkpoint", checkpoint, "-split", "validation"); note != "" || !strings.Contains(text, "validation images of own") {
		t.Errorf("stdout %s, stderr %s", text, note)
	}
	if _, stderr, status := mnist(t.Context(), "eval", "-data", folder, "-dataset", "own", "-checkpoint", checkpoint, "-split", "validation", "-limit", "16"); status != 2 || !strings.Contains(stderr, "has 15 images") {
		t.Errorf("status %d, %s", status, stderr)
	}
	// The run resumes with the same images, but not with others of the same name.
	mustTrain(t, "train", "-resume", "-out", out, "-epochs", "2")
	name := filepath.Join(folder, "t10k-images-idx3-ubyte")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := mnist(t.Context(), "train", "-resume", "-out", out, "-epochs", "3"); status != 1 || !strings.Contains(stderr, "other images called own") {
		t.Errorf("with a pixel changed: status %d, %s", status, stderr)
	}
}

// syntheticDigest is the output of sha256sum for the synthetic images as IDX files.
const syntheticDigest = "8ec5338b6d3b60442563c18bcf9f2252f3bdd685179cd75ef510779db5291181"
