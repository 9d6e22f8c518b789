package main

import (
	"fmt"
	"math"

	"hvae/ad"
	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/hvae"
	"hvae/linalg"
)

// How many paths are drawn, and of how many leapfrog steps.
const (
	pathDraws = 12
	pathSteps = 64
)

// drawPaths draws what Algorithm 1 does in the plane: z₀ … z_K over contours of the target
// with two modes, from the same z₀ and γ₀ with and without tempering. Paths that change
// mode have a colour of their own.
func drawPaths(seed uint64) []byte {
	var panels []plot.Chart
	for _, start := range modeStart {
		z := model.TwoModesPaths(pathSteps, start.invSqrtBeta0, pathDraws, hvae.Stream(seed, "two modes paths", pathSteps))
		stays := plot.Series{Label: "ends in its mode", Style: plot.Trail}
		changes := plot.Series{Label: "ends in the other", Style: plot.Trail}
		first, last := plot.Series{Label: "start z₀", Style: plot.Points}, plot.Series{Label: "end z_K", Style: plot.Points}
		for i := range pathDraws {
			path := &stays
			if z[0].At(0, i)*z[pathSteps].At(0, i) < 0 {
				path = &changes
			}
			for _, at := range z {
				path.X, path.Y = append(path.X, at.At(0, i)), append(path.Y, at.At(1, i))
			}
			path.X, path.Y = append(path.X, math.NaN()), append(path.Y, math.NaN()) // a gap
			first.X, first.Y = append(first.X, z[0].At(0, i)), append(first.Y, z[0].At(1, i))
			last.X, last.Y = append(last.X, z[pathSteps].At(0, i)), append(last.Y, z[pathSteps].At(1, i))
		}
		panels = append(panels, plot.Chart{
			Title:  fmt.Sprintf("Two modes, K = %d, %s", pathSteps, start.label),
			XLabel: "first coordinate of z", YLabel: "second coordinate of z", Equal: true,
			Series: append(contours(), stays, changes, first, last),
		})
	}
	return plot.Panels(panels...)
}

// contours returns the lines where the target's density is e^−2, e^−6, … of its
// largest.
func contours() (lines []plot.Series) {
	var t ad.Tape[float64]
	density := func(x, y float64) float64 {
		t.Reset()
		return model.TwoModes{}.LogJoint(t.Const(linalg.Column(x, y))).Scalar()
	}
	for fall := 2.0; fall <= 14; fall += 4 {
		lines = append(lines, plot.Contour(density, density(3, 0)-fall, -6, -4, 6, 4, 120))
	}
	lines[0].Label = "target"
	return lines
}
