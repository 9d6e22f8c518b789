package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg/random"
)

// The settings that -two-modes compares.
var (
	modeSteps = []int{4, 8, 16, 32, 64, 128} // K
	modeFlows = []struct {
		flow  model.TwoModesFlow // without K
		label string
	}{
		{model.TwoModesFlow{StepSize: 0.1, InvSqrtBeta0: 3, Tempering: "fixed"}, "1/√β₀ = 3"},
		{model.TwoModesFlow{StepSize: 0.1, InvSqrtBeta0: 1, Tempering: "none"}, "1/√β₀ = 1 (no tempering)"},
	}
	modeDraws = 50_000 // number of draws for each row
)

// A modeRow summarises draws of log p̂ for the target with two modes.
type modeRow struct {
	InvSqrtBeta0 float64 `json:"inv_sqrt_beta0"`
	K            int     `json:"k"`
	ELBO         float64 `json:"elbo"`         // mean of log p̂; log p is 0
	Variance     float64 `json:"variance"`     // of log p̂
	VarianceSE   float64 `json:"variance_se"`  // standard error of Variance
	ChangedMode  float64 `json:"changed_mode"` // fraction of the draws
}

// showTwoModes prints and draws the variance of log p̂ as a function of K, with and without
// tempering, and draws some paths. It takes a few seconds.
func showTwoModes(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if err := checkFolder(o); err != nil {
		return err
	}
	c := plot.Chart{
		Title: "A target with two modes: what tempering is for", XLabel: "leapfrog steps K", YLabel: "variance of log p̂ ± s.e.",
		LogX: true, LogY: true,
	}
	for _, K := range modeSteps {
		c.XTicks = append(c.XTicks, float64(K))
	}
	if !o.json {
		fmt.Fprintf(stdout, "two modes, log p(x) = 0; %d draws of log p̂ from around one of them, seed %d\n", modeDraws, o.config.Seed)
		fmt.Fprintf(stdout, "%6s %5s %10s %10s %14s\n", "1/√β₀", "K", "ELBO", "variance", "change of mode")
	}
	for _, m := range modeFlows {
		line := plot.Series{Label: m.label}
		for _, K := range modeSteps {
			m.flow.K = K
			l, changed, err := m.flow.Draw(ctx, modeDraws, random.Stream(o.config.Seed, "two modes", K))
			if err != nil {
				return fmt.Errorf("%w: complete rows have been printed; nothing else was saved", context.Cause(ctx))
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
			line.X, line.Y = append(line.X, float64(K)), append(line.Y, r.Variance)
			line.Error = append(line.Error, r.VarianceSE)
		}
		c.Series = append(c.Series, line)
	}
	if err := writeFigure(o, "tempering.svg", c.SVG(), stderr); err != nil {
		return err
	}
	return writeFigure(o, "trajectory.svg", drawPaths(o.config.Seed), stderr)
}

// summariseModes summarises draws l of log p̂. changed is the number of draws that change mode.
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
