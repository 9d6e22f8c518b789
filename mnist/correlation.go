package main

import (
	"fmt"
	"math"

	"hvae/mnist/model"
)

// A correlation is what eval adds to an evaluation of an HVAE: the mean absolute correlation
// between dimensions of an image's draws, where the flow begins (z₀) and where it ends
// (z_K), in the mean over images and runs, with standard errors over images; and what it
// would be if dimensions were independent.
type correlation struct {
	Z0          float64  `json:"correlation_z0"`
	Z0SE        *float64 `json:"correlation_z0_se"` // null for one image
	ZK          float64  `json:"correlation_zk"`
	ZKSE        *float64 `json:"correlation_zk_se"`
	Independent float64  `json:"correlation_independent"`
}

// correlationOf returns the correlation of the estimates of each run, nil for one sample an
// image or one latent dimension.
func correlationOf(runs [][]model.Estimate, samples int) *correlation {
	z0, zK := make([]float64, len(runs[0])), make([]float64, len(runs[0]))
	for _, estimates := range runs {
		for i, e := range estimates {
			z0[i] += e.Z0 / float64(len(runs))
			zK[i] += e.ZK / float64(len(runs))
		}
	}
	c := &correlation{Independent: model.IndependentCorrelation(samples)}
	c.Z0, c.Z0SE = meanSE(z0)
	c.ZK, c.ZKSE = meanSE(zK)
	if math.IsNaN(c.ZK) {
		return nil
	}
	return c
}

// String returns a line for a person.
func (c *correlation) String() string {
	return fmt.Sprintf("|correlation| of dimensions given x %s of z_K, %s of z_0, %.4f if independent\n",
		plusMinus(4, c.ZK, c.ZKSE), plusMinus(4, c.Z0, c.Z0SE), c.Independent)
}
