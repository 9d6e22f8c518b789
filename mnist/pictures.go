package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
	"hvae/mnist/sheet"
)

// pictureFlag defines the flag -o.
func pictureFlag(f *command.Flags, out *string) {
	f.Checked(out, "o", "`file` for the picture, a PNG (required)", func(s string) error {
		switch {
		case s == "-":
			return errors.New("a picture is written to a file, not to standard output")
		case !strings.EqualFold(filepath.Ext(s), ".png"):
			return errors.New("the picture is a PNG, and its name has to end in .png")
		}
		return nil
	})
}

// sample is the command.
func sample(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.NewFlags()
	var checkpoint, out string
	var n int
	var seed uint64
	f.String(&checkpoint, "checkpoint", "", "`file` of the model (required)")
	f.Count(&n, "n", 64, 1, "`number` of digits")
	pictureFlag(f, &out)
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
	c, err := readCheckpoint(checkpoint, stderr)
	if err != nil {
		return err
	}
	var digits linalg.Matrix[float32]
	if err := command.Wait(ctx, func() { digits = model.Generate(c.Config, c.Params, n, seed) }); err != nil {
		return err
	}
	columns := int(math.Ceil(math.Sqrt(float64(n))))
	if err := writePicture(out, sheet.Draw(digits, nil, columns)); err != nil {
		return err
	}
	on := ""
	if c.Data != "" {
		on = fmt.Sprintf(", trained on %.40q", c.Data)
	}
	fmt.Fprintf(stderr, "wrote %s: %d images from %v, epoch %d%s\n", out, n, c.Config, c.Epoch, on)
	return nil
}

// reconstruct is the command.
func reconstruct(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.NewFlags()
	var checkpoint, folder, name, out string
	var n int
	var seed uint64
	f.String(&checkpoint, "checkpoint", "", "`file` of the model (required)")
	source(f, &folder, &name)
	f.Count(&n, "n", 24, 1, "`number` of test digits")
	pictureFlag(f, &out)
	f.Seed(&seed, "seed of binarisation and noise")
	if err := f.Parse(args); err != nil {
		return err
	}
	if out == "" {
		return command.UsageError("-o is missing: name a PNG file to write")
	}
	c, err := readCheckpoint(checkpoint, stderr)
	if err != nil {
		return err
	}
	set, err := load(ctx, folder, name, stderr)
	if err != nil {
		return err
	}
	if n > set.Test.Len() {
		return command.UsageError("invalid value %d for flag -n: there are %d test images", n, set.Test.Len())
	}
	x := linalg.New[float32](784, n)
	for i := range n {
		data.Binarise(x, i, set.Test.Image(i), hvae.Stream(seed, "mnist reconstruct pixels", i))
	}
	var fromMean linalg.Matrix[float32]
	var path []model.Step[float32]
	if err := command.Wait(ctx, func() { fromMean, path = model.Reconstruct(c.Config, c.Params, x, seed) }); err != nil {
		return err
	}
	// A group for each digit: the input and the reconstructions.
	images, captions := []linalg.Matrix[float32]{x, fromMean}, []string{"input", "mean"}
	for k, s := range path {
		images, captions = append(images, s.Image), append(captions, fmt.Sprintf("z%d", k))
	}
	var labels []string // log p(x, z_k), of an HVAE
	shown := "the encoder's mean and from a draw"
	if c.Config.Kind == "vae" {
		captions[2] = "draw"
	} else {
		shown = "the encoder's mean and from z_0 to z_K along the Hamiltonian flow of a draw, with log p(x, z_k) in nats"
		for i := range n {
			labels = append(labels, "", "")
			for _, s := range path {
				labels = append(labels, fmt.Sprintf("%.0f", s.LogJoint.At(0, i)))
			}
		}
	}
	group := len(images)
	digits := linalg.New[float32](784, group*n)
	for r := range digits.Rows {
		for i := range digits.Cols {
			digits.Row(r)[i] = images[i%group].At(r, i/group)
		}
	}
	if err := writePicture(out, sheet.Draw(digits, labels, group*min(max(1, 12/group), n), captions...)); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: test images of %s and their reconstructions from %s, by %v,%s epoch %d\n",
		out, set.Name, shown, c.Config, otherData(c, set), c.Epoch)
	return nil
}

// writePicture writes a picture to the file that -o names.
func writePicture(name string, b []byte) error {
	if err := atomicfile.Write(name, b); err != nil {
		return fmt.Errorf("cannot write the picture %w", err)
	}
	return nil
}
