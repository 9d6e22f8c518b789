package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// hangup is SIGHUP by its POSIX number: package syscall does not name it for WebAssembly,
// where no signal comes.
const hangup = syscall.Signal(1)

// A Signal is the cause of a context that a signal ended. It is a context.Canceled.
type Signal syscall.Signal

func (s Signal) Error() string {
	switch syscall.Signal(s) {
	case hangup:
		return "hung up"
	case syscall.SIGTERM:
		return "terminated"
	}
	return "interrupted"
}

func (s Signal) Is(target error) bool { return target == context.Canceled }

// status is the exit status that shells have for a signal, too.
func (s Signal) status() int { return 128 + int(s) }

// repeatAfter is the time after which a repeated signal is meant to force the exit.
var repeatAfter = time.Second

// Main runs the program with the process's arguments and ends the process. The first
// signal ends the context. A later one ends the process at once if it is SIGINT or comes at
// least a second after the first. (A sender may repeat a signal at once: timeout of the GNU
// core utilities signals the process and then its group.) Main ignores SIGHUP in a process
// that nohup started.
func (p Program) Main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if runtime.GOARCH != "wasm" && !signal.Ignored(hangup) { // there it panics, in Go 1.26
		signal.Notify(signals, hangup)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		cancel(Signal((<-signals).(syscall.Signal)))
		for first := time.Now(); ; {
			again := <-signals
			if again == os.Interrupt || time.Since(first) >= repeatAfter {
				s := Signal(again.(syscall.Signal))
				fmt.Fprintf(os.Stderr, "%s: %v again: ended at once\n", p.Name, s)
				os.Exit(s.status())
			}
		}
	}()
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Wait does work and returns nil when it has ended, or the cause for which ctx ends, as
// soon as it does. It is for work that saves nothing: what is left of it goes on until
// the process ends, and what it computes is lost.
func Wait(ctx context.Context, work func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
