package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// bakery has two commands. If $COMMAND_TEST is set, the test binary runs bakery instead of the tests.
var bakery = Program{
	Name:  "bakery",
	About: "Bakes bread.",
	Commands: []Command{
		{Name: "bake", About: "Bakes loaves.", Run: bake},
		{Name: "wait", About: "Waits for a signal.", Run: wait},
	},
}

// oven has one command without a name.
var oven = Program{Name: "oven", About: "Bakes one loaf.", Commands: []Command{{Run: bake}}}

func bake(_ context.Context, args []string, stdout, _ io.Writer) error {
	f := NewFlags()
	var loaves int
	var seed uint64
	var rate float64
	var kind string
	var burn bool
	f.Count(&loaves, "loaves", 3, 1, "`number` of loaves")
	f.Seed(&seed, "seed of the dough")
	f.Rate(&rate, 0.5, "`rate` of rising")
	f.StringVar(&kind, "kind", "rye", "`kind` of bread")
	f.BoolVar(&burn, "burn", false, "burn them")
	if err := f.Parse(args); err != nil {
		return err
	}
	if burn {
		return errors.New("the loaves are coal")
	}
	_, err := fmt.Fprintf(stdout, "%d %s %v %d %v\n", loaves, kind, rate, seed, f.Given())
	return err
}

// wait prints "waiting", waits until ctx is done and prints "saving". If args is not empty, it also
// waits for the end of the standard input.
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
		if d, err := time.ParseDuration(os.Getenv("COMMAND_TEST_REPEAT_AFTER")); err == nil {
			repeatAfter = d
		}
		bakery.Main()
	}
	os.Exit(m.Run())
}

// run runs p in this process and returns its output and exit status.
func run(p Program, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = p.Run(context.Background(), args, &out, &err)
	return out.String(), err.String(), status
}

func TestErrorsAreOneLineOnStderr(t *testing.T) {
	for _, c := range []struct {
		p      Program
		args   string
		status int
		want   string
	}{
		{bakery, "bake -loaves 0", 2, `bakery bake: invalid value "0" for flag -loaves: it must be a whole number from 1 to 100000000 (`},
		{bakery, "bake -loaves 100000001", 2, "from 1 to 100000000"},
		{bakery, "bake -loaves 1.5", 2, "whole number"},
		{bakery, "bake -seed -1", 2, `invalid value "-1" for flag -seed: a seed must be a whole number from 0 to 18446744073709551615`},
		{bakery, "bake -seed 18446744073709551616", 2, "a seed must be"},
		{bakery, "bake -lr 0", 2, "the learning rate must be a positive finite number"},
		{bakery, "bake -lr NaN", 2, "the learning rate must be a positive finite number"},
		{bakery, "bake -lr Inf", 2, "the learning rate must be a positive finite number"},
		{bakery, "bake -lr fast", 2, "the learning rate must be a positive finite number"},
		{bakery, "bake bread", 2, `bakery bake: unexpected argument "bread": only flags are allowed (bakery bake -h lists the flags)`},
		{bakery, "bake -bread", 2, "-bread"},
		{bakery, "bake -burn", 1, "bakery bake: the loaves are coal\n"},
		{bakery, "brew", 2, `bakery: unknown command "brew": the commands are bake, wait`},
		{bakery, "help brew", 2, `unknown command "brew"`},
		{bakery, "-loaves 3", 2, `unknown command "-loaves"`},
		{oven, "-loaves 0", 2, `oven: invalid value "0"`},
		{oven, "bread", 2, `oven: unexpected argument "bread"`},
		{oven, "-burn", 1, "oven: the loaves are coal\n"},
	} {
		stdout, stderr, status := run(c.p, strings.Fields(c.args)...)
		if status != c.status || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, c.p.Name) || !strings.Contains(stderr, c.want) {
			t.Errorf("%s %s: status %d, stdout %q, stderr %q; want status %d and one line on stderr with %q", c.p.Name, c.args, status, stdout, stderr, c.status, c.want)
		}
	}
}

