// Mnist runs the experiment of section 5.2: it trains variational auto-encoders, with and
// without Hamiltonian dynamics, on binarised MNIST digits, estimates their evidence, and
// draws what they generate.
//
//	go run ./mnist train -model hvae -K 5 -tempering free -vary-eps -out DIR
//	go run ./mnist eval -checkpoint DIR/model.safetensors
//	go run ./mnist table -out DIR
//	go run ./mnist sample -checkpoint DIR/model.safetensors -o samples.png
//	go run ./mnist reconstruct -checkpoint DIR/model.safetensors -o digits.png
//
// The model is in mnist/model, the data in mnist/data, the file format in
// mnist/safetensors; here are the commands: train.go with run.go (the state of a run) and
// files.go (its files), eval.go with subjects.go (on which images) and certify.go (bounds of
// their evidence), pictures.go, and table.go, which trains and evaluates the models of Table 1, with the
// table_*.go files and published.go. What they have in common is in bench/command.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

func main() {
	if os.Getenv("GOGC") == "" {
		// Steps allocate nothing; reading images and ending an epoch do. Collecting that
		// soon keeps the process near the size of what it uses, and takes no time.
		debug.SetGCPercent(10)
	}
	program.Main()
}

var program = command.Program{
	Name:  "mnist",
	About: "The MNIST experiment of the HVAE paper (section 5.2).",
	Commands: []command.Command{
		{Name: "train", About: "Trains a model.", Run: train},
		{Name: "eval", About: "Estimates a model's ELBO and negative log-likelihood.", Run: evaluate},
		{Name: "table", About: "Trains and evaluates the models of Table 1 and prints the table.", Run: makeTable},
		{Name: "sample", About: "Draws digits that a model generates.", Run: sample},
		{Name: "reconstruct", About: "Draws digits and their reconstructions, of an HVAE along its flow.", Run: reconstruct},
	},
}

// source defines the flags that say which data there are.
func source(f *command.Flags, folder, name *string) {
	f.String(folder, "data", "", "`folder` with the MNIST files, or synthetic for a built-in stand-in;\nmissing files are downloaded (default $HVAE_MNIST, else a folder in the user's cache)")
	f.Checked(name, "dataset", "`name` of other images, 28×28, that -data has in files called as MNIST's", data.CheckName)
}

// load reads the data that the flags of source name.
func load(ctx context.Context, folder, name string, stderr io.Writer) (data.Set, error) {
	switch {
	case name == data.Synthetic && folder != data.Synthetic:
		return data.Set{}, command.UsageError("%s images are not in a folder: give -data %[1]s", data.Synthetic)
	case name != "" && name != data.Synthetic && folder == data.Synthetic:
		return data.Set{}, command.UsageError("-data %s is not the data %s: name their folder", data.Synthetic, name)
	case name != "" && name != data.MNIST && folder == "":
		return data.Set{}, command.UsageError("-dataset %s needs -data with the folder of its files", name)
	}
	return data.Load(ctx, folder, name, func(m string) { fmt.Fprintln(stderr, m) })
}

// otherData returns " trained on …," for a model whose training images are known and are not
// in the set, and an empty string otherwise.
func otherData(c model.Checkpoint, set data.Set) string {
	switch {
	case c.Data == "" || c.DataSHA256 == set.SHA256():
		return ""
	case c.Data == set.Name:
		return fmt.Sprintf(" trained on other images called %.40q,", c.Data)
	}
	return fmt.Sprintf(" trained on %.40q,", c.Data)
}
