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

// hangup is SIGHUP, which package syscall does not define for WebAssembly.
const hangup = syscall.Signal(1)

// A Signal is the cause of a context that a signal ended. errors.Is reports that it is
// context.Canceled.
type Signal syscall.Signal

func (s Signal) Error() string {
	return map[syscall.Signal]string{syscall.SIGINT: "interrupted", syscall.SIGTERM: "terminated", hangup: "hung up"}[syscall.Signal(s)]
}

func (s Signal) Is(target error) bool { return target == context.Canceled }

// status returns the exit status that shells use for the signal.
func (s Signal) status() int { return 128 + int(s) }

// repeatAfter is the time after which a repeated signal forces the exit.
var repeatAfter = time.Second

// Main runs the program with the process's arguments and exits. The first signal ends the
// context. A later signal exits at once if it is SIGINT or arrives at least one second after
// the first: timeout of the GNU core utilities sends the same signal twice in succession, to
// the process and to its group. If nohup started the process, Main ignores SIGHUP.
func (p Program) Main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if runtime.GOARCH != "wasm" && !signal.Ignored(hangup) { // panics on wasm in Go 1.26
		signal.Notify(signals, hangup)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		cancel(Signal((<-signals).(syscall.Signal)))
		first := time.Now()
		for again := range signals {
			if again == os.Interrupt || time.Since(first) >= repeatAfter {
				s := Signal(again.(syscall.Signal))
				fmt.Fprintf(os.Stderr, "%s: %v again: exiting at once\n", p.Name, s)
				os.Exit(s.status())
			}
		}
	}()
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Wait calls work on another goroutine. It returns nil when work returns, or
// context.Cause(ctx) as soon as ctx ends. In that case work continues until the process exits
// and its result is lost, so it must have nothing to save.
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
