// Mnist runs the experiment of section 5.2: it trains variational auto-encoders, with and
// without Hamiltonian dynamics, on binarised MNIST digits, estimates their evidence, and
// draws what they generate.
//
//	go run ./mnist train -model hvae -K 5 -tempering free -vary-eps -out DIR
//	go run ./mnist eval -checkpoint DIR/model.safetensors
//	go run ./mnist sample -checkpoint DIR/model.safetensors -o samples.png
//	go run ./mnist reconstruct -checkpoint DIR/model.safetensors -o digits.png
//
// The model is in mnist/model, the data in mnist/data, the file format in
// mnist/safetensors; here are the commands: train.go with the run's files in run.go,
// eval.go and pictures.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv("GOGC") == "" {
		// Steps allocate nothing; reading images and ending an epoch do. Collecting that
		// soon keeps the process near the size of what it uses, and takes no time.
		debug.SetGCPercent(10)
	}
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

var commands = []struct {
	name, what string
	run        func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}{
	{"train", "train a model", train},
	{"eval", "estimate a model's ELBO and negative log-likelihood", evaluate},
	{"sample", "draw digits that a model generates", sample},
	{"reconstruct", "draw digits and their reconstructions", reconstruct},
}

// errUsage marks what is wrong with a command line.
var errUsage = errors.New("usage")

// command runs the program and returns its exit status: 0, 1 for a failed run, 2 for an
// impossible command line, 130 for an interrupt.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		usage(stdout)
		return 0
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, args[1:], stdout, stderr)
		switch {
		case err == nil || errors.Is(err, flag.ErrHelp):
			return 0
		case errors.Is(err, errUsage):
			fmt.Fprintf(stderr, "mnist %s: %v (mnist %s -h lists the flags)\n", c.name, err, c.name)
			return 2
		}
		fmt.Fprintf(stderr, "mnist %s: %v\n", c.name, err)
		if errors.Is(err, context.Canceled) {
			return 130
		}
		return 1
	}
	fmt.Fprintf(stderr, "mnist: unknown command %q: the commands are train, eval, sample and reconstruct\n", args[0])
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: go run ./mnist COMMAND [flags]\n\nThe MNIST experiment of the HVAE paper (section 5.2). Commands:\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-12s %s\n", c.name, c.what)
	}
	fmt.Fprint(w, "\nCOMMAND -h lists a command's flags.\n")
}

// usageError is an error of the command line.
func usageError(format string, args ...any) error {
	return usageErr{fmt.Sprintf(format, args...)}
}

type usageErr struct{ message string }

func (e usageErr) Error() string        { return e.message }
func (e usageErr) Is(target error) bool { return target == errUsage }

// interrupted says what an interrupt left; it is a context.Canceled.
type interrupted string

func (i interrupted) Error() string        { return string(i) }
func (i interrupted) Is(target error) bool { return target == context.Canceled }

// newFlags returns a flag set whose errors are returned, to be told in one line.
func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// parse reads a command's flags; for -h it prints them and returns flag.ErrHelp.
func parse(f *flag.FlagSet, args []string, help io.Writer) error {
	if err := f.Parse(args); err == flag.ErrHelp {
		fmt.Fprintf(help, "Usage: go run ./mnist %s [flags]\n\n", f.Name())
		f.SetOutput(help)
		f.PrintDefaults()
		return err
	} else if err != nil {
		return usageError("%v", err)
	}
	if f.NArg() > 0 {
		return usageError("stray argument %q: everything is given by flags", f.Arg(0))
	}
	return nil
}

// count defines a flag for a whole number that is at least a minimum.
func count(f *flag.FlagSet, name string, value, minimum int, usage string) *int {
	n := value
	f.Func(name, fmt.Sprintf("%s (default %d)", usage, value), func(s string) error {
		v, err := strconv.Atoi(s)
		if err != nil || v < minimum || v > math.MaxInt32 {
			return fmt.Errorf("it must be a whole number from %d to %d", minimum, math.MaxInt32)
		}
		n = v
		return nil
	})
	return &n
}

const dataUsage = "`folder` with the four MNIST files, or synthetic for a built-in stand-in;\nmissing files are downloaded (default $HVAE_MNIST, else a folder in the user's cache)"
