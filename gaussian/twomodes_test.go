package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/ad"
	"hvae/gaussian/model"
	"hvae/linalg"
	"hvae/linalg/random"
)

// With -two-modes, the program must print a row for each setting and each K, and draw its figure.
func TestTwoModesPrintsARowForEachSettingAndK(t *testing.T) {
	defer func(n int) { modeDraws = n }(modeDraws)
	modeDraws = 600
	settings := []model.TwoModesFlow{
		{Tempering: "none", PriorSD: 1.5, MomentumSD: 1, InvSqrtBeta0: 1}, {Tempering: "fixed", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 3},
		{Tempering: "untied", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 9},
		{Tempering: "none", PriorSD: 0.5, MomentumSD: 1, InvSqrtBeta0: 1}, {Tempering: "fixed", PriorSD: 0.5, MomentumSD: 3, InvSqrtBeta0: 3},
	}
	const seed = 6 // not the default
	var want []modeRow
	for _, f := range settings {
		for _, f.K = range []int{4, 8, 16, 32, 64, 128} {
			f.StepSize = 0.1
			draws, err := f.Draw(t.Context(), modeDraws, random.Stream(seed, "two modes", f.K), false)
			if err != nil {
				t.Fatal(err)
			}
			r, n := modeRow{TwoModesFlow: f}, float64(modeDraws)
			for _, d := range draws {
				r.ELBO += d.LogEstimate / n
				endX, y := d.X[1], d.Y[1]
				x := math.Min(math.Abs(endX-3), math.Abs(endX+3))
				r.EndSD += (x*x + y*y) / 2 / n
				if d.X[0] < 0 != (endX < 0) {
					r.ChangedMode += 100 / n
				}
			}
			for _, d := range draws {
				r.Variance += math.Pow(d.LogEstimate-r.ELBO, 2) / (n - 1)
			}
			r.EndSD = math.Sqrt(r.EndSD)
			want = append(want, r)
		}
	}
	folder := t.TempDir()
	stdout, stderr, status := gaussianCommand(t.Context(), "-two-modes", "-json", "-seed", fmt.Sprint(seed), "-out", folder)
	if diff := cmp.Diff(want, decode[modeRow](t, stdout), almost); diff != "" || status != 0 {
		t.Fatalf("status %d, stderr %q, rows (-want +got):\n%s", status, stderr, diff)
	}
	if diff := cmp.Diff(map[string][]byte{"trajectory.svg": drawPaths(nil)}, files(t, folder)); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	text, _, _ := gaussianCommand(t.Context(), "-two-modes", "-seed", fmt.Sprint(seed), "-out", folder)
	o, table := options{config: model.Config{Seed: seed}}, ""
	for i, r := range want {
		table += o.modesTable(r, i == 0)
	}
	title, rows, _ := strings.Cut(text, "\n")
	if title != "target with two modes, log p(x) = 0; 600 draws of log p̂ that start near the left mode, seed 6" || text != table {
		t.Errorf("the table is\n%s\nwant\n%s", text, table)
	}
	header, _, _ := strings.Cut(rows, "\n")
	for line := range strings.Lines(rows) {
		if len([]rune(line)) != len([]rune(header+"\n")) {
			t.Errorf("the line %q is not as wide as the header %q", line, header)
		}
	}
}

// The constants and the contours of trajectory.svg must agree with the target.
func TestPotentialOfTheTargetWithTwoModes(t *testing.T) {
	var tape ad.Tape[float64]
	u := func(x, y float64) float64 {
		return -model.TwoModes.LogJoint(tape.Const(linalg.Column(x, y))).Scalar()
	}
	if math.Abs(u(3, 0)-math.Log(math.Pi)) > 1e-9 || math.Abs(u(0, 0)-u(-3, 0)-barrier) > 1e-9 {
		t.Errorf("U is %v at a mode and %v higher at 0, want log π and %v", u(3, 0), u(0, 0)-u(-3, 0), barrier)
	}
	heights := map[float64]int{}
	c := contours()
	for i, x := range c.X {
		if h := u(x, c.Y[i]) - u(3, 0); !math.IsNaN(h) {
			heights[math.Round(100*h)/100]++
		}
	}
	if diff := cmp.Diff(map[float64]int{2: 122, 6: 122, 10: 122, 14: 122}, heights); diff != "" {
		t.Errorf("the heights of the points on the contours (-want +got):\n%s", diff)
	}
}
