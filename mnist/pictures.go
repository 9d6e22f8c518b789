package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
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

// pictureFlags are the flags of the sample and reconstruct commands.
type pictureFlags struct {
	checkpoint, data, out string
	n                     int
	seed                  uint64
}

// parse parses the command line and reads the model. The argument n is the default value of -n.
func (p *pictureFlags) parse(f *flag.FlagSet, about string, args []string, n int) (c model.Checkpoint, err error) {
	modelFlag(f, &p.checkpoint)
	f.IntVar(&p.n, "n", n, "`number` of digits")
	f.StringVar(&p.out, "o", "", "`file` for the picture, a PNG (required)")
	f.Uint64Var(&p.seed, "seed", 1, "seed for random numbers")
	err = command.Parse(f, about, args)
	switch {
	case err != nil:
		return c, err
	case p.n < 1 || p.n > 10_000:
		return c, command.Usage("invalid value %d for flag -n: it must be from 1 to 10000", p.n)
	case !strings.EqualFold(filepath.Ext(p.out), ".png"):
		return c, command.Usage("invalid value %q for flag -o: the picture is a PNG, so its name must end in .png", p.out)
	}
	return readCheckpoint(p.checkpoint)
}

// sample runs the sample command.
func sample(_ context.Context, args []string, stdout, stderr io.Writer) error {
	var p pictureFlags
	f := flag.NewFlagSet("mnist sample", flag.ContinueOnError)
	c, err := p.parse(f, "Draws digits that a model generates.", args, 64)
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
	f := flag.NewFlagSet("mnist reconstruct", flag.ContinueOnError)
	dataFlag(f, &p.data)
	c, err := p.parse(f, "Draws test digits, their reconstructions and, for an HVAE, the images along its flow.", args, 24)
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
	network := c.Const(&t)
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
	x := ad.Sigmoid(c.Const(&t).Decode(z)).Value
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
	const scale, gap, margin = 2, 4, 8 // in pixels
	const side = data.Side * scale
	size, n := len(digits), digits[0].Cols
	apart := 16 * min(1, size-1) // additional gap between groups, unless a group is a single digit
	pitch := size*(side+gap) + apart
	groups = min(groups, n)
	rows := (n + groups - 1) / groups
	sheet := image.NewGray(image.Rect(0, 0, groups*pitch-apart-gap+2*margin, rows*(side+gap)-gap+2*margin))
	for i := range sheet.Pix {
		sheet.Pix[i] = 255
	}
	for j := range size * n {
		column := j / size
		left := margin + j%size*(side+gap) + column%groups*pitch
		top := margin + column/groups*(side+gap)
		for i := range side * side {
			x, y := i%side, i/side
			v := digits[j%size].At(y/scale*data.Side+x/scale, column)
			sheet.SetGray(left+x, top+y, color.Gray{uint8(math.Round(255 * float64(v)))})
		}
	}
	var b bytes.Buffer
	png.Encode(&b, sheet) // fails only if an edge has 2³² pixels or more
	return b.Bytes()
}
