package main

import (
	"fmt"
	"io"
	"os/signal"
	"runtime"
	"syscall"
)

// An output is a writer whose failures do not end a run, for example because a disk is full, a pipe is broken
// or a terminal is closed. After the first failure, it prints a note to stderr and discards all text.
type output struct {
	stdout, stderr io.Writer
	failed         bool
}

// newOutput returns an output that writes to stdout. From now on, the process ignores SIGPIPE, which would
// end it when it writes to a broken pipe.
func newOutput(stdout, stderr io.Writer) *output {
	if runtime.GOARCH != "wasm" {
		signal.Ignore(syscall.Signal(13)) // package syscall does not define SIGPIPE for WebAssembly
	}
	return &output{stdout: stdout, stderr: stderr}
}

func (o *output) Write(b []byte) (int, error) {
	if !o.failed {
		if _, err := o.stdout.Write(b); err != nil {
			o.failed = true
			fmt.Fprintf(o.stderr, "note: nothing more is printed: %v; the files of the run contain all results\n", err)
		}
	}
	return len(b), nil
}
