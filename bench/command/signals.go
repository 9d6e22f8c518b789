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

// A Signal is an operating system signal that has cancelled a context. context.Cause returns the Signal
// as the cause of the cancellation. errors.Is(s, context.Canceled) is true for each Signal s.
type Signal syscall.Signal

// hangup is SIGHUP. Package syscall does not define SIGHUP for WebAssembly.
const hangup = syscall.Signal(1)

var descriptions = map[syscall.Signal]string{hangup: "hung up", syscall.SIGINT: "interrupted", syscall.SIGTERM: "terminated"}

func (s Signal) Error() string { return descriptions[syscall.Signal(s)] }

func (s Signal) Is(target error) bool { return target == context.Canceled }

// repeatAfter is the time after the first signal during which Main ignores SIGTERM and SIGHUP.
var repeatAfter = time.Second

// Main runs the program with the process's arguments and exits. The first signal cancels the context, and a
// later signal ends the process at once. For one second after the first signal, however, Main ignores
// SIGTERM and SIGHUP, because timeout(1) from GNU coreutils sends each signal twice. If nohup started the
// process, Main always ignores SIGHUP.
func (p Program) Main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if runtime.GOARCH != "wasm" && !signal.Ignored(hangup) { // signal.Ignored panics on wasm in Go 1.26
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
				os.Exit(128 + int(s))
			}
		}
	}()
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
