package model_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg/random"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// Arithmetic with subnormal numbers is up to 100 times slower on some processors. Therefore softplus and
// sigmoid return 0 below a threshold (tail in linalg/internal/kernel). A training step of a trained model
// must contain at most 1/50 of the subnormal values and adjoints that occur without the threshold.
func TestStepOfATrainedModelHasFewSubnormalNumbers(t *testing.T) {
	for _, c := range []struct {
		file    string
		images  int
		without int // subnormal numbers without the threshold
	}{
		{"../results/vae.safetensors", 100, 4067},
		{"../results/hvae150.safetensors", 16, 46},
	} {
		b, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		checkpoint, err := model.DecodeCheckpoint(b)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := eval.Simulate(checkpoint, c.images, func(image int) *rand.Rand { return random.Stream(1, "test", image) })
		// Grad, unlike Backward, records the adjoints on the tape. The gradient of the first parameter depends on
		// all activations and on the adjoints of all activations.
		var tape ad.Tape[float32]
		var params []*ad.Var[float32]
		network := checkpoint.On(func(p *hvae.Param[float32]) *ad.Var[float32] {
			params = append(params, tape.Leaf(p.Value))
			return params[len(params)-1]
		})
		noise := func(purpose string) *ad.Var[float32] {
			m := tape.Matrix(checkpoint.Config.Latent, c.images)
			random.FillNormal(random.Stream(1, purpose), m)
			return tape.Const(m)
		}
		subnormal, all, counted := 0, 0, map[*ad.Var[float32]]bool{nil: true}
		var count func(v *ad.Var[float32])
		count = func(v *ad.Var[float32]) {
			if counted[v] {
				return
			}
			counted[v] = true
			for _, e := range v.Value.Data {
				if -0x1p-126 < e && e < 0x1p-126 && e != 0 {
					subnormal++
				}
			}
			all += len(v.Value.Data)
			for _, operand := range v.Operands() {
				count(operand)
			}
		}
		bound := network.VAEBound
		if checkpoint.Config.K > 0 {
			bound = func(x, epsilon *ad.Var[float32]) *ad.Var[float32] { return network.ELBO(x, epsilon, noise("gamma0")) }
		}
		count(ad.Grad(ad.Sum(bound(tape.Const(x), noise("epsilon"))), params[0]))
		t.Logf("%s: %d of %d numbers are subnormal", c.file, subnormal, all)
		if subnormal > c.without/50 {
			t.Errorf("%s: %d of %d numbers are subnormal, want at most 1/50 of %d", c.file, subnormal, all, c.without)
		}
	}
}
