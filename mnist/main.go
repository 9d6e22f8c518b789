// Mnist runs the experiment of section 4.2 of the HVAE paper. It trains variational auto-encoders with and without
// Hamiltonian dynamics on binarised MNIST digits, estimates the evidence, and draws digits from the trained models.
//
//	go run ./mnist train -model hvae -K 5 -tempering free -vary-eps -out DIR
//	go run ./mnist eval -checkpoint DIR
//	go run ./mnist table -out DIR
//	go run ./mnist sample -checkpoint DIR -o samples.png
//	go run ./mnist reconstruct -checkpoint DIR -o digits.png
//
// Read train.go, run.go (a training run) and state.go (its folder), then eval.go, pictures.go (sample and
// reconstruct), table.go and rows.go (rows, tasks, results and figures). The commands use the packages mnist/model,
// mnist/eval (evaluations), mnist/data and mnist/safetensors (the file format).
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(10) // saves memory while images are read; training steps hardly allocate memory
	}
	// Let writes to a broken pipe return an error instead of ending the process, so that training continues.
	signal.Ignore(syscall.Signal(13)) // SIGPIPE, which package syscall does not define for WebAssembly
	program.Main()
}

var program = command.Program{
	Name:  "mnist",
	About: "The MNIST experiment of the HVAE paper (section 4.2).",
	Commands: map[string]command.Command{
		"train": trainCommand,
		"eval": {
			About:  "Estimates a model's ELBO and negative log-likelihood.\nFor example, on the first 1,000 test images: mnist eval -checkpoint runs/vae -limit 1000",
			Common: []string{"checkpoint", "limit", "samples", "runs", "json"},
			Run:    evaluate,
		},
		"table":       {About: "Trains and evaluates the models of Table 1 and prints the table.", Run: makeTable},
		"sample":      {About: "Draws digits that a model generates.", Run: sample},
		"reconstruct": {About: "Draws test digits and their reconstructions; for an HVAE, also along its flow.", Run: reconstruct},
	},
}

// dataFlag defines the flag -data.
func dataFlag(f *command.Flags, folder *string) {
	f.StringVar(folder, "data", "", "`folder` with 28×28 images in files named as MNIST's, or synthetic for built-in images; missing MNIST\nfiles are downloaded (default $HVAE_MNIST, else a folder in the user's cache)")
}

// readCheckpoint reads a model. The argument name is the value of -checkpoint: a model file, the folder of a run, or
// its state, which contains the weights after the last epoch.
func readCheckpoint(name string) (model.Checkpoint, error) {
	if name == "" {
		return model.Checkpoint{}, command.UsageError("-checkpoint is missing: specify a model file or the folder of a run")
	}
	if s, err := os.Stat(name); err == nil && s.IsDir() {
		name = filepath.Join(name, modelFile)
	}
	return model.ReadCheckpoint(name)
}

// A loader is data.Load or data.LoadTest.
type loader func(folder string, stderr io.Writer) (data.Set, error)

// loadTestImages loads the images in a folder. If there are fewer than n test images, it returns an error that names
// the given flag, which sets n. If the model was trained on another dataset, loadTestImages prints a note on stderr.
func loadTestImages(load loader, folder string, c model.Checkpoint, n int, flag string, stderr io.Writer) (*data.Set, error) {
	set, err := load(folder, stderr)
	if err != nil {
		return nil, err
	}
	if n > set.Test.Len() {
		return nil, command.UsageError("invalid value %d for flag -%s: there are %d test images", n, flag, set.Test.Len())
	}
	if c.Data != "" && c.Data != set.Name {
		fmt.Fprintf(stderr, "note: the model was trained on %.40q, not on these images\n", c.Data)
	}
	return &set, nil
}
