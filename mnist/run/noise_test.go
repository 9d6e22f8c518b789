package run

import (
	"math"
	"os"
	"testing"

	"hvae/mnist/data"
	"hvae/mnist/model"
)

// With fixed weights, only noise changes the validation ELBO from epoch to epoch. The standard deviation of
// this noise must be 0.044 nats for the trained VAE, as in results/README.md. With n = 1,000 batches, the
// test estimates it as √(Σ (a − b)²/2) / n, where a and b are the ELBOs of a batch in two epochs. The
// relative standard error of the estimate is about 2 %.
func TestValidationNoise(t *testing.T) {
	folder := os.Getenv("HVAE_MNIST")
	if folder == "" {
		t.Skip("this test needs MNIST: set HVAE_MNIST to the folder that contains its files")
	}
	set, err := data.Load(t.Context(), folder, "mnist", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.ReadCheckpoint("../results/vae.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	_, indices := data.Split(set.Train, c.Seed)
	r := &Run{settings: &Settings{Seed: c.Seed}, set: set}
	trainer := model.NewTrainer(c.Config, c.Params, 1e-3)
	variance := 0.0
	const size = 10
	for lo := 0; lo < len(indices); lo += size {
		var elbo [2]float64
		for epoch := range elbo {
			r.position.Epoch = epoch
			if elbo[epoch], err = trainer.ELBO(t.Context(), indices[lo:lo+size], r.fill(true)); err != nil {
				t.Fatal(err)
			}
		}
		d := (elbo[0] - elbo[1]) * size / float64(len(indices))
		variance += d * d / 2
	}
	if sd := math.Sqrt(variance); !(math.Abs(sd-0.044) < 0.004) {
		t.Errorf("the standard deviation of the validation ELBO is %.4f nats, want 0.044", sd)
	}
}
