package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// For invalid input, the program must print one line to stderr and must not change any file of an existing run.
func TestInvalidInputIsReportedOnOneLine(t *testing.T) {
	dir := t.TempDir()
	file, model := filepath.Join(dir, "file"), filepath.Join(dir, "run")
	write(t, []byte("not a model"), file)
	mustRun(t, tiny(model)...)
	checkpoint := filepath.Join(model, modelFile)
	times := func() map[string]time.Time {
		all := map[string]time.Time{}
		entries, err := os.ReadDir(model)
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				all[e.Name()] = info.ModTime()
			}
		}
		if err != nil || len(all) == 0 {
			t.Fatalf("the folder of the run contains %d files, %v", len(all), err)
		}
		return all
	}
	before := times()
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"tain"}, 2, `unknown command "tain"`},
		{[]string{"train"}, 2, "-out is missing"},
		{[]string{"train", "-foo"}, 2, "-foo"},
		{[]string{"train", "now", "-out", dir}, 2, `unexpected argument "now"`},
		{tiny(dir, "-model", "gan"), 2, `unknown model "gan"`},
		{tiny(dir, "-model", "hvae", "-K", "2", "-tempering", "hot"), 2, `unknown tempering "hot"`},
		{tiny(dir, "-model", "hvae", "-K", "-1"), 2, "invalid K = -1"},
		{tiny(dir, "-seed", "-1"), 2, "for flag -seed"},
		{[]string{"train", "-data", "Synthetic", "-out", dir}, 1, "use -data synthetic"},
		{[]string{"train", "-data", filepath.Join(dir, "typo"), "-out", dir}, 1, "there is no folder"},
		{tiny(dir, "-K", "3"), 2, "the model must be hvae"},
		{tiny(dir, "-tempering", "free"), 2, "the model must be hvae"},
		{tiny(dir, "-train", "121"), 2, "there are 120 training images"},
		{tiny(dir, "-K", "1.5"), 2, "for flag -K"},
		{tiny(dir, "-lr", "-1"), 2, "positive"},
		{tiny(dir, "-epochs", "0"), 2, "-epochs and -patience must be from 1 to"},
		{tiny(dir, "-resume"), 1, "cannot resume: " + filepath.Join(dir, stateFile) + ": no such file"},
		{tiny(file), 1, "cannot create the folder " + file + ": not a directory"},
		{tiny(model), 1, "already contains state.safetensors of a run"},
		{[]string{"train", "-data", file, "-out", filepath.Join(dir, "x")}, 1, file},
		{[]string{"eval"}, 2, "-checkpoint is missing"},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", "Synthetic"}, 1, "use -data synthetic"},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", filepath.Join(dir, "typo")}, 1, "there is no folder " + filepath.Join(dir, "typo")},
		{[]string{"eval", "-checkpoint", checkpoint, "-seed", "-1"}, 2, "for flag -seed"},
		{[]string{"eval", "-checkpoint", dir, "-data", "synthetic"}, 1, "model.safetensors: no such file"},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", "s.jpg"}, 2, "must end in .png"},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", "-"}, 2, "must end in .png"},
		{[]string{"reconstruct", "-checkpoint", checkpoint, "-data", "synthetic", "-o", "s"}, 2, "must end in .png"},
		{[]string{"eval", "-checkpoint", os.DevNull, "-data", "synthetic"}, 1, "not a regular file"},
		{[]string{"eval", "-checkpoint", file, "-data", "synthetic"}, 1, file + " is not a model file for this program: it is not a valid safetensors file"},
		{[]string{"eval", "-checkpoint", "nofile"}, 1, "mnist eval: nofile: no such file or directory"},
		{[]string{"eval", "-checkpoint", checkpoint, "-data", few, "-limit", "7"}, 2, "there are 6 test images"},
		{[]string{"eval", "-checkpoint", checkpoint, "-samples", "0"}, 2, "-samples"},
		{[]string{"sample", "-checkpoint", checkpoint}, 2, "must end in .png"},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", filepath.Join(file, "x.png")}, 1, filepath.Join(file, "x.png") + ": "},
		{[]string{"sample", "-checkpoint", checkpoint, "-o", "x.png", "-n", "10001"}, 2, "from 1 to 10000"},
		{[]string{"reconstruct", "-checkpoint", filepath.Join(dir, "none"), "-o", "x.png"}, 1, "no such file"},
	} {
		stdout, stderr, status := mnist(t.Context(), c.args...)
		if status != c.status || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "mnist") || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want status %d and a line with %q", c.args, status, stdout, stderr, c.status, c.want)
		}
		if after := times(); !maps.Equal(after, before) {
			t.Errorf("%v changed the folder of the run: its files had the times %v, now %v", c.args, before, after)
		}
	}
}

func TestHelpOfTrainShowsCommonFlagsFirst(t *testing.T) {
	help, _ := mustRun(t, "train", "-h")
	for _, want := range []string{"For example", "mnist train -model hvae", "-resume -epochs", "  -K number", "  -epochs number", "(default 2000)", "  -out folder", "  -vary-eps", "  -batch number", "  -patience number", "(default 100)"} {
		_, rest, found := strings.Cut(help, want)
		if !found {
			t.Fatalf("the help lacks %q, or prints it too early; the rest is %s", want, help)
		}
		help = rest
	}
}

func TestCheckpointMayBeTheFolderOfARun(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, tiny(dir)...)
	pictures := map[string]string{}
	for _, checkpoint := range []string{dir, filepath.Join(dir, modelFile)} {
		picture := filepath.Join(t.TempDir(), strings.Repeat("x", 251)+".png") // the longest file name that most file systems allow
		mustRun(t, "sample", "-checkpoint", checkpoint, "-o", picture)
		pictures[checkpoint] = string(read(t, picture))
	}
	if pictures[dir] != pictures[filepath.Join(dir, modelFile)] {
		t.Error("-checkpoint with the folder of a run gives another picture than with its model")
	}
}
