package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"hvae/ad"
	"hvae/bench/command"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

const (
	aboutSample = `Draws digits that a model generates. For example: mnist sample -checkpoint runs/vae -o digits.png`

	aboutReconstruct = `Draws test digits, their reconstructions and, for an HVAE, the images along its flow.
For example: mnist reconstruct -checkpoint runs/hvae -n 6 -o flow.png`
)

// pictureFlags are the flags of the sample and reconstruct commands.
type pictureFlags struct {
	checkpoint, data, out string
	n                     int
	seed                  uint64
}

// parse parses the command line and reads the model. The argument n is the default value of -n. The sample command has
// no flag -data.
func (p *pictureFlags) parse(name, about string, args []string, n int) (c model.Checkpoint, err error) {
	f := flag.NewFlagSet("mnist "+name, flag.ContinueOnError)
	modelFlag(f, &p.checkpoint)
	if name == "reconstruct" {
		dataFlag(f, &p.data)
	}
	f.IntVar(&p.n, "n", n, "`number` of digits")
	f.StringVar(&p.out, "o", "", "`file` for the picture, a PNG (required)")
	f.Uint64Var(&p.seed, "seed", 1, "seed for random numbers")
	if err := command.Parse(f, about, args); err != nil {
		return c, err
	}
	if p.n < 1 || p.n > 10_000 {
		return c, command.Usage("invalid value %d for flag -n: it must be from 1 to 10000", p.n)
	}
	if !strings.EqualFold(filepath.Ext(p.out), ".png") {
		return c, command.Usage("invalid value %q for flag -o: the picture is a PNG, so its name must end in .png", p.out)
	}
	return readCheckpoint(p.checkpoint)
}

// sample runs the sample command.
func sample(_ context.Context, args []string, stdout, stderr io.Writer) error {
	var p pictureFlags
	c, err := p.parse("sample", aboutSample, args, 64)
	if err != nil {
		return err
	}
	if err := command.WriteFile(p.out, samples(c, p.n, p.seed), os.Rename); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: %d images from %v, epoch %d\n", p.out, p.n, c.Config, c.Epoch)
	return nil
}

// reconstruct runs the reconstruct command. Its picture has a group of K + 3 digits for each test image: the image, the
// pixel probabilities at the mean of the variational prior, and the probabilities at the positions z_0 … z_K of the
// flow, where z_0 is a draw from the variational prior. For a VAE, K = 0.
func reconstruct(_ context.Context, args []string, stdout, stderr io.Writer) error {
	var p pictureFlags
	c, err := p.parse("reconstruct", aboutReconstruct, args, 24)
	if err != nil {
		return err
	}
	set, err := loadTestImages(data.LoadTest, p.data, c, p.n, "n", stderr)
	if err != nil {
		return err
	}
	x := linalg.New[float32](data.Side*data.Side, p.n)
	for i := range p.n {
		data.Binarise(x, i, set.Test.Image(i), random.Stream(p.seed, "mnist reconstruct pixels", i))
	}
	var t ad.Tape[float32]
	network := c.Network(&t)
	images := t.Const(x)
	rng := random.Stream(p.seed, "mnist reconstruct")
	mean, std := network.Encode(images)
	epsilon := noise(&t, rng, c.Config.Latent, p.n)
	gamma0 := noise(&t, rng, c.Config.Latent, p.n)
	start := network.Draw(images, mean, std, epsilon, gamma0).Start
	flow := network.Flow(images)
	shown := []linalg.Matrix[float32]{x, ad.Sigmoid(network.Decode(mean)).Value}
	logJoints := ""
	for k, s := range flow.Path(start) {
		logJoint := float64(ad.Mean(flow.Target.LogJoint(s.Z)).Scalar())
		if math.IsNaN(logJoint) || math.IsInf(logJoint, 0) {
			return fmt.Errorf("%s: log p(x, z_%d) is not finite: the model is damaged or has diverged", p.checkpoint, k)
		}
		shown = append(shown, ad.Sigmoid(network.Decode(s.Z)).Value)
		logJoints += fmt.Sprintf(" %.1f", logJoint)
	}
	if err := command.WriteFile(p.out, contact(max(1, 12/len(shown)), shown...), os.Rename); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: test images of %s; the model is %v, epoch %d\n", p.out, set.Name, c.Config, c.Epoch)
	fmt.Fprintln(stdout, "from left to right: the image, its reconstruction from the encoder's mean, and from z_0 … z_K")
	fmt.Fprintf(stdout, "mean of log p(x, z_k) in nats:%s\n", logJoints)
	return nil
}

// samples returns a PNG with the pixel probabilities of n images drawn from a model.
func samples(c model.Checkpoint, n int, seed uint64) []byte {
	var t ad.Tape[float32]
	z := noise(&t, random.Stream(seed, "mnist sample"), c.Config.Latent, n)
	x := ad.Sigmoid(c.Network(&t).Decode(z)).Value
	return contact(int(math.Ceil(math.Sqrt(float64(n)))), x)
}

// noise returns draws [rows×cols] from N(0, I).
func noise(t *ad.Tape[float32], rng *rand.Rand, rows, cols int) *ad.Var[float32] {
	m := t.Matrix(rows, cols)
	random.FillNormal(rng, m)
	return t.Const(m)
}

// contact returns a contact sheet as a PNG. Its digits are the columns of the given matrices [784×n], with values from
// 0 (black) to 1 (white). The columns with the same number form a group. Each row of the sheet has the given number of
// groups or, if this is more, n.
func contact(groups int, digits ...linalg.Matrix[float32]) []byte {
	const side, scale, gap, margin = 28, 2, 4, 8 // in pixels
	const pitch = side*scale + gap
	size := len(digits)
	n := digits[0].Cols
	apart := 16 // additional gap between groups
	if size == 1 {
		apart = 0
	}
	groups = min(groups, n)
	rows := (n + groups - 1) / groups
	sheet := image.NewGray(image.Rect(0, 0, groups*(size*pitch+apart)-apart-gap+2*margin, rows*pitch-gap+2*margin))
	draw.Draw(sheet, sheet.Bounds(), image.White, image.Point{}, draw.Src)
	for group := range n {
		for member, pixels := range digits {
			left := margin + member*pitch + group%groups*(size*pitch+apart)
			top := margin + group/groups*pitch
			for i := range side * side {
				at := image.Pt(left+i%side*scale, top+i/side*scale)
				grey := color.Gray{uint8(math.Round(255 * float64(pixels.At(i, group))))}
				square := image.Rectangle{at, at.Add(image.Pt(scale, scale))}
				draw.Draw(sheet, square, image.NewUniform(grey), image.Point{}, draw.Src)
			}
		}
	}
	var b bytes.Buffer
	png.Encode(&b, sheet) // fails only if an edge has 2³² pixels or more
	return b.Bytes()
}
