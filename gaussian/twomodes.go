package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"hvae/ad"
	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg"
	"hvae/linalg/random"
)

// With -two-modes, the program compares these settings of Algorithm 1.
var (
	modeSteps = []float64{4, 8, 16, 32, 64, 128} // K
	modeFlows = []struct {
		flow  model.TwoModesFlow // without K
		label string
	}{
		{model.TwoModesFlow{StepSize: 0.1, InvSqrtBeta0: 3, Tempering: "fixed"}, "1/√β₀ = 3"},
		{model.TwoModesFlow{StepSize: 0.1, InvSqrtBeta0: 1, Tempering: "none"}, "1/√β₀ = 1 (no tempering)"},
	}
	modeDraws = 50_000 // draws of log p̂ for each setting
)

// A modeRow is a row of the table that -two-modes prints. It summarises draws of log p̂ for the
// target with two modes, whose log evidence is 0.
type modeRow struct {
	InvSqrtBeta0 float64 `json:"inv_sqrt_beta0"`
	K            int     `json:"k"`
	ELBO         float64 `json:"elbo"`         // mean of log p̂
	Variance     float64 `json:"variance"`     // variance of log p̂
	VarianceSE   float64 `json:"variance_se"`  // standard error of Variance
	ChangedMode  float64 `json:"changed_mode"` // fraction of the draws that change mode
}

// showTwoModes prints and plots the variance of log p̂ as a function of K, with and without tempering. It
// also plots four paths of each kind.
func showTwoModes(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if err := checkFolder(o); err != nil {
		return err
	}
	c := plot.Chart{
		Title: "Effect of tempering on a target with two modes", XLabel: "leapfrog steps K", YLabel: "variance of log p̂ ± s.e.",
		LogX: true, LogY: true, XTicks: modeSteps,
	}
	if !o.json {
		fmt.Fprintf(stdout, "target with two modes, log p(x) = 0; %d draws of log p̂ that start near the left mode, seed %d\n", modeDraws, o.config.Seed)
		fmt.Fprintf(stdout, "%6s %5s %10s %10s %14s\n", "1/√β₀", "K", "ELBO", "variance", "change of mode")
	}
	for _, m := range modeFlows {
		line := plot.Series{Label: m.label, X: modeSteps}
		for _, K := range modeSteps {
			m.flow.K = int(K)
			l, changed, err := m.flow.Draw(ctx, modeDraws, random.Stream(o.config.Seed, "two modes", m.flow.K))
			if err != nil {
				return fmt.Errorf("%w: the completed rows were printed; no files were written", context.Cause(ctx))
			}
			r := summariseModes(m.flow, l, changed)
			if o.json {
				err = json.NewEncoder(stdout).Encode(r)
			} else {
				_, err = fmt.Fprintf(stdout, "%6.3g %5d %10.3f %10.2f %12.2f %%\n", r.InvSqrtBeta0, r.K, r.ELBO, r.Variance, 100*r.ChangedMode)
			}
			if err != nil {
				return fmt.Errorf("cannot write results: %w", err)
			}
			line.Y, line.Error = append(line.Y, r.Variance), append(line.Error, r.VarianceSE)
		}
		c.Series = append(c.Series, line)
	}
	if err := writeFigure(o, "tempering.svg", c.SVG(), stderr); err != nil {
		return err
	}
	return writeFigure(o, "trajectory.svg", drawPaths(o.config.Seed), stderr)
}

// summariseModes returns the row for the draws l of log p̂. changed is the number of draws that start
// and end in different modes.
func summariseModes(f model.TwoModesFlow, l []float64, changed int) modeRow {
	n := float64(len(l))
	r := modeRow{InvSqrtBeta0: f.InvSqrtBeta0, K: f.K, ChangedMode: float64(changed) / n}
	for _, v := range l {
		r.ELBO += v / n
	}
	fourth := 0.0 // central moment
	for _, v := range l {
		square := (v - r.ELBO) * (v - r.ELBO)
		r.Variance += square / (n - 1)
		fourth += square * square / n
	}
	r.VarianceSE = math.Sqrt((fourth - r.Variance*r.Variance) / n)
	return r
}

