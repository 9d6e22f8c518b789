package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Flags is the set of flags of a command. As in flag.FlagSet, a method that defines a flag takes a
// pointer p to a variable and sets the variable to the default value. Parse sets it to the value on the
// command line.
type Flags struct {
	flag.FlagSet
	version bool
}

// NewFlags returns a set with the flags -version and -h.
func NewFlags() *Flags {
	f := new(Flags)
	f.Init("", flag.ContinueOnError)
	f.SetOutput(io.Discard) // Program.Run prints the error
	f.BoolVar(&f.version, "version", false, "print the version, the Go version and the instruction set")
	return f
}

// Count defines a flag for a whole number from minimum to 100,000,000. The limit catches typos that
// would exhaust memory.
func (f *Flags) Count(p *int, name string, preset, minimum int, usage string) {
	f.Range(p, name, preset, minimum, 100_000_000, usage)
}

// Range defines a flag for a whole number from minimum to maximum.
func (f *Flags) Range(p *int, name string, preset, minimum, maximum int, usage string) {
	define(f, p, name, preset, usage, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < minimum || n > maximum {
			return 0, fmt.Errorf("it must be a whole number from %d to %d", minimum, maximum)
		}
		return n, nil
	})
}

// Seed defines the flag -seed for a whole number. The default is 1.
func (f *Flags) Seed(p *uint64, usage string) {
	define(f, p, "seed", 1, usage, ParseSeed)
}

// ParseSeed returns the seed that s contains.
func ParseSeed(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a seed must be a whole number from 0 to %d", uint64(math.MaxUint64))
	}
	return n, nil
}

// Rate defines the flag -lr for a positive learning rate.
func (f *Flags) Rate(p *float64, preset float64, usage string) {
	define(f, p, "lr", preset, usage, func(s string) (float64, error) {
		r, err := strconv.ParseFloat(s, 64)
		if err != nil || !(r > 0) || math.IsInf(r, 0) {
			return 0, errors.New("the learning rate must be a positive finite number")
		}
		return r, nil
	})
}

// List defines a flag for a comma-separated list and stores its items in *p. The function parse converts a
// string to an item. Flags.Parse returns an error if an item is listed twice.
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

// define defines a flag. The function parse converts a command-line string to the value of the flag.
func define[T any](f *Flags, p *T, name string, preset T, usage string, parse func(string) (T, error)) {
	*p = preset
	f.Var(&value[T]{p, parse}, name, usage)
}

// A value implements flag.Value.
type value[T any] struct {
	p     *T
	parse func(string) (T, error)
}

func (v *value[T]) Set(s string) (err error) {
	*v.p, err = v.parse(s)
	return err
}

// String returns the value in the form that Set accepts. Package flag also calls String on a zero
// value, in which p is nil.
func (v *value[T]) String() string {
	if v.p == nil {
		return ""
	}
	return fmt.Sprint(*v.p)
}

// Parse parses the arguments. It returns an error if they are invalid, or if they request help or the
// version. Command.Run must return this error, so that Program.Run prints the error message, help or
// version.
func (f *Flags) Parse(args []string) error {
	switch err := f.FlagSet.Parse(args); {
	case err == flag.ErrHelp:
		return infoRequest{err, f}
	case err != nil:
		return UsageError("%v", err)
	case f.NArg() > 0:
		return UsageError("unexpected argument %q: only flags are allowed", f.Arg(0))
	case f.version:
		return infoRequest{flag.ErrHelp, f}
	}
	return nil
}

// Given returns the sorted names of the flags on the command line.
func (f *Flags) Given() (names []string) {
	f.Visit(func(g *flag.Flag) { names = append(names, g.Name) })
	return names
}

// Values returns a map from the name of each flag to its current value. The map omits -version. A flag
// that was defined with the method Func has an empty value.
func (f *Flags) Values() map[string]string {
	values := map[string]string{}
	f.VisitAll(func(g *flag.Flag) { values[g.Name] = g.Value.String() })
	delete(values, "version")
	return values
}

// UsageError returns an error about the command line. If Command.Run returns this error, the program
// refers the user to -h and exits with status 2.
func UsageError(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

type usageError struct{ error }

// An infoRequest is the error that Parse returns if the arguments request help or the version.
type infoRequest struct {
	error
	flags *Flags
}
