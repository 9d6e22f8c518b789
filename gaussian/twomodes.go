package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg/random"
)

// With -two-modes, the program compares these settings of Algorithm 1.
var (
	modeSteps = []float64{4, 8, 16, 32, 64, 128} // K
	modeFlows = []model.TwoModesFlow{            // without K
		{Tempering: "none", PriorSD: 1.5, MomentumSD: 1, InvSqrtBeta0: 1, StepSize: 0.1},
		{Tempering: "fixed", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1},
		{Tempering: "untied", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 9, StepSize: 0.1},
		{Tempering: "none", PriorSD: 0.5, MomentumSD: 1, InvSqrtBeta0: 1, StepSize: 0.1},
		{Tempering: "fixed", PriorSD: 0.5, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1},
	}
	modeDraws = 50_000 // draws of log p̂ for each setting
)

// A modeRow is a row of the table that -two-modes prints. It summarises draws of log p̂ for the
// target with two modes, whose log evidence is 0.
type modeRow struct {
	model.TwoModesFlow
	ELBO        float64 `json:"elbo"`         // mean of log p̂
	Variance    float64 `json:"variance"`     // variance of log p̂
	ChangedMode float64 `json:"changed_mode"` // percentage of the draws that start and end in different modes
	EndSD       float64 `json:"end_sd"`       // root mean square of the coordinates of z_K relative to the nearest mode
}

// drawModes runs Algorithm 1 for each setting and each K, and passes the resulting rows to print.
func (o options) drawModes(ctx context.Context, print func(modeRow) error) error {
	for _, f := range modeFlows {
		for _, K := range modeSteps {
			f.K = int(K)
			draws, err := f.Draw(ctx, modeDraws, random.Stream(o.config.Seed, "two modes", f.K), false)
			if err != nil {
				return fmt.Errorf("%w: the completed rows were printed; no files were written", context.Cause(ctx))
			}
			if err := print(summariseModes(f, draws)); err != nil {
				return err
			}
		}
	}
	return nil
}

// modesTable returns the text to print for the last element of rows. The text of the first row begins with a header.
func (o options) modesTable(rows []modeRow) (text string) {
	if len(rows) == 1 {
		text = fmt.Sprintf("target with two modes, log p(x) = 0; %d draws of log p̂ that start near the left mode, seed %d\n", modeDraws, o.config.Seed) +
			fmt.Sprintf("%-9s %10s %5s %6s %5s %10s %10s %14s %10s\n", "tempering", "s.d. of q⁰", "s", "1/√β₀", "K", "ELBO", "variance", "change of mode", "s.d. of z")
	}
	r := rows[len(rows)-1]
	return text + fmt.Sprintf("%-9s %10.3g %5.3g %6.3g %5d %10.3f %10.2f %12.2f %% %10.3f\n", r.Tempering, r.PriorSD, r.MomentumSD, r.InvSqrtBeta0, r.K, r.ELBO, r.Variance, r.ChangedMode, r.EndSD)
}

func summariseModes(f model.TwoModesFlow, draws []model.TwoModesDraw) modeRow {
	r, n, squares := modeRow{TwoModesFlow: f}, float64(len(draws)), 0.0
	for _, d := range draws {
		r.ELBO += d.LogEstimate / n
		x, y := math.Abs(d.End().X)-3, d.End().Y // the modes are at (±3, 0)
		squares += x*x + y*y
		if d.ChangesMode() {
			r.ChangedMode++
		}
	}
	for _, d := range draws {
		r.Variance += (d.LogEstimate - r.ELBO) * (d.LogEstimate - r.ELBO) / (n - 1)
	}
	r.ChangedMode, r.EndSD = 100*r.ChangedMode/n, math.Sqrt(squares/(2*n))
	return r
}

// temperingChart plots the ELBO of each setting against K. A dashed line shows −log 2, the ELBO of a
// distribution that equals one mode and misses the other.
func temperingChart(rows []modeRow) []byte {
	c := plot.Chart{Title: "Tempering on a target with two modes", XLabel: "leapfrog steps K", YLabel: "ELBO (nats); log p(x) = 0", LogX: true, XTicks: modeSteps}
	for _, r := range rows {
		addPoint(&c, fmt.Sprintf("s.d. of q⁰ %v; %s, s = %v, Πα = 1/%v", r.PriorSD, r.Tempering, r.MomentumSD, r.InvSqrtBeta0), plot.Line, float64(r.K), r.ELBO)
	}
	for _, K := range modeSteps {
		addPoint(&c, "−log 2: one mode, exactly", plot.Dashed, K, -math.Ln2)
	}
	return c.SVG()
}

