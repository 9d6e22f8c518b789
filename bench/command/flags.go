package command

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

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
		return usageError{err, f}
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
	return usageError{error: fmt.Errorf(format, args...)}
}

// A usageError is an error about the command line or, if help is not nil, a request to print these flags.
type usageError struct {
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
