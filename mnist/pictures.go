package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"hvae/bench/command"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// sample is the command.
func sample(_ context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.NewFlags()
	var checkpoint, out string
	var n int
	var seed uint64
	f.String(&checkpoint, "checkpoint", "", "`file` of the model (required)")
	f.Count(&n, "n", 64, 1, "`number` of digits")
	f.String(&out, "o", "", "`file` for the picture, a PNG (required)")
	f.Seed(&seed, "seed of the latent variables")
	if err := f.Parse(args); err != nil {
		return err
	}
	if out == "" {
		return command.UsageError("-o is missing: name a PNG file to write")
	}
	if n > 10_000 {
		return command.UsageError("invalid value %d for flag -n: a picture has at most 10000 digits", n)
	}
	c, err := readCheckpoint(checkpoint)
	if err != nil {
		return err
	}
	columns := int(math.Ceil(math.Sqrt(float64(n))))
	if err := writeSheet(out, model.Generate(c.Config, c.Params, n, seed), columns); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: %d digits from %v, epoch %d\n", out, n, c.Config, c.Epoch)
	return nil
}

// reconstruct is the command.
func reconstruct(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.NewFlags()
	var checkpoint, dataSetting, out string
	var n int
	var seed uint64
	f.String(&checkpoint, "checkpoint", "", "`file` of the model (required)")
	f.String(&dataSetting, "data", "", dataUsage)
	f.Count(&n, "n", 24, 1, "`number` of test digits")
	f.String(&out, "o", "", "`file` for the picture, a PNG (required)")
	f.Seed(&seed, "seed of binarisation and noise")
	if err := f.Parse(args); err != nil {
		return err
	}
	if out == "" {
		return command.UsageError("-o is missing: name a PNG file to write")
	}
	c, err := readCheckpoint(checkpoint)
	if err != nil {
		return err
	}
	set, err := data.Load(ctx, dataSetting, func(m string) { fmt.Fprintln(stderr, m) })
	if err != nil {
		return err
	}
	if n > set.Test.Len() {
		return command.UsageError("invalid value %d for flag -n: there are %d test images", n, set.Test.Len())
	}
	x := linalg.New[float32](side*side, n)
	for i := range n {
		data.Binarise(x, i, set.Test.Image(i), hvae.Stream(seed, "mnist reconstruct pixels", i))
	}
	fromMean, fromFlow := model.Reconstruct(c.Config, c.Params, x, seed)
	// Triples: column 3i the input, then both reconstructions.
	sheet := linalg.New[float32](side*side, 3*n)
	for r := range sheet.Rows {
		for i := range n {
			copy(sheet.Row(r)[3*i:], []float32{x.At(r, i), fromMean.At(r, i), fromFlow.At(r, i)})
		}
	}
	third := map[string]string{"vae": "draw", "hvae": "flow"}[c.Config.Kind]
	if err := writeSheet(out, sheet, 3*min(4, n), "input", "mean", third); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: triples of a test digit and its reconstructions from the encoder's mean and from %s\n",
		out, map[string]string{"vae": "a draw", "hvae": "where the Hamiltonian flow of a draw ends"}[c.Config.Kind])
	return nil
}
