package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg/random"
)

// With -two-modes, the program compares these settings of Algorithm 1 for K = 4, 8, …, 128.
var (
	modeFlows = []model.TwoModesFlow{
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

// drawModes runs Algorithm 1 for each setting and each K, and prints the resulting rows.
func (o options) drawModes(ctx context.Context, stdout io.Writer) error {
	for i, f := range modeFlows {
		for f.K = 4; f.K <= 128; f.K *= 2 {
			draws, err := f.Draw(ctx, modeDraws, random.Stream(o.config.Seed, "two modes", f.K), false)
			if err != nil {
				return context.Cause(ctx)
			}
			r := summariseModes(f, draws)
			if err := o.print(stdout, r, o.modesTable(r, i == 0 && f.K == 4)); err != nil {
				return err
			}
		}
	}
	return nil
}

// modesTable returns a row of the table as text, after a header if first is true.
func (o options) modesTable(r modeRow, first bool) (text string) {
	if first {
		text = fmt.Sprintf("target with two modes, log p(x) = 0; %d draws of log p̂ that start near the left mode, seed %d\n", modeDraws, o.config.Seed) +
			fmt.Sprintf("%-9s %10s %5s %6s %5s %10s %10s %14s %10s\n", "tempering", "s.d. of q⁰", "s", "1/√β₀", "K", "ELBO", "variance", "change of mode", "s.d. of z")
	}
	return text + fmt.Sprintf("%-9s %10.3g %5.3g %6.3g %5d %10.3f %10.2f %12.2f %% %10.3f\n", r.Tempering, r.PriorSD, r.MomentumSD, r.InvSqrtBeta0, r.K, r.ELBO, r.Variance, r.ChangedMode, r.EndSD)
}

func summariseModes(f model.TwoModesFlow, draws []model.TwoModesDraw) modeRow {
	r, n, squares := modeRow{TwoModesFlow: f}, float64(len(draws)), 0.0
	for _, d := range draws {
		r.ELBO += d.LogEstimate / n
		end := len(d.X) - 1
		x, y := math.Abs(d.X[end])-3, d.Y[end] // the modes are at (±3, 0)
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

// drawPaths returns an SVG figure of paths of Algorithm 1 on the target with two modes, and of the energies along the
// paths. It has a column for each of the first three settings. Path i has the same z₀ and γ₀ in each column. With fixed
// tempering, paths 1 and 2 change mode, because the seed was selected for this purpose.
func drawPaths([]model.Outcome) []byte {
	var charts [6]plot.Chart
	for i, f := range modeFlows[:3] {
		f.K = 64
		paths, _ := f.Draw(context.Background(), 3, random.Stream(1028, "two modes paths"), true)
		title := fmt.Sprintf("%s: K = %d, s = %v, Πα = 1/%v", f.Tempering, f.K, f.MomentumSD, f.InvSqrtBeta0)
		charts[i], charts[i+3] = pathCharts(paths, title)
	}
	return plot.Panels(3, charts[:]...)
}

// barrier is the difference of the potential at z = 0, between the modes, and its minimum at the modes.
const barrier = 18 - math.Ln2

// pathCharts returns two charts: the paths in the plane with contours of the target, and the energies along the paths.
func pathCharts(draws []model.TwoModesDraw, title string) (plane, energy plot.Chart) {
	plane = plot.Chart{Title: title, XLabel: "first coordinate of z", YLabel: "second coordinate of z", Width: 340, Equal: true}
	energy = plot.Chart{Title: "Energy along the paths", XLabel: "step k", YLabel: "H − min U (nats)", Width: 340, Height: 160}
	starts, ends := plot.Series{Label: "start z₀", Style: plot.Points}, plot.Series{Label: "end z_K", Style: plot.Points}
	limit := plot.Series{Label: fmt.Sprintf("barrier, %.1f nats", barrier), Style: plot.Dashed}
	for k := range draws[0].X {
		limit.X, limit.Y = append(limit.X, float64(k)), append(limit.Y, barrier)
	}
	plane.Series = append(plane.Series, contours())
	for i, d := range draws {
		label, end := fmt.Sprintf("path %d", i+1), len(d.X)-1
		plane.Series = append(plane.Series, plot.Series{Label: label, X: d.X, Y: d.Y})
		energy.Series = append(energy.Series, plot.Series{Label: label, X: limit.X, Y: d.Energy})
		starts.X, starts.Y = append(starts.X, d.X[0]), append(starts.Y, d.Y[0])
		ends.X, ends.Y = append(ends.X, d.X[end]), append(ends.Y, d.Y[end])
	}
	plane.Series, energy.Series = append(plane.Series, starts, ends), append(energy.Series, limit)
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
