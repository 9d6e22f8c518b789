// Package command is what the experiments' programs do alike on the outside: commands and
// their flags, errors in one line, exit statuses, signals, usage and version.
//
// A program is a Program, and its main calls Main. Read command.go, then flags.go and
// signals.go. The exit statuses:
//
//	0     done
//	1     a run that failed
//	2     a command line that cannot be, or none where one is needed
//	129   hung up (SIGHUP)
//	130   interrupted (SIGINT, Ctrl-C)
//	143   terminated (SIGTERM)
//
// The package imports linalg, which reads which vectors to use from the environment.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"hvae/linalg"
)

// A Program has several commands, or a single one without a name.
type Program struct {
	Name     string // begins its errors
	About    string // what it is, in sentences
	Commands []Command
}

// A Command is one of the things that a program does.
type Command struct {
	Name, About string
	// Run parses its arguments by Flags and does the work. Results go to stdout, all else
	// to stderr. If ctx ends, Run saves what can be saved and returns an error that wraps
	// the cause, a Signal.
	Run func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// Run runs the program with the arguments that follow its name, and returns its exit
// status.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if _, err := linalg.Vectors(); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 2
	}
	if p.Commands[0].Name == "" {
		if len(args) > 0 && args[0] == "help" {
			args = []string{"-h"}
		}
		return p.run(ctx, p.Commands[0], args, stdout, stderr)
	}
	if len(args) == 0 {
		p.usage(stderr)
		return 2
	}
	switch args[0] {
	case "-version", "--version":
		p.version(stdout)
		return 0
	case "help", "-h", "-help", "--help":
		if len(args) == 1 {
			p.usage(stdout)
			return 0
		}
		args = []string{args[1], "-h"}
	}
	var names []string
	for _, c := range p.Commands {
		if c.Name == args[0] {
			return p.run(ctx, c, args[1:], stdout, stderr)
		}
		names = append(names, c.Name)
	}
	fmt.Fprintf(stderr, "%s: unknown command %q: the commands are %s\n", p.Name, args[0], strings.Join(names, ", "))
	return 2
}

// run runs a command and tells what went wrong.
func (p Program) run(ctx context.Context, c Command, args []string, stdout, stderr io.Writer) int {
	err := c.Run(ctx, args, stdout, stderr)
	if err == nil {
		return 0
	}
	if wish, ok := errors.AsType[wish](err); ok {
		if wish.version {
			p.version(stdout)
		} else {
			p.help(c, wish.flags, stdout)
		}
		return 0
	}
	name := strings.TrimSpace(p.Name + " " + c.Name)
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "%s: %v (%s -h lists the flags)\n", name, err, line(c))
		return 2
	}
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	if errors.Is(err, context.Canceled) {
		s, ok := errors.AsType[Signal](context.Cause(ctx))
		if !ok {
			s = Signal(syscall.SIGINT)
		}
		return s.status()
	}
	return 1
}

// usage lists the commands.
func (p Program) usage(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s COMMAND [flags]\n\n%s The commands:\n\n", started(), p.About)
	for _, c := range p.Commands {
		fmt.Fprintf(w, "  %-12s %s\n", c.Name, c.About)
	}
	fmt.Fprintf(w, "\nCOMMAND -h, or help COMMAND, lists a command's flags; -version tells the program's.\n")
}

// help lists a command's flags.
func (p Program) help(c Command, f *Flags, w io.Writer) {
	about := c.About
	if c.Name == "" {
		about = p.About
	}
	fmt.Fprintf(w, "Usage: %s [flags]\n\n%s\n\n", line(c), about)
	f.set.SetOutput(w)
	f.set.PrintDefaults()
}

// line is how a command line of c begins.
func line(c Command) string { return strings.TrimSpace(started() + " " + c.Name) }

// built matches the path of a program that go run has just built, or has in its cache.
var built = regexp.MustCompile(`[/\\](?:go-build\d+[/\\]b\d+[/\\]exe|[0-9a-f]{64}-d)[/\\]([^/\\]+?)(?:\.exe)?$`)

// started returns how the program was started.
func started() string {
	if m := built.FindStringSubmatch(os.Args[0]); m != nil {
		return "go run ./" + m[1]
	}
	return os.Args[0]
}

// version tells what the program was built from and what it uses.
func (p Program) version(w io.Writer) {
	revision, changed := "unknown (go build records it, go run does not)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = ", with changes"
			}
		}
	}
	vectors, _ := linalg.Vectors()
	fmt.Fprintf(w, "%s: revision %s%s; %s %s/%s; vectors %s\n", p.Name, revision, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH, vectors)
}
