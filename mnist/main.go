// Mnist runs the experiment in section 4.2 of the HVAE paper. It trains variational auto-encoders with and without
// Hamiltonian dynamics on binarised MNIST digits, estimates the evidence, and draws digits from the trained models.
//
// Start with run.go (a training run), then read train.go (the command), folder.go (the files of a run), rows.go (names
// of rows), pictures.go, eval.go and table.go. The commands use the packages mnist/model, mnist/eval and mnist/data.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"hvae/bench/command"
)

const about = `Usage: mnist COMMAND [flags]

The MNIST experiment of the HVAE paper (section 4.2). The commands:

  train        trains a model
  eval         estimates a model's ELBO and negative log-likelihood
  table        prints the results of runs below the paper's Table 1
  sample       draws digits that a model generates
  reconstruct  draws test digits and their reconstructions

mnist COMMAND -h describes a command and its flags.
`

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(10) // saves memory while images are read; training steps hardly allocate memory
	}
	// Make a write to a broken pipe return an error instead of ending the process, so that training continues.
	signal.Ignore(syscall.Signal(13)) // SIGPIPE, which package syscall does not define for WebAssembly
	command.Main("mnist", program)
}

// program runs the program.
func program(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
		fmt.Fprint(stdout, about)
		return nil
	}
	commands := map[string]command.Func{
		"train": train, "eval": evaluate, "table": table, "sample": sample, "reconstruct": reconstruct,
	}
	f, ok := commands[args[0]]
	if !ok {
		return command.Usage("unknown command %q: mnist -h lists the commands", args[0])
	}
	return f(ctx, args[1:], stdout, stderr)
}
