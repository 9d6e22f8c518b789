package main

import (
	"path/filepath"
	"strings"
	"testing"

	"hvae/mnist/data"
	"hvae/mnist/model"
)

// The files of a run on images other than MNIST must contain the name of their dataset. If a model was trained on a
// dataset other than the one it is evaluated on, eval must print a note.
func TestRunsAndEvaluationsNameTheirImages(t *testing.T) {
	folder, out := ownImages(t, 90, 7), filepath.Join(t.TempDir(), "run")
	set, err := data.Load(folder, nil)
	noError(t, err)
	stdout, stderr := mustRun(t, "train", "-data", folder, "-latent", "2", "-batch", "25", "-out", out, "-epochs", "1")
	if !strings.Contains(stdout, " on "+set.Name+" ") || stderr != "" {
		t.Errorf("stdout %s, stderr %s, want the name %s", stdout, stderr, set.Name)
	}
	checkpoint := filepath.Join(out, modelFile)
	c, err := model.ReadCheckpoint(checkpoint)
	if err != nil || c.Data != set.Name || c.DataSHA256 != set.SHA256 {
		t.Errorf("the model contains the data %q, %s (error %v)", c.Data, c.DataSHA256, err)
	}
	if curve := read(t, out, curveFile); !strings.Contains(string(curve), "on "+set.Name) {
		t.Error("the curve does not contain the name of the images")
	}
	old := c
	old.Data, old.DataSHA256 = "", "" // as in files of older versions
	write(t, old.File().Encode(), out, "old")
	for _, k := range []struct {
		checkpoint, data, name string
		trained                any
		note                   string // part of the note about the training images; empty for no note
	}{
		{modelFile, folder, set.Name, set.Name, ""},
		{modelFile, "synthetic", "synthetic", set.Name, `trained on "` + set.Name + `"`},
		{"old", "synthetic", "synthetic", "", ""},
	} {
		args := []string{"eval", "-limit", "2", "-samples", "2", "-runs", "1", "-checkpoint", filepath.Join(out, k.checkpoint), "-data", k.data}
		text, stderr := mustRun(t, args...)
		if !strings.Contains(text, " images of "+k.name+",") || !strings.Contains(stderr, k.note) || strings.Contains(stderr, "trained on") != (k.note != "") {
			t.Errorf("%+v: stdout %q, stderr %q", k, text, stderr)
		}
		stdout, _ := mustRun(t, append(args, "-json")...)
		if o := object(t, stdout); o["data"] != k.name || o["trained_on"] != k.trained {
			t.Errorf("%+v: the JSON object is %v", k, o)
		}
	}
}

// syntheticDigest is the output of sha256sum for the two concatenated IDX files of the synthetic images.
const syntheticDigest = "2befd1d5f256430cea9583c8663567cb54dc0b86c7e6f818f9ff7af8a81fb379"