// drawPaths returns an SVG figure of paths of Algorithm 1 on the target with two modes, their energies and
// the temperature. The left column shows four tempered paths. The right column shows four paths from the
// same z₀ and γ₀ without tempering. Tempered paths 1 and 2 are the first two draws that change mode, and
// tempered paths 3 and 4 are the first two that do not.
func drawPaths(seed uint64) []byte {
	const K, draws = 64, 500
	labels := []string{"path 1: changes mode if tempered", "path 2: changes mode if tempered", "path 3: stays if tempered", "path 4: stays if tempered"}
	columns := len(modeFlows)
	charts := make([]plot.Chart, 3*columns)
	var shown []int // indices of paths 1 to 4
	for i, m := range modeFlows {
		m.flow.K = K
		all := m.flow.Paths(draws, random.Stream(seed, "two modes paths", K))
		if i == 0 { // with tempering
			indices := map[bool][]int{} // by whether the path changes mode
			for j, p := range all {
				indices[p.ChangesMode()] = append(indices[p.ChangesMode()], j)
			}
			shown = slices.Concat(indices[true][:2], indices[false][:2])
		}
		var paths []model.TwoModesPath
		for _, j := range shown {
			paths = append(paths, all[j])
		}
		charts[i], charts[columns+i], charts[2*columns+i] = pathCharts(paths, labels)
		charts[i].Title = fmt.Sprintf("K = %d, %s", K, m.label)
	}
	return plot.Panels(columns, charts...)
}

// pathCharts returns three charts: the paths in the plane with contours of the target, the energies
// along the paths, and the temperature. The temperature is the same for all paths.
func pathCharts(paths []model.TwoModesPath, labels []string) (plane, energy, temperature plot.Chart) {
	const width = 380
	plane = plot.Chart{XLabel: "first coordinate of z", YLabel: "second coordinate of z", Width: width, Equal: true, Series: slices.Clone(contours())}
	energy = plot.Chart{XLabel: "step k", YLabel: "H − min U (nats)", Width: width, Height: 160}
	temperature = plot.Chart{XLabel: "step k", YLabel: "temperature 1/β_k", Width: width, Height: 90}
	var k []float64 // 0 … K
	for i := range paths[0].X {
		k = append(k, float64(i))
	}
	K, u := len(k)-1, potential()
	least := u(3, 0) // U at the right mode
	start, end := plot.Series{Label: "start z₀", Style: plot.Points}, plot.Series{Label: "end z_K", Style: plot.Points}
	for i, p := range paths {
		plane.Series = append(plane.Series, plot.Series{Label: labels[i], X: p.X, Y: p.Y, Style: plot.Trail})
		above := plot.Series{Label: labels[i], X: k}
		for _, h := range p.H {
			above.Y = append(above.Y, h-least)
		}
		energy.Series = append(energy.Series, above)
		start.X, start.Y = append(start.X, p.X[0]), append(start.Y, p.Y[0])
		end.X, end.Y = append(end.X, p.X[K]), append(end.Y, p.Y[K])
	}
	plane.Series = append(plane.Series, start, end)
	barrier := u(0, 0) - least
	energy.Series = append(energy.Series, plot.Series{Label: fmt.Sprintf("barrier, %.1f nats", barrier), X: []float64{0, k[K]}, Y: []float64{barrier, barrier}, Style: plot.Dashed})
	temperature.Series = []plot.Series{{Label: "temperature", X: k, Y: paths[0].InvBeta}}
	return plane, energy, temperature
}

// potential returns a function that computes the potential U(x, y) of the target with two modes. The
// function is not safe for concurrent use.
func potential() func(x, y float64) float64 {
	var t ad.Tape[float64]
	return func(x, y float64) float64 {
		t.Reset()
		return -model.TwoModes.LogJoint(t.Const(linalg.Column(x, y))).Scalar()
	}
}

// contours returns the contour lines of the potential U of the target with two modes, at 2, 6, 10 and
// 14 nats above the minimum of U.
var contours = sync.OnceValue(func() (lines []plot.Series) {
	u := potential()
	for height := 2.0; height <= 14; height += 4 {
		lines = append(lines, plot.Contour(u, u(3, 0)+height, -6, -4, 6, 4, 120))
	}
	lines[0].Label = "U − min U = 2, 6, 10, 14"
	return lines
})
