package main

import (
	"fmt"
	"slices"
	"sync"

	"hvae/ad"
	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg"
	"hvae/linalg/random"
)

// trajectory.svg shows paths of pathSteps leapfrog steps, chosen from pathDraws draws.
const (
	pathSteps = 64
	pathDraws = 500
)

// drawPaths returns a figure of four paths of Algorithm 1 on the target with two modes: paths in
// the plane, their energies and the temperature. The left column is with tempering, the right
// column without, for the same z₀ and γ₀. Paths 1 and 2 are the first two draws that change mode
// with tempering, paths 3 and 4 the first two that do not.
func drawPaths(seed uint64) []byte {
	var chosen []int
	var labels []string
	all := make([][]model.TwoModesPath, len(modeFlows))
	for i, m := range modeFlows {
		m.flow.K = pathSteps
		all[i] = m.flow.Paths(pathDraws, random.Stream(seed, "two modes paths", pathSteps))
	}
	for _, kind := range []struct {
		name    string
		changes bool
	}{{"changes mode", true}, {"stays", false}} {
		for i, n := 0, 0; i < pathDraws && n < 2; i++ {
			if all[0][i].ChangesMode() == kind.changes {
				chosen, n = append(chosen, i), n+1
				labels = append(labels, fmt.Sprintf("path %d: %s if tempered", len(chosen), kind.name))
			}
		}
	}
	charts := make([]plot.Chart, 3*len(modeFlows)) // row by row
	for i, m := range modeFlows {
		var paths []model.TwoModesPath
		for _, j := range chosen {
			paths = append(paths, all[i][j])
		}
		plane, energy := pathCharts(paths, labels)
		plane.Title = fmt.Sprintf("K = %d, %s", pathSteps, m.label)
		temperature := plot.Chart{XLabel: "step k", YLabel: "temperature 1/β_k", Height: 90, Series: []plot.Series{{Label: "temperature", X: steps(paths[0]), Y: paths[0].InvBeta}}}
		for row, c := range []plot.Chart{plane, energy, temperature} {
			c.Width = 380
			charts[row*len(modeFlows)+i] = c
		}
	}
	return plot.Panels(len(modeFlows), charts...)
}

// pathCharts returns a chart of paths in the plane with contours of the target, and a chart of
// their energies. labels may be nil.
func pathCharts(paths []model.TwoModesPath, labels []string) (plane, energy plot.Chart) {
	plane = plot.Chart{XLabel: "first coordinate of z", YLabel: "second coordinate of z", Equal: true, Series: slices.Clone(contours())}
	energy = plot.Chart{XLabel: "step k", YLabel: "H − min U (nats)", Height: 160}
	var t ad.Tape[float64]
	least := potential(&t, 3, 0)
	start, end := plot.Series{Label: "start z₀", Style: plot.Points}, plot.Series{Label: "end z_K", Style: plot.Points}
	for i, p := range paths {
		label, K := "", len(p.X)-1
		if labels != nil {
			label = labels[i]
		}
		plane.Series = append(plane.Series, plot.Series{Label: label, X: p.X, Y: p.Y, Style: plot.Trail})
		above := plot.Series{Label: label, X: steps(p)}
		for _, h := range p.H {
			above.Y = append(above.Y, h-least)
		}
		energy.Series = append(energy.Series, above)
		start.X, start.Y = append(start.X, p.X[0]), append(start.Y, p.Y[0])
		end.X, end.Y = append(end.X, p.X[K]), append(end.Y, p.Y[K])
	}
	plane.Series = append(plane.Series, start, end)
	k, top := steps(paths[0]), potential(&t, 0, 0)-least
	barrier := plot.Series{Label: fmt.Sprintf("barrier, %.1f nats", top), X: []float64{0, k[len(k)-1]}, Y: []float64{top, top}, Style: plot.Dashed}
	energy.Series = append(energy.Series, barrier)
	return plane, energy
}

// steps returns the step numbers 0 … K.
func steps(p model.TwoModesPath) (k []float64) {
	for i := range p.X {
		k = append(k, float64(i))
	}
	return k
}

// potential returns U(x, y) of the target with two modes.
func potential(t *ad.Tape[float64], x, y float64) float64 {
	return -model.TwoModes{}.LogJoint(t.Const(linalg.Column(x, y))).Scalar()
}

// contours returns the contours where U is 2, 6, 10 and 14 nats above its minimum.
var contours = sync.OnceValue(func() (lines []plot.Series) {
	var t ad.Tape[float64]
	at := func(x, y float64) float64 {
		t.Reset()
		return potential(&t, x, y)
	}
	for height := 2.0; height <= 14; height += 4 {
		lines = append(lines, plot.Contour(at, at(3, 0)+height, -6, -4, 6, 4, 120))
	}
	lines[0].Label = "U − min U = 2, 6, 10, 14"
	return lines
})
