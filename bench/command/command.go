// Package command implements the command line of the two experiments: commands and flags, errors, exit
// statuses, signals, usage and version. The main function of a program calls Program.Main. The exit statuses are
//
//	0     success
//	1     the command failed
//	2     the command line is invalid, or HVAE_SIMD names an unavailable instruction set
//	129   hung up (SIGHUP)
//	130   interrupted (SIGINT, Ctrl-C)
//	143   terminated (SIGTERM)
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"hvae/linalg"
)

// A Program has several commands, or one command without a name.
type Program struct {
	Name     string // name of the program in error messages and in the usage
	About    string // one or more sentences for the usage
	Commands []Command
}

// A Command is a subcommand of a program.
type Command struct {
	Name, About string
	// Run parses args with Flags and executes the command. It writes results to stdout and
	// all other output to stderr. When ctx is done, Run saves its state and returns an error that
	// wraps context.Cause(ctx), which is a Signal.
	Run func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// Run executes the program with the arguments that follow the program's name. It returns the exit status.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if _, err := linalg.Vectors(); err != nil { // HVAE_SIMD names an unavailable instruction set
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 2
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:], "-h") // help COMMAND means COMMAND -h
	}
	if p.Commands[0].Name == "" {
		return p.run(ctx, p.Commands[0], args, stdout, stderr)
	}
	if len(args) == 0 {
		p.usage(stderr)
		return 2
	}
	var names []string
	for _, c := range p.Commands {
		if c.Name == args[0] {
			return p.run(ctx, c, args[1:], stdout, stderr)
		}
		names = append(names, c.Name)
	}
	switch args[0] {
	case "-version", "--version":
		p.version(stdout)
	case "-h", "-help", "--help":
		p.usage(stdout)
	default:
		fmt.Fprintf(stderr, "%s: unknown command %q: the commands are %s\n", p.Name, args[0], strings.Join(names, ", "))
		return 2
	}
	return 0
}

// run executes a command, prints its error and returns the exit status.
func (p Program) run(ctx context.Context, c Command, args []string, stdout, stderr io.Writer) int {
	err := c.Run(ctx, args, stdout, stderr)
	if err == nil {
		return 0
	}
	if r, ok := errors.AsType[infoRequest](err); ok {
		if r.flags.version {
			p.version(stdout)
		} else {
			p.help(c, r.flags, stdout)
		}
		return 0
	}
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "%s: %v (%[1]s -h lists the flags)\n", p.line(c), err)
		return 2
	}
	fmt.Fprintf(stderr, "%s: %v\n", p.line(c), err)
	if errors.Is(err, context.Canceled) {
		s, _ := errors.AsType[Signal](context.Cause(ctx))
		return 128 + int(cmp.Or(s, Signal(syscall.SIGINT))) // as in shells
	}
	return 1
}

// usage prints the description and the commands of the program.
func (p Program) usage(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s COMMAND [flags]\n\n%s The commands:\n\n", p.Name, p.About)
	for _, c := range p.Commands {
		fmt.Fprintf(w, "  %-12s %s\n", c.Name, c.About)
	}
	fmt.Fprintf(w, "\nCOMMAND -h or help COMMAND lists the flags of a command; -version prints the version.\n")
}

// help prints the description and the flags of a command.
func (p Program) help(c Command, f *Flags, w io.Writer) {
	fmt.Fprintf(w, "Usage: %s [flags]\n\n%s\n\n", p.line(c), cmp.Or(c.About, p.About))
	f.SetOutput(w)
	f.PrintDefaults()
}

// line returns the name of the program and the command, such as "mnist train".
func (p Program) line(c Command) string { return strings.TrimSpace(p.Name + " " + c.Name) }

// version prints the version of the program, the version of Go and the instruction set. The version of
// the program contains the commit if go build recorded it.
func (p Program) version(w io.Writer) {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	vectors, _ := linalg.Vectors()
	fmt.Fprintf(w, "%s: version %s; %s %s/%s; SIMD %s\n", p.Name, version, runtime.Version(), runtime.GOOS, runtime.GOARCH, vectors)
}