// drawPaths returns an SVG figure of three paths of Algorithm 1 on the target with two modes, and of the energies along
// the paths. It has a column for each of the first three settings. Path j has the same z₀ and γ₀ in each column. The
// candidates are the draws that start on the left and whose energy without tempering never exceeds the barrier. Paths 1
// and 2 are the first two candidates that change mode with fixed tempering, and path 3 is the first that does not.
func drawPaths(seed uint64) []byte {
	const K, draws = 64, 500
	var all [3][]model.TwoModesDraw
	for i, f := range modeFlows[:3] {
		f.K = K
		all[i], _ = f.Draw(context.Background(), draws, random.Stream(seed, "two modes paths", K), true)
	}
	var selected [3][]model.TwoModesDraw
	selectDraws := func(n int, changing bool) {
		for j, d := range all[0] {
			high := slices.ContainsFunc(d.Path, func(p model.TwoModesPhase) bool { return p.Energy > leastPotential+barrier })
			if n > 0 && d.Path[0].X < 0 && !high && all[1][j].ChangesMode() == changing {
				n--
				for i := range selected {
					selected[i] = append(selected[i], all[i][j])
				}
			}
		}
	}
	selectDraws(2, true)
	selectDraws(1, false)
	var charts [6]plot.Chart
	for i, f := range modeFlows[:3] {
		title := fmt.Sprintf("%s: K = %d, s = %v, Πα = 1/%v", f.Tempering, K, f.MomentumSD, f.InvSqrtBeta0)
		charts[i], charts[i+3] = pathCharts(selected[i], title, "")
	}
	return plot.Panels(3, charts[:]...)
}

// The potential U = −log p(x, z) is log π at a mode, and 18 − log 2 nats higher between the modes, at z = 0.
const leastPotential, barrier = 1.1447298858494002, 18 - math.Ln2

// pathCharts returns two charts with the given titles: the paths in the plane with contours of the target, and the
// energies along the paths.
func pathCharts(draws []model.TwoModesDraw, title, energyTitle string) (plane, energy plot.Chart) {
	plane = plot.Chart{Title: title, XLabel: "first coordinate of z", YLabel: "second coordinate of z", Width: 340, Equal: true, Series: []plot.Series{contours()}}
	energy = plot.Chart{Title: energyTitle, XLabel: "step k", YLabel: "H − min U (nats)", Width: 340, Height: 160}
	for i, d := range draws {
		for k, p := range d.Path {
			addPoint(&plane, fmt.Sprintf("path %d", i+1), plot.Line, p.X, p.Y)
			addPoint(&energy, fmt.Sprintf("path %d", i+1), plot.Line, float64(k), p.Energy-leastPotential)
		}
	}
	for _, d := range draws {
		addPoint(&plane, "start z₀", plot.Points, d.Path[0].X, d.Path[0].Y)
		addPoint(&plane, "end z_K", plot.Points, d.End().X, d.End().Y)
	}
	for _, k := range []int{0, len(draws[0].Path) - 1} {
		addPoint(&energy, fmt.Sprintf("barrier, %.1f nats", barrier), plot.Dashed, float64(k), barrier)
	}
	return plane, energy
}

// contours returns the lines where the potential is 2, 6, 10 and 14 nats above its minimum. Because the modes hardly
// overlap, these are very nearly circles around the modes (±3, 0) with the radii s√(2·2), …, s√(2·14), where s = ½.
func contours() plot.Series {
	s := plot.Series{Label: "U − min U = 2, 6, 10, 14 nats", Style: plot.Thin}
	for i := range 8 {
		mode, r := float64(3-i%2*6), 0.5*math.Sqrt(2*float64(2+i/2*4))
		for j := range 61 {
			sin, cos := math.Sincos(2 * math.Pi * float64(j) / 60)
			s.X, s.Y = append(s.X, mode+r*cos), append(s.Y, r*sin)
		}
		s.X, s.Y = append(s.X, math.NaN()), append(s.Y, math.NaN()) // a gap
	}
	return s
}
