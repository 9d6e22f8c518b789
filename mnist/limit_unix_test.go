//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func init() {
	if s := os.Getenv("MNIST_TEST_FILE_SIZE"); s != "" {
		signal.Ignore(syscall.SIGXFSZ) // then a write fails, as on a full disk
		n, err := strconv.ParseUint(s, 10, 64)
		limit := syscall.Rlimit{Cur: n, Max: n}
		if err := errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
}

func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	whole, parts := t.TempDir(), t.TempDir()
	mustTrain(t, tiny(whole, "-epochs", "2")...)
	mustTrain(t, tiny(parts, "-epochs", "1")...)
	ended, end := context.WithCancel(t.Context())
	end()
	mnist(ended, tiny(parts, "-epochs", "2", "-resume")...) // saves that there shall be two epochs
	before := files(t, parts)
	for _, c := range []struct {
		room int // bytes that a file may have
		file string
	}{{20, metricsFile}, {1000, curveFile}, {100_000, modelFile}, {2_000_000, modelFile}, {4_000_000, stateFile}} {
		cmd := exec.Command(os.Args[0], tiny(parts, "-epochs", "2", "-resume")...)
		cmd.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1", fmt.Sprintf("MNIST_TEST_FILE_SIZE=%d", c.room))
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(string(out), filepath.Join(parts, c.file)+": file too large\n") {
			t.Errorf("room for %d bytes: %v, %s; want status 1 and a word of %s", c.room, err, out, c.file)
		}
		after := files(t, parts)
		if after[stateFile] != before[stateFile] || len(after) != len(before) {
			t.Errorf("room for %d bytes: the state or the list of files changed", c.room)
		}
	}
	mustTrain(t, tiny(parts, "-epochs", "2", "-resume")...)
	if diff := cmp.Diff(files(t, whole), files(t, parts)); diff != "" {
		t.Error("after all that the run ends differently")
	}
}
