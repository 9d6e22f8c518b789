// Package sheet draws contact sheets, which are pictures of digits in rows and columns: digits that a model
// generates, and test digits with their reconstructions.
package sheet

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/model"
)

// Samples returns a PNG with the pixel probabilities of n images drawn from a model.
func Samples(c model.Config, params []model.Param[float32], n int, seed uint64) []byte {
	var t ad.Tape[float32]
	z := hvae.Noise(&t, random.Stream(seed, "mnist sample"), c.Latent, n)
	x := ad.Sigmoid(model.NewNetwork(c, model.Vars(t.Const, params)).Decode(z)).Value
	columns := int(math.Ceil(math.Sqrt(float64(n))))
	return contact(x, columns, columns)
}

// Reconstructions returns a PNG with a group of K + 3 pictures for each image of x [784×n]: the image, the pixel
// probabilities at the mean of the variational prior, and the probabilities at the positions z_0 … z_K of the
// flow, where z_0 is a draw from the variational prior. For a VAE, K = 0. Reconstructions also returns the mean
// of log p_θ(x, z_k) over the images for each k, and an error if it is not finite.
func Reconstructions(c model.Checkpoint, x linalg.Matrix[float32], seed uint64) (picture []byte, logJoints []float64, err error) {
	var t ad.Tape[float32]
	network, n := model.NewNetwork(c.Config, model.Vars(t.Const, c.Params)), x.Cols
	images := t.Const(x)
	mean, std := network.Encode(images)
	rng := random.Stream(seed, "mnist reconstruct")
	epsilon, gamma0 := hvae.Noise(&t, rng, c.Config.Latent, n), hvae.Noise(&t, rng, c.Config.Latent, n)
	start := network.Draw(images, mean, std, epsilon, gamma0).Start
	flow, shown := network.Flow(images), []linalg.Matrix[float32]{x, ad.Sigmoid(network.Decode(mean)).Value}
	for k, s := range flow.Path(start) {
		logJoint := float64(ad.Mean(flow.Target.LogJoint(s.Z)).Scalar())
		if math.IsNaN(logJoint) || math.IsInf(logJoint, 0) {
			return nil, nil, fmt.Errorf("log p(x, z_%d) is not finite: the model is damaged or has diverged", k)
		}
		shown, logJoints = append(shown, ad.Sigmoid(network.Decode(s.Z)).Value), append(logJoints, logJoint)
	}
	group := len(shown)
	digits := linalg.New[float32](x.Rows, group*n)
	for r := range digits.Rows {
		for i := range digits.Cols {
			digits.Row(r)[i] = shown[i%group].At(r, i/group)
		}
	}
	return contact(digits, group, group*min(max(1, 12/group), n)), logJoints, nil
}

// contact returns a contact sheet as a PNG. The digits are the columns of x [784×n], with values from 0
// (black) to 1 (white). Each row of the sheet has the given number of columns, divided into groups.
func contact(x linalg.Matrix[float32], group, columns int) []byte {
	const side, scale, gap, apart, margin = 28, 2, 4, 20, 8 // in pixels; apart is the gap between groups
	const pitch = side*scale + gap
	left := func(column int) int { return margin + column*pitch + column/group*(apart-gap) }
	rows := (x.Cols + columns - 1) / columns
	sheet := image.NewGray(image.Rect(0, 0, left(columns-1)+pitch-gap+margin, 2*margin+rows*pitch-gap))
	draw.Draw(sheet, sheet.Bounds(), image.White, image.Point{}, draw.Src)
	for n := range x.Cols {
		for i := range side * side {
			at := image.Pt(left(n%columns)+i%side*scale, margin+n/columns*pitch+i/side*scale)
			grey := image.NewUniform(color.Gray{uint8(math.Round(255 * float64(x.At(i, n))))})
			draw.Draw(sheet, image.Rectangle{at, at.Add(image.Pt(scale, scale))}, grey, image.Point{}, draw.Src)
		}
	}
	var b bytes.Buffer
	png.Encode(&b, sheet) // fails only if an edge has 2³² pixels or more
	return b.Bytes()
}
