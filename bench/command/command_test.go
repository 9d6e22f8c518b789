package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wait is a program that waits for a signal, and then for the end of its standard input. If $COMMAND_TEST is set, the
// test binary runs this program instead of the tests.
func wait(ctx context.Context, _ []string, stdout, _ io.Writer) error {
	fmt.Fprintln(stdout, "waiting")
	<-ctx.Done()
	fmt.Fprintln(stdout, "saving")
	io.Copy(io.Discard, os.Stdin)
	return fmt.Errorf("%w: all is saved", context.Cause(ctx))
}

func TestMain(m *testing.M) {
	if os.Getenv("COMMAND_TEST") != "" {
		Main("wait", wait)
	}
	os.Exit(m.Run())
}

// process returns a command that runs the function wait in a separate process.
func process() *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "COMMAND_TEST=1")
	return c
}

func TestAnUnavailableInstructionSetIsAUsageError(t *testing.T) {
	c := process()
	c.Env = append(c.Env, "HVAE_SIMD=avx3")
	out, _ := c.CombinedOutput()
	line := strings.Contains(string(out), "can be none") && strings.Count(string(out), "\n") == 1
	if c.ProcessState.ExitCode() != 2 || !line {
		t.Errorf("status %d, %s", c.ProcessState.ExitCode(), out)
	}
}

// The first signal cancels the context, so that the program can end normally. A second signal ends the process at once.
func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals for other processes")
	}
	for _, c := range []struct {
		first, second syscall.Signal // second is 0 if only one signal is sent
		state, stderr string
	}{
		{syscall.SIGINT, 0, "exit status 130", "wait: interrupt signal received: all is saved\n"},
		{syscall.SIGTERM, 0, "exit status 143", "wait: terminated signal received: all is saved\n"},
		{syscall.SIGTERM, syscall.SIGINT, "signal: interrupt", ""},
	} {
		p, stderr := process(), &bytes.Buffer{}
		p.Stderr = stderr
		stdin, _ := p.StdinPipe()
		stdout, _ := p.StdoutPipe()
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(stdout)
		lines.ReadString('\n') // the process has started
		p.Process.Signal(c.first)
		lines.ReadString('\n') // the process has received the signal, and waits for the end of the standard input
		if c.second == 0 {
			stdin.Close()
		}
		go func() { // repeats the signal, because the process may still be handling the first signal
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

func TestIntegerFlagsAreDecimal(t *testing.T) {
	f := flag.NewFlagSet("test", flag.ContinueOnError)
	n, seed := f.Int("n", 1, ""), f.Uint64("seed", 0, "")
	f.Func("other", "", func(string) error { return nil })
	var help bytes.Buffer
	if err := Parse(f, "", []string{"-h"}, &help); err != flag.ErrHelp || strings.Count(help.String(), "default") != 1 {
		t.Errorf("error %v; the help must show the default value of -n, which is not zero:\n%s", err, &help)
	}
	err := Parse(f, "", []string{"-n", "-010", "-seed=018446744073709551615", "-other", "0x"}, nil)
	if *n != -10 || *seed != math.MaxUint64 || err != nil {
		t.Errorf("the numbers -010 and 018446744073709551615 are read as %d and %d (error %v)", *n, *seed, err)
	}
	for _, number := range []string{"", "0x10", "1_000", "1e3", "18446744073709551616", "ten"} {
		if err := Parse(f, "", []string{"-seed", number}, nil); !errors.As(err, new(usageError)) {
			t.Errorf("%q is accepted as a number (error %v)", number, err)
		}
	}
}
