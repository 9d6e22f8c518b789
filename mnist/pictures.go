package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"path/filepath"
	"strings"

	"hvae/ad"
	"hvae/bench/atomicfile"
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

// parse parses the command line and reads the model. The argument n is the default value of -n. The sample command has
// no flag -data.
func (f *pictureFlags) parse(args []string, n int, withData bool) (c model.Checkpoint, err error) {
	flags := command.NewFlags()
	flags.StringVar(&f.checkpoint, "checkpoint", "", "`file` of the model, or the folder of its run (required)")
	if withData {
		dataFlag(flags, &f.data)
	}
	flags.Range(&f.n, "n", n, 1, 10_000, "`number` of digits")
	flags.StringVar(&f.out, "o", "", "`file` for the picture, a PNG (required)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed for random numbers")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if !strings.EqualFold(filepath.Ext(f.out), ".png") {
		return c, command.UsageError("invalid value %q for flag -o: the picture is a PNG, so its name must end in .png", f.out)
	}
	return readCheckpoint(f.checkpoint)
}

// sample runs the sample command.
func sample(_ context.Context, args []string, stdout, stderr io.Writer) error {
	var f pictureFlags
	c, err := f.parse(args, 64, false)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(f.out, samples(c, f.n, f.seed)); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: %d images from %v, epoch %d\n", f.out, f.n, c.Config, c.Epoch)
	return nil
}

// reconstruct runs the reconstruct command. Its picture has a group of K + 3 digits for each test image: the image, the
// pixel probabilities at the mean of the variational prior, and the probabilities at the positions z_0 … z_K of the
// flow, where z_0 is a draw from the variational prior. For a VAE, K = 0.
func reconstruct(_ context.Context, args []string, stdout, stderr io.Writer) error {
	var f pictureFlags
	c, err := f.parse(args, 24, true)
	if err != nil {
		return err
	}
	set, err := loadTestImages(data.LoadTest, f.data, c, f.n, "n", stderr)
	if err != nil {
		return err
	}
	x := linalg.New[float32](data.Side*data.Side, f.n)
	for i := range f.n {
		data.Binarise(x, i, set.Test.Image(i), random.Stream(f.seed, "mnist reconstruct pixels", i))
	}
	var t ad.Tape[float32]
	network, images, rng := c.Network(&t), t.Const(x), random.Stream(f.seed, "mnist reconstruct")
	mean, std := network.Encode(images)
	epsilon, gamma0 := t.Matrix(c.Config.Latent, f.n), t.Matrix(c.Config.Latent, f.n)
	random.FillNormal(rng, epsilon)
	random.FillNormal(rng, gamma0)
	start := network.Draw(images, mean, std, t.Const(epsilon), t.Const(gamma0)).Start
	flow, shown, logJoints := network.Flow(images), []linalg.Matrix[float32]{x, ad.Sigmoid(network.Decode(mean)).Value}, ""
	for k, s := range flow.Path(start) {
		logJoint := float64(ad.Mean(flow.Target.LogJoint(s.Z)).Scalar())
		if logJoint-logJoint != 0 {
			return fmt.Errorf("%s: log p(x, z_%d) is not finite: the model is damaged or has diverged", f.checkpoint, k)
		}
		shown = append(shown, ad.Sigmoid(network.Decode(s.Z)).Value)
		logJoints += fmt.Sprintf(" %.1f", logJoint)
	}
	if err := atomicfile.Write(f.out, contact(max(1, 12/len(shown)), shown...)); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s: test images of %s; the model is %v, epoch %d\n", f.out, set.Name, c.Config, c.Epoch)
	fmt.Fprintln(stdout, "from left to right: the image, its reconstruction from the encoder's mean, and from z_0 … z_K")
	fmt.Fprintf(stdout, "mean of log p(x, z_k) in nats:%s\n", logJoints)
	return nil
}

// samples returns a PNG with the pixel probabilities of n images drawn from a model.
func samples(c model.Checkpoint, n int, seed uint64) []byte {
	var t ad.Tape[float32]
	z := t.Matrix(c.Config.Latent, n)
	random.FillNormal(random.Stream(seed, "mnist sample"), z)
	x := ad.Sigmoid(c.Network(&t).Decode(t.Const(z))).Value
	return contact(int(math.Ceil(math.Sqrt(float64(n)))), x)
}

// contact returns a contact sheet as a PNG. Its digits are the columns of the given matrices [784×n], with values from
// 0 (black) to 1 (white). The columns with the same number form a group. Each row of the sheet has the given number of
// groups or, if this is more, n.
func contact(groups int, digits ...linalg.Matrix[float32]) []byte {
	const side, scale, gap, margin = 28, 2, 4, 8 // in pixels
	const pitch = side*scale + gap
	size, n := len(digits), digits[0].Cols
	apart := 16 * min(1, size-1) // additional gap between groups, unless a group is a single digit
	groups = min(groups, n)
	rows := (n + groups - 1) / groups
	sheet := image.NewGray(image.Rect(0, 0, groups*(size*pitch+apart)-apart-gap+2*margin, rows*pitch-gap+2*margin))
	draw.Draw(sheet, sheet.Bounds(), image.White, image.Point{}, draw.Src)
	for j := range size * n {
		left, top := j%size*pitch+j/size%groups*(size*pitch+apart), j/size/groups*pitch
		for i := range side * side {
			at := image.Pt(margin+left+i%side*scale, margin+top+i/side*scale)
			grey := image.NewUniform(color.Gray{uint8(math.Round(255 * float64(digits[j%size].At(i, j/size))))})
			draw.Draw(sheet, image.Rectangle{at, at.Add(image.Pt(scale, scale))}, grey, image.Point{}, draw.Src)
		}
	}
	var b bytes.Buffer
	png.Encode(&b, sheet) // fails only if an edge has 2³² pixels or more
	return b.Bytes()
}