func TestFlagsSetValuesAndGivenReturnsTheirNames(t *testing.T) {
	for args, want := range map[string]string{
		"": "3 rye 0.5 1 []\n",
		"-loaves 7 -lr 1e-3 -seed 18446744073709551615 -kind=wheat": "7 wheat 0.001 18446744073709551615 [kind loaves lr seed]\n",
	} {
		for _, p := range []Program{bakery, oven} {
			all := strings.Fields(args)
			if p.Name == "bakery" {
				all = append([]string{"bake"}, all...)
			}
			if stdout, stderr, status := run(p, all...); stdout != want || stderr != "" || status != 0 {
				t.Errorf("%q: status %d, stdout %q, stderr %q; want %q", args, status, stdout, stderr, want)
			}
		}
	}
}

func TestHelpListsCommandsAndFlags(t *testing.T) {
	flags := []string{"-loaves number", "number of loaves (default 3)", "-seed", "(default 1)", "-lr rate", "(default 0.5)", "-kind kind", `(default "rye")`, "-burn", "-version"}
	for _, c := range []struct {
		p    Program
		args string
		want []string
	}{
		{bakery, "-h", []string{"Bakes bread.", "bake ", "Bakes loaves.", "wait "}},
		{bakery, "help", []string{"bake ", "wait "}},
		{bakery, "bake -h", append(flags, "Bakes loaves.")},
		{bakery, "help bake", flags},
		{oven, "-help", append(flags, "Bakes one loaf.")},
		{oven, "help", flags},
	} {
		stdout, stderr, status := run(c.p, strings.Fields(c.args)...)
		if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "Usage: "+c.p.Name+" ") {
			t.Errorf("%s %s: status %d, stderr %q, stdout %q; want the usage on stdout and status 0", c.p.Name, c.args, status, stderr, stdout)
		}
		for _, w := range c.want {
			if !strings.Contains(stdout, w) {
				t.Errorf("%s %s does not print %q:\n%s", c.p.Name, c.args, w, stdout)
			}
		}
	}
	if stdout, stderr, status := run(bakery); status != 2 || stdout != "" || !strings.HasPrefix(stderr, "Usage: ") {
		t.Errorf("no command: status %d, stdout %q, stderr %q; want the usage on stderr and status 2", status, stdout, stderr)
	}
}

func TestVersionPrintsVersionGoVersionAndInstructionSet(t *testing.T) {
	want := regexp.MustCompile(`^(bakery|oven): version \S+; go1\.\S+ \w+/\w+; SIMD (none|neon|avx2|avx512)\n$`)
	for _, c := range []struct {
		p    Program
		args []string
	}{{bakery, []string{"-version"}}, {bakery, []string{"bake", "-version"}}, {bakery, []string{"bake", "-version", "-loaves", "3"}}, {oven, []string{"-version"}}} {
		if stdout, stderr, status := run(c.p, c.args...); status != 0 || stderr != "" || !want.MatchString(stdout) {
			t.Errorf("%v: status %d, stderr %q, stdout %q", c.args, status, stderr, stdout)
		}
	}
	for _, invalid := range []string{"-bogus", "stray"} {
		if stdout, stderr, status := run(oven, "-version", invalid); status != 2 || stdout != "" || !strings.Contains(stderr, strings.Trim(invalid, "-")) {
			t.Errorf("-version %s: status %d, stdout %q, stderr %q; want status 2", invalid, status, stdout, stderr)
		}
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
	for _, args := range [][]string{{"bake"}, {"-version"}, {"-h"}} {
		c := process(args...)
		c.Env = append(c.Env, "HVAE_SIMD="+other)
		out, _ := c.CombinedOutput()
		if c.ProcessState.ExitCode() != 2 || strings.Count(string(out), "\n") != 1 || !strings.HasPrefix(string(out), "bakery: ") || !strings.Contains(string(out), "can be none") {
			t.Errorf("%v: status %d, %s", args, c.ProcessState.ExitCode(), out)
		}
	}
}
