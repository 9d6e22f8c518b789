//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestANamedPipeIsRefused(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	run := filepath.Join(out, "vae-85547")
	table := tinyTable(out, "-rows", "vae", "-seeds", "85547")
	mustTable(t, table...)
	for name, args := range map[string][]string{
		filepath.Join(run, stateFile):      {"train", "-resume", "-out", run},
		filepath.Join(run, modelFile):      {"eval", "-checkpoint", filepath.Join(run, modelFile), "-data", "synthetic"},
		filepath.Join(run, metricsFile):    table,
		filepath.Join(run, evaluationFile): table,
		filepath.Join(out, tableFile):      table,
		filepath.Join(out, "x.png"):        {"sample", "-checkpoint", filepath.Join(run, modelFile), "-o", filepath.Join(out, "x.png")},
	} {
		os.Rename(name, name+".kept")
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Skip(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		c := exec.CommandContext(ctx, os.Args[0], args...)
		c.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1")
		stderr, _ := c.CombinedOutput()
		cancel()
		if c.ProcessState.ExitCode() != 1 || !strings.Contains(string(stderr), name+" is a pipe, not a file") {
			t.Errorf("%v: status %d, %s", args, c.ProcessState.ExitCode(), stderr)
		}
		if s, err := os.Lstat(name); err != nil || s.Mode()&os.ModeNamedPipe == 0 {
			t.Errorf("the pipe %s was replaced", name)
		}
		if os.Remove(name); filepath.Ext(name) != ".png" {
			if err := os.Rename(name+".kept", name); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Comparing the model's file with the state's weights does not block either.
	name := filepath.Join(run, modelFile)
	os.Remove(name)
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	refused(t, t.TempDir(), []string{"train", "-resume", "-out", run, "-epochs", "2"}, name+" is a pipe, not a file")
}
