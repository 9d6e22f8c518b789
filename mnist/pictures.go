package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"slices"

	"hvae/ad"
	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

const aboutSample = `Draws digits that a model generates.
For example: mnist sample -checkpoint runs/vae -o digits.png`

const aboutReconstruct = `Draws test digits and their reconstructions. From top to bottom, the rows of the picture are the images, the pixel
probabilities at the mean of the variational prior, and the pixel probabilities at the positions z_0 … z_K of the flow.
For example: mnist reconstruct -checkpoint runs/vae -o digits.png`

// sample runs the sample command.
func sample(ctx context.Context, args []string, stdout, _ io.Writer) error {
	f := flag.NewFlagSet("mnist sample", flag.ContinueOnError)
	return draw(ctx, f, aboutSample, 64, args, stdout, samples)
}

// reconstruct runs the reconstruct command. The flow starts at z_0, a draw from q(z|x). For a VAE, there is only z_0.
func reconstruct(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("mnist reconstruct", flag.ContinueOnError)
	var folder string
	dataFlag(f, &folder)
	picture := func(c model.Checkpoint, n int, seed uint64) ([]byte, error) {
		set, err := data.Load(ctx, folder, stderr)
		if err != nil {
			return nil, err
		}
		if n > set.Test.Len() {
			return nil, command.Usage("invalid value %d for flag -n: there are %d test images", n, set.Test.Len())
		}
		x := linalg.New[float32](data.Pixels, n)
		for i := range n {
			data.Binarise(x, i, set.Test.Image(i), random.Stream(seed, "mnist reconstruct pixels", i))
		}
		var t ad.Tape[float32]
		network := c.Const(&t)
		images := t.Const(x)
		rng := random.Stream(seed, "mnist reconstruct")
		mean, std := network.Encode(images)
		epsilon := c.Noise(&t, rng, n)
		gamma0 := c.Noise(&t, rng, n)
		start := network.Draw(images, mean, std, epsilon, gamma0).Start
		rows := []linalg.Matrix[float32]{x, ad.Sigmoid(network.Decode(mean)).Value}
		for _, s := range network.Flow(images).Path(start) {
			rows = append(rows, ad.Sigmoid(network.Decode(s.Z)).Value)
		}
		return contact(n, rows...)
	}
	return draw(ctx, f, aboutReconstruct, 12, args, stdout, picture)
}

// draw defines the flags that sample and reconstruct share, parses the command line, and draws n digits.
func draw(ctx context.Context, f *flag.FlagSet, about string, n int, args []string, stdout io.Writer,
	picture func(c model.Checkpoint, n int, seed uint64) ([]byte, error)) error {
	var checkpoint string
	modelFlag(f, &checkpoint)
	f.IntVar(&n, "n", n, "`number` of digits")
	out := f.String("o", "", "`file` for the picture, a PNG (required)")
	seed := f.Uint64("seed", 1, "seed for random numbers")
	err := command.Parse(f, about, args, stdout)
	switch {
	case err != nil:
		return err
	case n < 1 || n > 1000:
		return command.Usage("invalid value %d for flag -n: it must be from 1 to 1000", n)
	case *out == "":
		return command.Usage("-o is missing: specify a file for the picture")
	}
	c, _, err := readCheckpoint(checkpoint)
	if err == nil {
		err = checkOutput(*out)
	}
	if err != nil {
		return err
	}
	var png []byte
	done := make(chan error, 1)
	go func() {
		digits, err := picture(c, n, *seed)
		png = digits
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("%w; the picture is not finished", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	return command.WriteFile(*out, png, os.Rename)
}

// samples returns a PNG with the pixel probabilities of n images drawn from a model.
func samples(c model.Checkpoint, n int, seed uint64) ([]byte, error) {
	var t ad.Tape[float32]
	z := c.Noise(&t, random.Stream(seed, "mnist sample"), n)
	x := ad.Sigmoid(c.Const(&t).Decode(z)).Value
	return contact(int(math.Ceil(math.Sqrt(float64(n)))), x)
}

// contact returns a PNG of a contact sheet with the given number of digits per row. Each column of the matrices [784×n]
// is a digit, with values from 0 (black) to 1 (white). The digits fill the sheet row by row. contact returns an error
// if a value is not finite.
func contact(columns int, digits ...linalg.Matrix[float32]) ([]byte, error) {
	notFinite := func(m linalg.Matrix[float32]) bool { return !linalg.Finite(m) }
	if slices.ContainsFunc(digits, notFinite) {
		return nil, errors.New("a picture would have pixels that are not finite: the model is damaged or has diverged")
	}
	const scale, gap, margin = 2, 4, 8 // in pixels
	const pitch = data.Side*scale + gap
	n := len(digits) * digits[0].Cols
	rows := (n + columns - 1) / columns
	sheet := image.NewGray(image.Rect(0, 0, columns*pitch-gap+2*margin, rows*pitch-gap+2*margin))
	copy(sheet.Pix, bytes.Repeat([]byte{255}, len(sheet.Pix)))
	for i := range n {
		m, column := digits[i/digits[0].Cols], i%digits[0].Cols
		corner := image.Pt(margin+i%columns*pitch, margin+i/columns*pitch)
		for y := range data.Side * scale {
			for x := range data.Side * scale {
				v := m.At(y/scale*data.Side+x/scale, column)
				sheet.SetGray(corner.X+x, corner.Y+y, color.Gray{uint8(math.Round(255 * float64(v)))})
			}
		}
	}
	var b bytes.Buffer
	png.Encode(&b, sheet) // fails only if an edge has 2³² pixels or more
	return b.Bytes(), nil
}

// curve returns a plot of a run's metrics as SVG.
func curve(c model.Config, data string, all []model.Metrics) []byte {
	chart := plot.Chart{XLabel: "epoch", YLabel: "ELBO (nats)", LogX: true}
	chart.Title = fmt.Sprintf("Training: %v, on %s", c, data)
	for _, m := range all {
		chart.Add("training", plot.Line, float64(m.Epoch), m.TrainELBO)
		chart.Add("validation", plot.Line, float64(m.Epoch), m.ValELBO)
	}
	best := model.Best(all)
	chart.Add(fmt.Sprintf("best epoch, %d", best.Epoch), plot.Points, float64(best.Epoch), best.ValELBO)
	return plot.Panels(1, chart)
}
