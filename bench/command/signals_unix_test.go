//go:build unix

package command

import (
	"bufio"
	"bytes"
	"errors"
	"syscall"
	"testing"
	"time"
)

func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	for _, c := range []struct {
		first, second syscall.Signal // second is 0 if only one signal is sent
		status        int            // −n if signal n ends the process at once
		stderr        string
	}{
		{syscall.SIGINT, 0, 130, "bakery: interrupt signal received: all is saved\n"},
		{syscall.SIGTERM, 0, 130, "bakery: terminated signal received: all is saved\n"},
		{syscall.SIGTERM, syscall.SIGINT, -2, ""},
		{syscall.SIGINT, syscall.SIGTERM, -15, ""},
	} {
		p, stderr := process("-wait"), &bytes.Buffer{}
		p.Stderr = stderr
		stdin, errIn := p.StdinPipe()
		pipe, errOut := p.StdoutPipe()
		if err := errors.Join(errIn, errOut, p.Start()); err != nil {
			t.Fatal(err)
		}
		defer time.AfterFunc(20*time.Second, func() { p.Process.Kill() }).Stop()
		stdout := bufio.NewReader(pipe)
		started, _ := stdout.ReadString('\n')
		p.Process.Signal(c.first)
		if saving, err := stdout.ReadString('\n'); started+saving != "3 loaves\nsaving\n" {
			t.Fatalf("the process printed %q (error %v)", started+saving, err)
		}
		if c.second == 0 {
			stdin.Close()
		} else {
			go func() { // repeats the signal, because the process may still be handling the first
				for p.Process.Signal(c.second) == nil {
					time.Sleep(10 * time.Millisecond)
				}
			}()
		}
		p.Wait()
		got := p.ProcessState.ExitCode()
		if w := p.ProcessState.Sys().(syscall.WaitStatus); w.Signaled() {
			got = -int(w.Signal())
		}
		if got != c.status || stderr.String() != c.stderr {
			t.Errorf("%v, then %d: status %d, stderr %q; want status %d, stderr %q", c.first, c.second, got, stderr.String(), c.status, c.stderr)
		}
	}
}
