//go:build unix

package command

import (
	"bufio"
	"bytes"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// start starts a process that runs the wait command, and waits until the process prints "waiting".
func start(t *testing.T, c *exec.Cmd) (stdout *bufio.Reader, stderr *bytes.Buffer) {
	t.Helper()
	stderr = new(bytes.Buffer)
	c.Stderr = stderr
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill() })
	stdout = bufio.NewReader(pipe)
	expect(t, stdout, "waiting\n")
	return stdout, stderr
}

// expect fails the test if the next line of stdout is not want.
func expect(t *testing.T, stdout *bufio.Reader, want string) {
	t.Helper()
	if line, err := stdout.ReadString('\n'); line != want {
		t.Fatalf("the process printed %q (error %v), want %q", line, err, want)
	}
}

// words returns the word that error messages use for each signal. It omits SIGHUP if nohup started the
// tests, because child processes then ignore SIGHUP.
func words() map[syscall.Signal]string {
	all := map[syscall.Signal]string{syscall.SIGINT: "interrupted", syscall.SIGTERM: "terminated", syscall.SIGHUP: "hung up"}
	if signal.Ignored(syscall.SIGHUP) {
		delete(all, syscall.SIGHUP)
	}
	return all
}

func TestASignalDeterminesTheErrorAndTheExitStatus(t *testing.T) {
	for s, word := range words() {
		c := process("wait")
		stdout, stderr := start(t, c)
		c.Process.Signal(s)
		expect(t, stdout, "saving\n")
		c.Wait()
		if got := c.ProcessState.ExitCode(); got != 128+int(s) || stderr.String() != "bakery wait: "+word+": all is saved\n" {
			t.Errorf("%v: status %d, stderr %q; want %d and the word %q", s, got, stderr, 128+int(s), word)
		}
	}
}

func TestARepeatedSignalForcesTheExit(t *testing.T) {
	if repeatAfter != time.Second {
		t.Errorf("repeatAfter is %v, want the second in the documentation of Main", repeatAfter)
	}
	for _, c := range []struct {
		signal      syscall.Signal
		repeatAfter string
		forced      bool
	}{
		{syscall.SIGTERM, "0s", true}, {syscall.SIGHUP, "0s", true}, {syscall.SIGINT, "0s", true},
		{syscall.SIGTERM, "1h", false}, {syscall.SIGHUP, "1h", false}, {syscall.SIGINT, "1h", true},
	} {
		word, ok := words()[c.signal]
		if !ok {
			continue
		}
		p := process("wait", "slow")
		p.Env = append(p.Env, "COMMAND_TEST_REPEAT_AFTER="+c.repeatAfter)
		stdin, err := p.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, stderr := start(t, p)
		p.Process.Signal(syscall.SIGTERM)
		expect(t, stdout, "saving\n")
		for range 3 {
			p.Process.Signal(c.signal)
		}
		status, want := 128+int(c.signal), "bakery: "+word+" again: exiting at once\n"
		if !c.forced {
			time.Sleep(50 * time.Millisecond) // a forced exit would happen now
			stdin.Close()
			status, want = 143, "bakery wait: terminated: all is saved\n"
		}
		p.Wait()
		if got := p.ProcessState.ExitCode(); got != status || stderr.String() != want {
			t.Errorf("%v after SIGTERM, repeatAfter = %s: status %d, stderr %q; want %d, %q", c.signal, c.repeatAfter, got, stderr, status, want)
		}
	}
}

func TestProgramsStartedByNohupIgnoreSIGHUP(t *testing.T) {
	nohup, err := exec.LookPath("nohup")
	if err != nil {
		t.Skip("nohup is not installed")
	}
	c := process("wait")
	c.Args = append([]string{"nohup", c.Path}, c.Args[1:]...)
	c.Path = nohup
	stdout, _ := start(t, c)
	c.Process.Signal(syscall.SIGHUP)
	c.Process.Signal(syscall.SIGTERM)
	expect(t, stdout, "saving\n")
	c.Wait()
	if got := c.ProcessState.ExitCode(); got != 143 {
		t.Errorf("status %d after SIGHUP and SIGTERM, want 143", got)
	}
}
