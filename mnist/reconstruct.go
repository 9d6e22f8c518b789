package main

import (
	"context"
	"fmt"
	"io"

	"hvae/bench/atomicfile"
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
	c, err := f.readModel(args)
	if err != nil {
		return err
	}
	set, err := loadTestImages(ctx, folder, c, f.n, "n", stderr)
	if err != nil {
		return err
	}
	x := linalg.New[float32](data.Side*data.Side, f.n)
	for i := range f.n {
		data.Binarise(x, i, set.Test.Image(i), random.Stream(f.seed, "mnist reconstruct pixels", i))
	}
	picture, logJoints, err := sheet.Reconstructions(c, x, f.seed)
	if err != nil {
		return fmt.Errorf("%s: %w", f.checkpoint, err)
	}
	if err := atomicfile.Write(f.out, picture); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: test images of %s; the model is %v, epoch %d\n", f.out, set.Name, c.Config, c.Epoch)
	fmt.Fprintf(stdout, "from left to right: the image, its reconstruction from the encoder's mean, and from ")
	if c.Config.Kind == "vae" {
		fmt.Fprintf(stdout, "a draw of z\n")
		return nil
	}
	fmt.Fprintf(stdout, "z_0 … z_%d\nmean of log p(x, z_k) in nats:", c.Config.K)
	for _, l := range logJoints {
		fmt.Fprintf(stdout, " %.1f", l)
	}
	fmt.Fprintln(stdout)
	return nil
}
