// Gaussian runs the experiment of section 5.1: it generates datasets from a Gaussian
// model, estimates the model's parameters by several variational methods, and prints
// how far each estimate is from the truth and each bound from the exact evidence.
//
//	go run ./gaussian -d 50
//
// The model and the methods are in the package gaussian/model; here are the command
// line (options.go), the runs side by side (run.go), the table (report.go), the figures
// (figure.go), and what -two-modes shows (twomodes.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit status: 0, 1 for a failed run, 2 for
// an impossible command line, 130 for an interrupt.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "gaussian: %v (-h lists the flags)\n", err)
		return 2
	}
	do := run
	if o.twoModes {
		do = showTwoModes
	}
	if err := do(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "gaussian: %v\n", err)
		if errors.Is(err, context.Canceled) {
			return 130
		}
		return 1
	}
	return 0
}

// interrupted says what an interrupt left; it is a context.Canceled.
type interrupted string

func (i interrupted) Error() string        { return string(i) }
func (i interrupted) Is(target error) bool { return target == context.Canceled }
