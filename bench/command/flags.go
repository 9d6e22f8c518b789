package command

import (
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Flags are the flags of a command. Each method defines one, sets *p to its default, and
// later to what the command line says.
type Flags struct {
	set     *flag.FlagSet
	version bool
}

// NewFlags returns flags with nothing but -version and -h.
func NewFlags() *Flags {
	f := &Flags{set: flag.NewFlagSet("", flag.ContinueOnError)}
	f.set.SetOutput(io.Discard) // errors are returned, and told in one line
	f.Bool(&f.version, "version", "tell revision, Go version and vectors")
	return f
}

// Bool defines a switch, off by default.
func (f *Flags) Bool(p *bool, name, usage string) { f.set.BoolVar(p, name, false, usage) }

// String defines a flag for any text.
func (f *Flags) String(p *string, name, value, usage string) {
	f.set.StringVar(p, name, value, usage)
}

// Checked defines a flag for text that check has nothing against. It is empty by default.
func (f *Flags) Checked(p *string, name, usage string, check func(string) error) {
	f.set.Var(value{get: func() string { return *p }, set: func(s string) error {
		*p = s
		return check(s)
	}}, name, usage)
}

// Func defines a flag whose values parse understands.
func (f *Flags) Func(name, usage string, parse func(string) error) { f.set.Func(name, usage, parse) }

// A value is a flag's that set reads and get writes in the same form.
type value struct {
	set func(string) error
	get func() string
}

func (v value) Set(s string) error { return v.set(s) }

// String is what package flag prints as the default. It asks the zero value, too.
func (v value) String() string {
	if v.get == nil {
		return ""
	}
	return v.get()
}

// The largest value of a count: beyond it, a mistyped number would ask for more memory
// than machines have.
const maxCount = 100_000_000

// Count defines a flag for a whole number that is at least a minimum.
func (f *Flags) Count(p *int, name string, preset, minimum int, usage string) {
	f.Range(p, name, preset, minimum, maxCount, usage)
}

// Range defines a flag for a whole number from minimum to maximum.
func (f *Flags) Range(p *int, name string, preset, minimum, maximum int, usage string) {
	*p = preset
	f.set.Var(value{get: func() string { return strconv.Itoa(*p) }, set: func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < minimum || n > maximum {
			return fmt.Errorf("it must be a whole number from %d to %d", minimum, maximum)
		}
		*p = n
		return nil
	}}, name, usage)
}

// Seed defines the flag -seed, 1 by default.
func (f *Flags) Seed(p *uint64, usage string) {
	*p = 1
	f.set.Var(value{get: func() string { return strconv.FormatUint(*p, 10) }, set: func(s string) error {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return fmt.Errorf("a seed is a whole number from 0 to %d", uint64(math.MaxUint64))
		}
		*p = n
		return nil
	}}, "seed", usage)
}

// Rate defines the flag -lr.
func (f *Flags) Rate(p *float64, preset float64, usage string) {
	*p = preset
	f.set.Var(value{get: func() string { return strconv.FormatFloat(*p, 'g', -1, 64) }, set: func(s string) error {
		r, err := strconv.ParseFloat(s, 64)
		if err != nil || !(r > 0) || math.IsInf(r, 0) {
			return fmt.Errorf("a learning rate is a positive number")
		}
		*p = r
		return nil
	}}, "lr", usage)
}

// Parse reads the arguments. What it returns is for Run to return: an error of the command
// line, or the wish for help or for the version.
func (f *Flags) Parse(args []string) error {
	switch err := f.set.Parse(args); {
	case err == flag.ErrHelp || f.version:
		return wish{f, f.version}
	case err != nil:
		return UsageError("%v", err)
	case f.set.NArg() > 0:
		return UsageError("stray argument %q: everything is given by flags", f.set.Arg(0))
	}
	return nil
}

// Given returns the names of the flags that the command line has, in order.
func (f *Flags) Given() (names []string) {
	f.set.Visit(func(g *flag.Flag) { names = append(names, g.Name) })
	return names
}

// Values returns what the flags stand at, by their names. Those of Func have no text.
func (f *Flags) Values() map[string]string {
	all := map[string]string{}
	f.set.VisitAll(func(g *flag.Flag) {
		if g.Name != "version" {
			all[g.Name] = g.Value.String()
		}
	})
	return all
}

// Set sets a flag as the command line does.
func (f *Flags) Set(name, value string) error { return f.set.Set(name, value) }

// UsageError returns an error of the command line: a Run that returns it ends the program
// with status 2.
func UsageError(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

type usageError string

func (e usageError) Error() string { return string(e) }

// A wish for help, or for the version, is no error, but ends a command.
type wish struct {
	flags   *Flags
	version bool
}

func (wish) Error() string { return "help is wished for" }
