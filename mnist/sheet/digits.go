package sheet

import (
	"fmt"
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
	return contact(x, int(math.Ceil(math.Sqrt(float64(n)))), nil, nil)
}

// Reconstructions returns a PNG with a group of pictures for each image of x [784×n]: the image, the pixel
// probabilities at the mean of the variational prior, and the probabilities at the positions z_0 … z_K of the
// flow, where z_0 is a draw from the variational prior. For a VAE, K = 0. For an HVAE, the labels are
// log p_θ(x, z_k). Reconstructions returns an error if a value of log p_θ(x, z_k) is not finite.
func Reconstructions(c model.Checkpoint, x linalg.Matrix[float32], seed uint64) ([]byte, error) {
	var t ad.Tape[float32]
	network, n := model.NewNetwork(c.Config, model.Vars(t.Const, c.Params)), x.Cols
	images := t.Const(x)
	mean, std := network.Encode(images)
	rng := random.Stream(seed, "mnist reconstruct")
	epsilon, gamma0 := hvae.Noise(&t, rng, c.Config.Latent, n), hvae.Noise(&t, rng, c.Config.Latent, n)
	start := network.Draw(images, mean, std, epsilon, gamma0).Start
	flow := network.Flow(images)

	shown, captions := []linalg.Matrix[float32]{x, ad.Sigmoid(network.Decode(mean)).Value}, []string{"input", "mean"}
	var logJoints []linalg.Matrix[float32]
	for k, s := range flow.Path(start) {
		logJoint := flow.Target.LogJoint(s.Z).Value
		if !linalg.Finite(logJoint) {
			return nil, fmt.Errorf("log p(x, z_%d) is not finite: the model is damaged or has diverged", k)
		}
		logJoints = append(logJoints, logJoint)
		shown, captions = append(shown, ad.Sigmoid(network.Decode(s.Z)).Value), append(captions, fmt.Sprintf("z%d", k))
	}
	var labels []string
	if c.Config.Kind == "vae" {
		captions[2] = "draw"
	} else {
		for i := range n {
			labels = append(labels, "", "")
			for _, l := range logJoints {
				labels = append(labels, fmt.Sprintf("%.0f", l.At(0, i)))
			}
		}
	}
	group := len(shown)
	digits := linalg.New[float32](x.Rows, group*n)
	for r := range digits.Rows {
		for i := range digits.Cols {
			digits.Row(r)[i] = shown[i%group].At(r, i/group)
		}
	}
	return contact(digits, group*min(max(1, 12/group), n), captions, labels), nil
}
