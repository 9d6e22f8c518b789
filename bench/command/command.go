// Package command implements the parts that the gaussian and mnist programs have in common. It handles usage errors,
// exit statuses and signals (command.go), and reads and writes files safely (files.go).
package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/signal"
	"syscall"

	"hvae/linalg"
)

// A Func runs a program or one of its subcommands. It writes results to stdout and all other output to stderr. When ctx
// is done, it returns an error that wraps context.Cause(ctx).
type Func func(ctx context.Context, args []string, stdout, stderr io.Writer) error

// Main runs a program with the arguments of the process and exits. The first SIGINT (Ctrl-C) or SIGTERM cancels the
// context passed to run. A second signal ends the process at once.
func Main(name string, run Func) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, name, run, os.Args[1:], os.Stdout, os.Stderr))
}

// Run runs a program and prints any error to stderr. It returns the exit status: 0 after success or help, 1 after a
// failure, 2 if the command line is invalid, 143 if SIGTERM cancelled ctx, and 130 if anything else cancelled it.
func Run(ctx context.Context, name string, run Func, args []string, stdout, stderr io.Writer) int {
	_, err := linalg.Vectors()
	if err != nil { // HVAE_SIMD names an unavailable instruction set
		err = Usage("%v", err)
	} else {
		err = run(ctx, args, stdout, stderr)
	}
	status := 1
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp): // Parse has printed the help text
		return 0
	case errors.As(err, new(usageError)):
		status = 2
	case errors.Is(err, context.Canceled) && context.Cause(ctx).Error() == "terminated signal received":
		status = 143
	case errors.Is(err, context.Canceled):
		status = 130
	}
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return status
}

// A usageError is an error about the command line.
type usageError struct{ error }

// Usage returns an error about the command line. If a Func returns this error, the exit status is 2.
func Usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Parse parses the arguments of the program or subcommand f.Name(), such as "mnist train". It returns a usage error if
// the arguments are invalid. If they contain -h, it prints the usage line, the description and the list of flags to
// stdout, and returns flag.ErrHelp. The description says what the command does, and gives examples.
func Parse(f *flag.FlagSet, description string, args []string, stdout io.Writer) error {
	help := bytes.NewBufferString(fmt.Sprintf("Usage: %s [flags]\n\n%s\n\n", f.Name(), description))
	f.SetOutput(help)
	f.PrintDefaults() // before the values become decimals, because it cannot see whether a decimal is zero
	f.VisitAll(func(g *flag.Flag) {
		if getter, ok := g.Value.(flag.Getter); ok {
			switch getter.Get().(type) {
			case int, uint64:
				g.Value = decimal{g.Value}
			}
		}
	})
	f.SetOutput(io.Discard) // Run prints the error
	err := f.Parse(args)
	if err == flag.ErrHelp {
		_, failed := help.WriteTo(stdout)
		return cmp.Or(failed, err)
	}
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: only flags are allowed", f.Arg(0))
	}
	if err != nil {
		return Usage("%v (%s -h lists the flags)", err, f.Name())
	}
	return nil
}

// A decimal is the value of an integer flag. Without it, package flag would read 010 as an octal number.
type decimal struct{ flag.Value }

func (d decimal) Set(s string) error {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return errors.New("it must be a whole number in decimal digits")
	}
	return d.Value.Set(n.String())
}
