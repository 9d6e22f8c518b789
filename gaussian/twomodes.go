package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/hvae"
)

// What -two-modes shows: numbers of leapfrog steps, and temperatures of the start.
var (
	modeSteps = []int{4, 8, 16, 32, 64, 128}
	modeStart = []struct {
		invSqrtBeta0 float64
		label        string
	}{{3, "from temperature 9"}, {1, "no tempering"}}
)

// modeDraws is how many draws a row is of.
var modeDraws = 50_000

// A modeRow is what draws on the target with two modes were like.
type modeRow struct {
	InvSqrtBeta0 float64 `json:"inv_sqrt_beta0"`
	K            int     `json:"k"`
	ELBO         float64 `json:"elbo"`         // mean of log p̂; log p is 0
	Variance     float64 `json:"variance"`     // of log p̂
	ChangedMode  float64 `json:"changed_mode"` // share of the draws
}

// showTwoModes prints and draws how the variance of log p̂ depends on K with and without
// tempering, and the paths of some draws. It takes a few seconds.
func showTwoModes(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if err := checkFolder(o); err != nil {
		return err
	}
	c := plot.Chart{
		Title: "A target with two modes: what tempering is for", XLabel: "leapfrog steps K", YLabel: "variance of log p̂",
		LogX: true, LogY: true,
	}
	for _, K := range modeSteps {
		c.XTicks = append(c.XTicks, float64(K))
	}
	if !o.json {
		fmt.Fprintf(stdout, "two modes, log p(x) = 0; %d draws of log p̂ from around one of them, seed %d\n", modeDraws, o.config.Seed)
		fmt.Fprintf(stdout, "%6s %5s %10s %10s %14s\n", "1/√β₀", "K", "ELBO", "variance", "change of mode")
	}
	for _, start := range modeStart {
		line := plot.Series{Label: start.label}
		for _, K := range modeSteps {
			if ctx.Err() != nil {
				return fmt.Errorf("%w: complete rows have been printed, nothing else is kept", context.Cause(ctx))
			}
			r := drawModes(K, start.invSqrtBeta0, o.config.Seed)
			var err error
			if o.json {
				err = json.NewEncoder(stdout).Encode(r)
			} else {
				_, err = fmt.Fprintf(stdout, "%6.3g %5d %10.3f %10.2f %12.2f %%\n", r.InvSqrtBeta0, r.K, r.ELBO, r.Variance, 100*r.ChangedMode)
			}
			if err != nil {
				return fmt.Errorf("cannot write results: %w", err)
			}
			line.X, line.Y = append(line.X, float64(K)), append(line.Y, r.Variance)
		}
		c.Series = append(c.Series, line)
	}
	if err := writeFigure(o, "tempering.svg", c.SVG(), stderr); err != nil {
		return err
	}
	return writeFigure(o, "trajectory.svg", drawPaths(o.config.Seed), stderr)
}

func drawModes(K int, invSqrtBeta0 float64, seed uint64) modeRow {
	l, changed := model.DrawTwoModes(K, invSqrtBeta0, modeDraws, hvae.Stream(seed, "two modes", K))
	r := modeRow{InvSqrtBeta0: invSqrtBeta0, K: K, ChangedMode: float64(changed) / float64(modeDraws)}
	for _, v := range l {
		r.ELBO += v / float64(modeDraws)
	}
	for _, v := range l {
		r.Variance += (v - r.ELBO) * (v - r.ELBO) / float64(modeDraws-1)
	}
	return r
}
