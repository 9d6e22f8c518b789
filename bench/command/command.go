// This file is the former front end. Program.Main will be replaced by Main.

package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"hvae/linalg"
)

// A Program is a set of named commands. A program without subcommands has one command named "".
type Program struct {
	Name     string // name of the program in error messages and in the usage
	About    string // one or more sentences for the usage
	Commands map[string]Command
}

// A Command is a subcommand of a program.
type Command struct {
	About  string   // one or more sentences for the usage; the first line also describes the command in the list of commands
	Common []string // names of the flags that -h lists first; nil for one list of all flags
	// Run parses args with Flags and executes the command. It writes results to stdout and all other output to stderr.
	// When ctx is done, Run saves its state and returns an error that wraps context.Cause(ctx).
	Run func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// Main runs the program with the arguments of the process and exits. The exit status is 0 after success, 1 after a
// failure, 2 if the command line is invalid, and 128 + n after signal n: 130 after SIGINT (Ctrl-C) and 143 after
// SIGTERM. The first signal cancels the context of the command. A second Ctrl-C ends the process at once. Main ignores
// a second SIGTERM, because timeout(1) sends each signal twice.
func (p Program) Main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		first := <-signals
		signal.Reset(os.Interrupt)
		cancel(signalError(first.(syscall.Signal)))
	}()
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// A signalError is the cause of a context that was cancelled by a signal. It wraps context.Canceled.
type signalError syscall.Signal

func (s signalError) Error() string { return fmt.Sprintf("stopped (%v)", syscall.Signal(s)) }

func (signalError) Unwrap() error { return context.Canceled }

// Run runs the program with the given arguments and returns the exit status. If ctx is cancelled without a signal, the
// exit status is 130.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	line := p.Name // the command line without flags
	fail := func(status int, format string, args ...any) int {
		fmt.Fprintf(stderr, line+": "+format+"\n", args...)
		return status
	}
	if _, err := linalg.Vectors(); err != nil { // HVAE_SIMD names an unavailable instruction set
		return fail(2, "%v", err)
	}
	c, ok := p.Commands[""]
	if !ok {
		switch {
		case len(args) == 0:
			p.usage(stderr)
			return 2
		case slices.Contains([]string{"-h", "-help", "--help"}, args[0]):
			p.usage(stdout)
			return 0
		}
		if c, ok = p.Commands[args[0]]; !ok {
			return fail(2, "unknown command %q: the commands are %s", args[0], strings.Join(slices.Sorted(maps.Keys(p.Commands)), ", "))
		}
		line, args = line+" "+args[0], args[1:]
	}
	err := c.Run(ctx, args, stdout, stderr)
	usage, ok := errors.AsType[oldUsageError](err)
	switch {
	case err == nil:
		return 0
	case usage.help != nil:
		fmt.Fprintf(stdout, "Usage: %s [flags]\n\n%s\n\n", line, c.About)
		usage.help.print(stdout, c.Common)
		return 0
	case ok:
		return fail(2, "%v (%s -h lists the flags)", err, line)
	case errors.Is(err, context.Canceled):
		s, _ := errors.AsType[signalError](context.Cause(ctx))
		return fail(128+int(cmp.Or(s, signalError(syscall.SIGINT))), "%v", err)
	}
	return fail(1, "%v", err)
}

func (p Program) usage(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s COMMAND [flags]\n\n%s The commands:\n\n", p.Name, p.About)
	for _, name := range slices.Sorted(maps.Keys(p.Commands)) {
		about, _, _ := strings.Cut(p.Commands[name].About, "\n")
		fmt.Fprintf(w, "  %-12s %s\n", name, about)
	}
	fmt.Fprintf(w, "\n%s COMMAND -h lists the flags of a command.\n", p.Name)
}

// Flags is a flag.FlagSet that also checks ranges. As in flag.FlagSet, a method that defines a flag takes a pointer p
// to a variable and sets the variable to the default value. Parse sets it to the value on the command line.
type Flags struct{ *flag.FlagSet }

// NewFlags returns a flag set that defines only -h.
func NewFlags() *Flags {
	f := &Flags{flag.NewFlagSet("", flag.ContinueOnError)}
	f.SetOutput(io.Discard) // Program.Run prints the error
	return f
}

// Parse parses the arguments. It returns an error if they are invalid, or if they request help. Command.Run must return
// this error, so that Program.Run prints the error message or help.
func (f *Flags) Parse(args []string) error {
	switch err := f.FlagSet.Parse(args); {
	case err == flag.ErrHelp:
		return oldUsageError{err, f}
	case err != nil:
		return UsageError("%v", err)
	case f.NArg() > 0:
		return UsageError("unexpected argument %q: only flags are allowed", f.Arg(0))
	}
	return nil
}

// UsageError returns an error about the command line. If Command.Run returns this error, the program refers the user to
// -h and exits with status 2.
func UsageError(format string, args ...any) error {
	return oldUsageError{error: fmt.Errorf(format, args...)}
}

// A oldUsageError is an error about the command line or, if help is not nil, a request to print these flags.
type oldUsageError struct {
	error
	help *Flags
}

// Given returns the sorted names of the flags on the command line.
func (f *Flags) Given() (names []string) {
	f.Visit(func(g *flag.Flag) { names = append(names, g.Name) })
	return names
}

// Count defines a flag for a whole number from minimum to 100,000,000. The upper limit catches typos that would exhaust
// memory.
func (f *Flags) Count(p *int, name string, preset, minimum int, usage string) {
	f.Range(p, name, preset, minimum, 100_000_000, usage)
}

// Range defines a flag for a whole number from minimum to maximum.
func (f *Flags) Range(p *int, name string, preset, minimum, maximum int, usage string) {
	if *p = preset; preset != 0 {
		usage += fmt.Sprintf(" (default %d)", preset)
	}
	f.Func(name, usage, func(s string) error {
		n, err := strconv.ParseInt(s, 0, 64)
		if err != nil || n < int64(minimum) || n > int64(maximum) {
			return fmt.Errorf("it must be a whole number from %d to %d", minimum, maximum)
		}
		*p = int(n)
		return nil
	})
}

// List defines a flag for a comma-separated list and stores its items in *p. The function parse converts a string to an
// item. Flags.Parse returns an error if an item is listed twice.
func List[T comparable](f *Flags, p *[]T, name, usage string, parse func(string) (T, error)) {
	f.Func(name, usage, func(s string) error {
		*p = nil
		for field := range strings.SplitSeq(s, ",") {
			item, err := parse(strings.TrimSpace(field))
			if err != nil {
				return err
			}
			if slices.Contains(*p, item) {
				return fmt.Errorf("%v is listed twice", item)
			}
			*p = append(*p, item)
		}
		return nil
	})
}

// print prints the flags with the given names, then all other flags.
func (f *Flags) print(w io.Writer, common []string) {
	for _, first := range []bool{true, false} {
		group := flag.NewFlagSet("", flag.ContinueOnError)
		group.SetOutput(w)
		f.VisitAll(func(g *flag.Flag) {
			if (common == nil || slices.Contains(common, g.Name)) == first {
				group.Var(g.Value, g.Name, g.Usage)
				group.Lookup(g.Name).DefValue = g.DefValue
			}
		})
		group.PrintDefaults()
		fmt.Fprintln(w)
	}
}
