//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestASignalSavesTheRunAndSetsTheExitStatus(t *testing.T) {
	t.Parallel()
	whole, parts := t.TempDir(), t.TempDir()
	endless := []string{"-patience", "1000000", "-epochs"}
	args := tiny(parts, append(endless, "1000000")...)
	for _, c := range []struct {
		signal syscall.Signal
		status int
		word   string
	}{{syscall.SIGHUP, 129, "hung up after batch"}, {syscall.SIGINT, 130, "interrupted after batch"}, {syscall.SIGTERM, 143, "terminated after batch"}} {
		if signal.Ignored(c.signal) { // nohup makes the program ignore it
			continue
		}
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1")
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
		io.Copy(io.Discard, lines) // a pipe that nobody reads would fill up
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(stderr.String(), c.word) || !strings.Contains(stderr.String(), "saved in "+parts) {
			t.Errorf("%v: status %d, %q; want status %d", c.signal, got, stderr.String(), c.status)
		}
		args = []string{"train", "-resume", "-out", parts}
	}
	endless = append(endless, strconv.Itoa(savedPosition(t, parts).Epoch+1))
	mustTrain(t, append(args, endless...)...)
	mustTrain(t, tiny(whole, endless...)...)
	if diff := cmp.Diff(files(t, whole), files(t, parts)); diff != "" {
		t.Error("after three signals the run ends differently")
	}
}
