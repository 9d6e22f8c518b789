// Mnist runs the experiment of section 4.2 of the HVAE paper. It trains variational auto-encoders with and without
// Hamiltonian dynamics on binarised MNIST digits, estimates the evidence, and draws digits from the trained models.
//
//	go run ./mnist train -model hvae -K 5 -tempering free -vary-eps -out DIR
//	go run ./mnist eval -checkpoint DIR
//	go run ./mnist table DIR
//	go run ./mnist sample -checkpoint DIR -o samples.png
//	go run ./mnist reconstruct -checkpoint DIR -o digits.png
//
// Read train.go, run.go (a training run) and state.go (its state), then eval.go, pictures.go (sample and reconstruct)
// and table.go. The commands use the packages mnist/model, mnist/eval (evaluations) and mnist/data.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"

	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/model"
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
	// Let writes to a broken pipe return an error instead of ending the process, so that training continues.
	signal.Ignore(syscall.Signal(13)) // SIGPIPE, which package syscall does not define for WebAssembly
	command.Main("mnist", run)
}

// run runs the program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
		return command.Help(about)
	}
	commands := map[string]command.Func{"train": train, "eval": evaluate, "table": table, "sample": sample, "reconstruct": reconstruct}
	f, ok := commands[args[0]]
	if !ok {
		return command.Usage("unknown command %q: mnist -h lists the commands", args[0])
	}
	return f(ctx, args[1:], stdout, stderr)
}

// given reports whether a flag was given.
func given(f *flag.FlagSet, name string) (found bool) {
	f.Visit(func(g *flag.Flag) { found = found || g.Name == name })
	return found
}

func modelFlag(f *flag.FlagSet, name *string) {
	f.StringVar(name, "checkpoint", "", "`file` of the model, the folder of its run, or the state of the run, which has the model after the last epoch (required)")
}

func dataFlag(f *flag.FlagSet, folder *string) {
	f.StringVar(folder, "data", *folder, "`folder` with 28×28 images in files named as MNIST's, or synthetic for built-in images; missing MNIST files are\ndownloaded (default $HVAE_MNIST, else a folder in the user's cache)")
}

// readCheckpoint reads the model in a file or in the folder of a run.
func readCheckpoint(name string) (c model.Checkpoint, err error) {
	if name == "" {
		return c, command.Usage("-checkpoint is missing: specify a model file or the folder of a run")
	}
	if s, err := os.Stat(name); err == nil && s.IsDir() {
		name = filepath.Join(name, modelFile)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return c, err
	}
	c, err = decodeModel(b)
	if err != nil {
		err = fmt.Errorf("%s is not a model for this program: %w", name, err)
	}
	return c, err
}

// loadTestImages loads images with data.Load or data.LoadTest. If there are fewer than n test images, it returns an error
// that names the given flag, which sets n. If the model was trained on other images, it prints a note on stderr.
func loadTestImages(load func(folder string, stderr io.Writer) (data.Set, error), folder string, c model.Checkpoint,
	n int, flag string, stderr io.Writer) (*data.Set, error) {
	set, err := load(folder, stderr)
	if err == nil && n > set.Test.Len() {
		err = command.Usage("invalid value %d for flag -%s: there are %d test images", n, flag, set.Test.Len())
	}
	if err == nil && c.Data != "" && c.Data != set.Name {
		fmt.Fprintf(stderr, "note: the model was trained on %.40q, not on these images\n", c.Data)
	}
	return &set, err
}
