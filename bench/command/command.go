// Package command implements the parts that the gaussian and mnist programs have in common. It handles usage errors,
// exit statuses and signals, and it replaces files atomically, so a crash cannot leave a damaged file.
package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
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
// failure, 2 if the command line is invalid, and 130 if ctx was cancelled.
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
	f.SetOutput(io.Discard) // Run prints the error
	err := f.Parse(args)
	if err == flag.ErrHelp {
		fmt.Fprintf(stdout, "Usage: %s [flags]\n\n%s\n\n", f.Name(), description)
		f.SetOutput(stdout)
		f.PrintDefaults()
		return err
	}
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: only flags are allowed", f.Arg(0))
	}
	if err != nil {
		return Usage("%v (%s -h lists the flags)", err, f.Name())
	}
	return nil
}

// Temporary is the glob pattern for the names of temporary files. A killed process may leave such a file behind.
const Temporary = ".*.tmp"

// WriteFile writes data to the file with the given name. An existing file must be a regular file. WriteFile writes a
// temporary file in the same folder, syncs it, and calls place(temporary, name) to rename or link it. With os.Rename as
// place, WriteFile replaces an existing file. With os.Link, it fails if the file exists. After a crash, the file has
// either the old or the new contents.
func WriteFile(name string, data []byte, place func(temporary, name string) error) error {
	if s, err := os.Lstat(name); err == nil && !s.Mode().IsRegular() {
		return fmt.Errorf("cannot write %s: it is not a regular file", name)
	}
	temporary := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%016x.tmp", rand.Uint64()))
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		defer os.Remove(temporary) // has no effect after os.Rename
		_, err = f.Write(data)
		err = cmp.Or(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = place(temporary, name)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}
