// Package command runs the two experiments as programs: usage errors, exit statuses, signals, and files that a crash
// does not damage.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"hvae/linalg"
)

// A Func runs a program or one of its subcommands. It writes results to stdout and all other output to stderr. When ctx
// is done, it returns an error that wraps context.Cause(ctx).
type Func func(ctx context.Context, args []string, stdout, stderr io.Writer) error

// Main runs a program with the arguments of the process and exits. The first SIGINT (Ctrl-C) or SIGTERM cancels the
// context of run. A second signal ends the process at once.
func Main(name string, run Func) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, name, run, os.Args[1:], os.Stdout, os.Stderr))
}

// Run runs a program and prints its error on stderr. It returns the exit status: 0 after success or help, 1 after a
// failure, 2 if the command line is invalid, and 130 if ctx was cancelled.
func Run(ctx context.Context, name string, run Func, args []string, stdout, stderr io.Writer) int {
	_, err := linalg.Vectors()
	if err != nil { // HVAE_SIMD names an unavailable instruction set
		err = Usage("%v", err)
	} else {
		err = run(ctx, args, stdout, stderr)
	}
	help, helped := errors.AsType[helpRequest](err)
	_, usage := errors.AsType[usageError](err)
	status := 1
	switch {
	case err == nil:
		return 0
	case helped:
		fmt.Fprint(stdout, string(help))
		return 0
	case usage:
		status = 2
	case errors.Is(err, context.Canceled):
		status = 130
	}
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return status
}

// Usage returns an error about the command line. If a Func returns this error, the exit status is 2.
func Usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

type usageError struct{ error }

// Help returns a request to print a text on stdout and to exit with status 0.
func Help(text string) error { return helpRequest(text) }

type helpRequest string

func (helpRequest) Error() string { return "help was requested" }

// Parse parses the arguments of the program or subcommand f.Name(), such as "mnist train". It returns a usage error if
// the arguments are invalid. If they contain -h, it returns a request to print the usage, the text about, which
// describes the command and gives examples, and the flags.
func Parse(f *flag.FlagSet, about string, args []string) error {
	f.SetOutput(io.Discard) // Run prints the error
	err := f.Parse(args)
	if err == flag.ErrHelp {
		var text strings.Builder
		fmt.Fprintf(&text, "Usage: %s [flags]\n\n%s\n\n", f.Name(), about)
		f.SetOutput(&text)
		f.PrintDefaults()
		return Help(text.String())
	}
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: only flags are allowed", f.Arg(0))
	}
	if err != nil {
		return Usage("%v (%s -h lists the flags)", err, f.Name())
	}
	return nil
}
