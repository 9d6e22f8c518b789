//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func init() {
	if s := os.Getenv("MNIST_TEST_FILE_SIZE"); s != "" {
		signal.Ignore(syscall.SIGXFSZ) // a write beyond the limit then fails, as on a full disk
		n, err := strconv.ParseUint(s, 10, 64)
		limit := syscall.Rlimit{Cur: n, Max: n}
		if err := errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
}

// As README.md states, 4 GiB of address space is enough for up to 16 cores.
func TestTrainingRunsIn4GiBOfAddressSpace(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only tested on Linux, where the shell limits the address space")
	}
	limited := []string{"-c", `ulimit -v 4194304 && exec "$0" "$@"`, os.Args[0]}
	c := exec.Command("sh", append(limited, tiny(t.TempDir(), hvaeFlags...)...)...)
	c.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1", "GOMAXPROCS=16")
	if output, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	whole, parts := t.TempDir(), t.TempDir()
	mustRun(t, tiny(whole, "-epochs", "2")...)
	mustRun(t, tiny(parts)...)
	interrupted(t, 0, tiny(parts, "-epochs", "2", "-resume")...) // now the state contains -epochs 2
	before := files(t, parts)
	for _, c := range []struct {
		room int // maximum size of a file in bytes
		file string
	}{{20, metricsFile}, {1000, curveFile}, {100_000, modelFile}, {2_000_000, modelFile}, {4_000_000, stateFile}} {
		cmd := process(tiny(parts, "-epochs", "2", "-resume")...)
		cmd.Env = append(cmd.Env, fmt.Sprintf("MNIST_TEST_FILE_SIZE=%d", c.room))
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(string(out), filepath.Join(parts, c.file)+": file too large\n") {
			t.Errorf("at most %d bytes per file: %v, %s; want status 1 and an error about %s", c.room, err, out, c.file)
		}
		after := files(t, parts)
		if after[stateFile] != before[stateFile] || len(after) != len(before) {
			t.Errorf("at most %d bytes per file: the state or the list of files changed", c.room)
		}
	}
	mustRun(t, tiny(parts, "-epochs", "2", "-resume")...)
	sameFiles(t, "resumed after failed writes", whole, parts)
}

func TestASignalSavesTheRunAndSetsTheExitStatus(t *testing.T) {
	t.Parallel()
	whole, parts := t.TempDir(), t.TempDir()
	args := tiny(parts, forever...)
	for _, c := range []struct {
		signal syscall.Signal
		status int
		word   string
	}{{syscall.SIGINT, 130, "interrupted after batch"}, {syscall.SIGTERM, 143, "terminated after batch"}} {
		cmd := process(args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(stdout)
		if line, err := lines.ReadString('\n'); err != nil { // the second epoch has begun
			t.Fatalf("%q, %v, %s", line, err, stderr.String())
		}
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, lines) // a full pipe would block the program
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(stderr.String(), c.word) || !strings.Contains(stderr.String(), "saved in "+parts) {
			t.Errorf("%v: status %d, stderr %q; want status %d", c.signal, got, stderr.String(), c.status)
		}
		args = resume(parts)
	}
	epochs := []string{"-patience", "1000000", "-epochs", strconv.Itoa(len(metricsOf(t, parts)) + 2)}
	mustRun(t, append(args, epochs...)...)
	mustRun(t, tiny(whole, epochs...)...)
	sameFiles(t, "after two signals", whole, parts)
}

// Reading a named pipe to which no process writes would block.
func TestANamedPipeIsRefused(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	run, picture := filepath.Join(out, "vae-85547"), filepath.Join(out, "x.png")
	table := tinyTable(out, "-rows", "vae", "-seeds", "85547")
	mustRun(t, table...)
	model := filepath.Join(run, modelFile)
	for _, c := range []struct {
		name string
		args []string
	}{
		{filepath.Join(run, stateFile), resume(run)},
		{model, []string{"eval", "-checkpoint", model, "-data", "synthetic"}},
		{model, resume(run, "-epochs", "2")},
		{filepath.Join(run, metricsFile), table},
		{filepath.Join(run, evaluationFile), table},
		{filepath.Join(out, tableFile), table},
		{picture, []string{"sample", "-checkpoint", model, "-o", picture}},
	} {
		os.Rename(c.name, c.name+".kept") // fails for the picture, which does not exist
		if err := syscall.Mkfifo(c.name, 0o600); err != nil {
			t.Skip(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		p := exec.CommandContext(ctx, os.Args[0], c.args...)
		p.Env = process().Env
		stderr, _ := p.CombinedOutput()
		cancel()
		if p.ProcessState.ExitCode() != 1 || !strings.Contains(string(stderr), c.name+" is a pipe, not a file") {
			t.Errorf("%v: status %d, %s", c.args, p.ProcessState.ExitCode(), stderr)
		}
		if s, err := os.Lstat(c.name); err != nil || s.Mode()&os.ModeNamedPipe == 0 {
			t.Errorf("the pipe %s was replaced", c.name)
		}
		os.Remove(c.name)
		os.Rename(c.name+".kept", c.name)
	}
}
