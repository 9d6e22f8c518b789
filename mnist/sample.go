package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/mnist/model"
	"hvae/mnist/sheet"
)

// sample runs the sample command.
func sample(_ context.Context, args []string, stdout, stderr io.Writer) error {
	f := newPictureFlags(64, "`number` of digits", "seed for the latent variables")
	c, err := f.readModel(args)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(f.out, sheet.Samples(c.Config, c.Params, f.n, f.seed)); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: %d images from %v, epoch %d\n", f.out, f.n, c.Config, c.Epoch)
	return nil
}

// pictureFlags are the flags that sample and reconstruct share.
type pictureFlags struct {
	*command.Flags
	checkpoint, out string
	n               int
	seed            uint64
}

// newPictureFlags defines the flags. n is the default of -n. count and seed are the usage texts of -n
// and -seed.
func newPictureFlags(n int, count, seed string) *pictureFlags {
	f := &pictureFlags{Flags: command.NewFlags()}
	f.StringVar(&f.checkpoint, "checkpoint", "", "`file` of the model, or the folder of its run (required)")
	f.Range(&f.n, "n", n, 1, 10_000, count)
	f.Func("o", "`file` for the picture, a PNG (required)", func(name string) error {
		if !strings.EqualFold(filepath.Ext(name), ".png") {
			return errors.New("the picture is a PNG, so its name must end in .png")
		}
		f.out = name
		return nil
	})
	f.Uint64Var(&f.seed, "seed", 1, seed)
	return f
}

// readModel parses the command line and reads the model.
func (f *pictureFlags) readModel(args []string) (c model.Checkpoint, err error) {
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.out == "" {
		return c, command.UsageError("-o is missing: specify a PNG file to write")
	}
	return readCheckpoint(f.checkpoint)
}
