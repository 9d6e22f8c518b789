package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// bakery has two commands. If $COMMAND_TEST is set, the test binary runs bakery instead of the tests.
var bakery = Program{
	Name:  "bakery",
	About: "Bakes bread.",
	Commands: map[string]Command{
		"bake": {About: "Bakes loaves.\nExample: bakery bake -loaves 2", Common: []string{"loaves", "burn"}, Run: bake},
		"wait": {About: "Waits for a signal.", Run: wait},
	},
}

// oven has a single command, which has no name.
var oven = Program{Name: "oven", Commands: map[string]Command{"": {About: "Bakes one loaf.", Run: bake}}}

func bake(_ context.Context, args []string, stdout, _ io.Writer) error {
	f := NewFlags()
	var loaves, rooms int
	var rate float64
	var burn bool
	kinds := []string{"any"}
	f.Count(&loaves, "loaves", 3, 1, "`number` of loaves")
	f.Range(&rooms, "rooms", 1, 1, 4, "`number` of rooms")
	f.Float64Var(&rate, "rate", 0.5, "`rate` of rising")
	f.BoolVar(&burn, "burn", false, "burn them")
	List(f, &kinds, "kinds", "`kinds` of bread", func(s string) (string, error) {
		if s != "rye" && s != "wheat" {
			return "", fmt.Errorf("unknown bread %q", s)
		}
		return s, nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	if burn {
		return errors.New("the loaves are coal")
	}
	_, err := fmt.Fprintln(stdout, loaves, rooms, rate, kinds, f.Given())
	return err
}

// wait prints "waiting", waits until ctx is done and prints "saving". If args is not empty, it then waits for the end
// of the standard input.
func wait(ctx context.Context, args []string, stdout, _ io.Writer) error {
	fmt.Fprintln(stdout, "waiting")
	<-ctx.Done()
	fmt.Fprintln(stdout, "saving")
	if len(args) > 0 {
		io.Copy(io.Discard, os.Stdin)
	}
	return fmt.Errorf("%w: all is saved", context.Cause(ctx))
}

func TestMain(m *testing.M) {
	if os.Getenv("COMMAND_TEST") != "" {
		bakery.Main()
	}
	os.Exit(m.Run())
}

func TestOutputAndExitStatus(t *testing.T) {
	for _, c := range []struct {
		p              Program
		args           string
		status         int
		stdout, stderr string // a part of the output, or "" for no output
	}{
		{bakery, "bake", 0, "3 1 0.5 [any] []\n", ""},
		{bakery, "bake -loaves 7 -rooms=4 -rate 1e-3 -kinds rye,wheat", 0, "7 4 0.001 [rye wheat] [kinds loaves rate rooms]\n", ""},
		{oven, "-loaves 7", 0, "7 1 0.5 [any] [loaves]\n", ""},
		{bakery, "bake -loaves 0", 2, "", `bakery bake: invalid value "0" for flag -loaves: it must be a whole number from 1 to 100000000 (bakery bake -h lists the flags)`},
		{bakery, "bake -loaves 100000001", 2, "", "from 1 to 100000000"},
		{bakery, "bake -loaves 1.5", 2, "", `invalid value "1.5" for flag -loaves: it must be a whole number from 1 to 100000000`},
		{bakery, "bake -rooms 5", 2, "", "from 1 to 4"},
		{bakery, "bake -kinds rye,oats", 2, "", `unknown bread "oats"`},
		{bakery, "bake -kinds rye,rye", 2, "", "rye is listed twice"},
		{bakery, "bake bread", 2, "", `unexpected argument "bread"`},
		{bakery, "bake -bread", 2, "", "-bread"},
		{bakery, "bake -burn", 1, "", "bakery bake: the loaves are coal\n"},
		{bakery, "brew", 2, "", `bakery: unknown command "brew": the commands are bake, wait`},
		{oven, "bread", 2, "", `oven: unexpected argument "bread"`},
	} {
		var stdout, stderr bytes.Buffer
		status := c.p.Run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if status != c.status || stdout.String() != c.stdout || (stderr.Len() == 0) != (c.stderr == "") || !strings.Contains(stderr.String(), c.stderr) || strings.Count(stderr.String(), "\n") > 1 {
			t.Errorf("%s %s: status %d, stdout %q, stderr %q; want %+v and at most one line on stderr", c.p.Name, c.args, status, stdout.String(), stderr.String(), c)
		}
	}
}

func TestHelpListsCommandsAndCommonFlagsFirst(t *testing.T) {
	for _, c := range []struct {
		p    Program
		args string
		want []string // in this order
	}{
		{bakery, "-h", []string{"Bakes bread.", "bake  ", "Bakes loaves.\n", "wait  "}},
		{bakery, "bake -loaves 9 -h", []string{"Usage: bakery bake [flags]", "Example: bakery", "-burn", "-loaves number", "number of loaves (default 3)", "-kinds", "-rate rate", "(default 0.5)", "-rooms"}},
		{oven, "-help", []string{"Usage: oven [flags]", "Bakes one loaf.", "-burn", "-kinds", "-loaves", "-rate"}},
	} {
		var stdout, stderr bytes.Buffer
		status := c.p.Run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		rest, found := stdout.String(), true
		for _, w := range c.want {
			if _, rest, found = strings.Cut(rest, w); !found {
				t.Errorf("%s %s does not print %q after the previous text:\n%s", c.p.Name, c.args, w, stdout.String())
				break
			}
		}
		if status != 0 || stderr.Len() > 0 {
			t.Errorf("%s %s: status %d, stderr %q; want the usage on stdout and status 0", c.p.Name, c.args, status, stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if status := bakery.Run(t.Context(), nil, &stdout, &stderr); status != 2 || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "Usage: ") {
		t.Errorf("no command: status %d, stdout %q, stderr %q; want the usage on stderr and status 2", status, stdout.String(), stderr.String())
	}
}

// process returns a command that runs the program bakery in another process.
func process(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "COMMAND_TEST=1")
	return c
}

func TestAnUnavailableInstructionSetIsAOneLineError(t *testing.T) {
	other := map[bool]string{false: "neon", true: "avx2"}[runtime.GOARCH == "arm64"]
	c := process("bake")
	c.Env = append(c.Env, "HVAE_SIMD="+other)
	out, _ := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 2 || strings.Count(string(out), "\n") != 1 || !strings.HasPrefix(string(out), "bakery: ") || !strings.Contains(string(out), "can be none") {
		t.Errorf("status %d, %s", c.ProcessState.ExitCode(), out)
	}
}
