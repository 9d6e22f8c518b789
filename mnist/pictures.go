package main

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"

	"hvae/ad"
	"hvae/bench/command"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// pictureFlags are the flags of the sample and reconstruct commands.
type pictureFlags struct {
	checkpoint, out string
	n               int
	seed            uint64
}

// parse parses the command line and reads the model. The default value of -n is p.n.
func (p *pictureFlags) parse(f *flag.FlagSet, about string, args []string, stdout io.Writer) (model.Checkpoint, error) {
	modelFlag(f, &p.checkpoint)
	f.IntVar(&p.n, "n", p.n, "`number` of digits")
	f.StringVar(&p.out, "o", "", "`file` for the picture, a PNG (required)")
	f.Uint64Var(&p.seed, "seed", 1, "seed for random numbers")
	if err := command.Parse(f, about, args, stdout); err != nil {
		return model.Checkpoint{}, err
	}
	if p.n < 1 || p.n > 10_000 {
		return model.Checkpoint{}, command.Usage("invalid value %d for flag -n: it must be from 1 to 10000", p.n)
	}
	if p.out == "" {
		return model.Checkpoint{}, command.Usage("-o is missing: specify a file for the picture")
	}
	return readCheckpoint(p.checkpoint)
}

// sample runs the sample command.
func sample(_ context.Context, args []string, stdout, _ io.Writer) error {
	p := pictureFlags{n: 64}
	f := flag.NewFlagSet("mnist sample", flag.ContinueOnError)
	c, err := p.parse(f, "Draws digits that a model generates.\nFor example: mnist sample -checkpoint runs/vae -o digits.png", args, stdout)
	if err != nil {
		return err
	}
	return command.WriteFile(p.out, samples(c, p.n, p.seed), os.Rename)
}

const aboutReconstruct = `Draws test digits and their reconstructions. From top to bottom, the rows of the picture are the images, the pixel
probabilities at the mean of the variational prior, and the pixel probabilities at the positions z_0 … z_K of the flow.
For example: mnist reconstruct -checkpoint runs/vae -o digits.png`

// reconstruct runs the reconstruct command. The flow starts at z_0, a draw from q(z|x). For a VAE, there is only z_0.
func reconstruct(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	p := pictureFlags{n: 12}
	var folder string
	f := flag.NewFlagSet("mnist reconstruct", flag.ContinueOnError)
	dataFlag(f, &folder)
	c, err := p.parse(f, aboutReconstruct, args, stdout)
	if err != nil {
		return err
	}
	set, err := data.Load(ctx, folder, stderr)
	if err != nil {
		return err
	}
	if p.n > set.Test.Len() {
		return command.Usage("invalid value %d for flag -n: there are %d test images", p.n, set.Test.Len())
	}
	x := linalg.New[float32](data.Pixels, p.n)
	for i := range p.n {
		data.Binarise(x, i, set.Test.Image(i), random.Stream(p.seed, "mnist reconstruct pixels", i))
	}
	var t ad.Tape[float32]
	network := c.Const(&t)
	images := t.Const(x)
	rng := random.Stream(p.seed, "mnist reconstruct")
	mean, std := network.Encode(images)
	epsilon := c.Noise(&t, rng, p.n)
	gamma0 := c.Noise(&t, rng, p.n)
	start := network.Draw(images, mean, std, epsilon, gamma0).Start
	rows := []linalg.Matrix[float32]{x, ad.Sigmoid(network.Decode(mean)).Value}
	for _, s := range network.Flow(images).Path(start) {
		rows = append(rows, ad.Sigmoid(network.Decode(s.Z)).Value)
	}
	return command.WriteFile(p.out, contact(p.n, rows...), os.Rename)
}

// samples returns a PNG with the pixel probabilities of n images drawn from a model.
func samples(c model.Checkpoint, n int, seed uint64) []byte {
	var t ad.Tape[float32]
	z := c.Noise(&t, random.Stream(seed, "mnist sample"), n)
	x := ad.Sigmoid(c.Const(&t).Decode(z)).Value
	return contact(int(math.Ceil(math.Sqrt(float64(n)))), x)
}

// contact returns a PNG of a contact sheet with the given number of digits per row. Each column of the matrices [784×n]
// is a digit, with values from 0 (black) to 1 (white). The digits fill the sheet row by row.
func contact(columns int, digits ...linalg.Matrix[float32]) []byte {
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
	return b.Bytes()
}
