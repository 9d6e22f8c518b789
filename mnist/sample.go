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
	"hvae/linalg"
	"hvae/mnist/model"
	"hvae/mnist/sheet"
)

// sample runs the command sample.
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

// pictureFlag defines the flag -o.
func pictureFlag(f *command.Flags, out *string) {
	f.Checked(out, "o", "`file` for the picture, a PNG (required)", func(s string) error {
		switch {
		case s == "-":
			return errors.New("a picture cannot be written to standard output")
		case !strings.EqualFold(filepath.Ext(s), ".png"):
			return errors.New("the picture is a PNG, so its name must end in .png")
		}
		return nil
	})
}

// writePicture writes a picture to the file that -o names.
func writePicture(name string, b []byte) error {
	if err := atomicfile.Write(name, b); err != nil {
		return fmt.Errorf("cannot write the picture %w", err)
	}
	return nil
}
