//go:build unix

package command

import (
	"bufio"
	"bytes"
	"fmt"
	"syscall"
	"testing"
	"time"
)

func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	for _, c := range []struct {
		first, second syscall.Signal // second is 0 if only one signal is sent
		state, stderr string
	}{
		{syscall.SIGINT, 0, "exit status 130", "bakery: interrupt signal received: all is saved\n"},
		{syscall.SIGTERM, 0, "exit status 130", "bakery: terminated signal received: all is saved\n"},
		{syscall.SIGTERM, syscall.SIGINT, "signal: interrupt", ""},
		{syscall.SIGINT, syscall.SIGTERM, "signal: terminated", ""},
	} {
		p, stderr := process("-wait"), &bytes.Buffer{}
		p.Stderr = stderr
		stdin, _ := p.StdinPipe()
		stdout, _ := p.StdoutPipe()
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		defer time.AfterFunc(20*time.Second, func() { p.Process.Kill() }).Stop()
		lines := bufio.NewReader(stdout)
		lines.ReadString('\n') // the process has started
		p.Process.Signal(c.first)
		if saving, err := lines.ReadString('\n'); saving != "saving\n" {
			t.Fatalf("the process printed %q (error %v)", saving, err)
		}
		if c.second == 0 {
			stdin.Close()
		}
		go func() { // repeats the signal, because the process may still be handling the first
			for c.second != 0 && p.Process.Signal(c.second) == nil {
				time.Sleep(10 * time.Millisecond)
			}
		}()
		p.Wait()
		if state := fmt.Sprint(p.ProcessState); state != c.state || stderr.String() != c.stderr {
			t.Errorf("%v, then %d: %s, stderr %q; want %s, %q", c.first, c.second, state, stderr.String(), c.state, c.stderr)
		}
	}
}
