package main

import (
	"context"
	"fmt"
	"io"

	"hvae/bench/command"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
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
	n := f.n
	if n > set.Test.Len() {
		return command.UsageError("invalid value %d for flag -n: there are %d test images", n, set.Test.Len())
	}
	x := linalg.New[float32](784, n)
	for i := range n {
		data.Binarise(x, i, set.Test.Image(i), random.Stream(f.seed, "mnist reconstruct pixels", i))
	}
	fromMean, path := model.Reconstruct(c.Config, c.Params, x, f.seed)
	// For each digit, the picture contains a group of images: the input and its reconstructions.
	images, captions := []linalg.Matrix[float32]{x, fromMean}, []string{"input", "mean"}
	for k, s := range path {
		if !linalg.Finite(s.LogJoint) {
			return fmt.Errorf("log p(x, z_%d) is not finite: the model %s is damaged or has diverged", k, f.checkpoint)
		}
		images, captions = append(images, s.Image), append(captions, fmt.Sprintf("z%d", k))
	}
	var labels []string // the values of log p(x, z_k) below the images of an HVAE
	shown := "the encoder's mean and from a draw of z"
	if c.Config.Kind == "vae" {
		captions[2] = "draw"
	} else {
		shown = "the encoder's mean and from the points z_0 to z_K of a Hamiltonian flow, with log p(x, z_k) in nats"
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
	if err := f.write(ctx, sheet.Draw(digits, labels, group*min(max(1, 12/group), n), captions...)); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: test images of %s and their reconstructions from %s; the model is %v,%s epoch %d\n",
		f.out, set.Name, shown, c.Config, otherData(c, set), c.Epoch)
	return nil
}
