package main

import (
	"context"
	"fmt"
	"io"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/sheet"
)

// reconstruct runs the reconstruct command.
func reconstruct(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newPictureFlags(24, "`number` of test digits", "seed for binarisation and noise")
	var folder string
	dataFlag(f.Flags, &folder)
	c, err := f.readModel(args, stderr)
	if err != nil {
		return err
	}
	set, err := loadData(ctx, folder, stderr)
	if err != nil {
		return err
	}
	if f.n > set.Test.Len() {
		return command.UsageError("invalid value %d for flag -n: there are %d test images", f.n, set.Test.Len())
	}
	x := linalg.New[float32](data.Side*data.Side, f.n)
	for i := range f.n {
		data.Binarise(x, i, set.Test.Image(i), random.Stream(f.seed, "mnist reconstruct pixels", i))
	}
	picture, err := sheet.Reconstructions(c, x, f.seed)
	if err != nil {
		return fmt.Errorf("%s: %w", f.checkpoint, err)
	}
	if err := atomicfile.Write(f.out, picture); err != nil {
		return err
	}
	shown := "the encoder's mean and from a draw of z"
	if c.Config.Kind == "hvae" {
		shown = "the encoder's mean and from the points z_0 to z_K of a Hamiltonian flow, with log p(x, z_k) in nats"
	}
	fmt.Fprintf(stderr, "wrote %s: test images of %s and their reconstructions from %s; the model is %v,%s epoch %d\n",
		f.out, set.Name, shown, c.Config, otherData(c, set), c.Epoch)
	return nil
}
