package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/ad"
	"hvae/gaussian/model"
	"hvae/linalg"
	"hvae/linalg/random"
)

// With -two-modes, the program must print a row for each setting and each K, and draw its figures with the given seed.
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
				end := d.Path[len(d.Path)-1]
				x, y := math.Min(math.Abs(end.X-3), math.Abs(end.X+3)), end.Y
				r.EndSD += (x*x + y*y) / 2 / n
				if d.Path[0].X < 0 != (end.X < 0) {
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
	drawn := files(t, folder)
	if got := names(drawn); !slices.Equal(got, []string{"tempering.svg", "trajectory.svg"}) || !bytes.Equal(drawn["trajectory.svg"], drawPaths(seed)) {
		t.Errorf("the program draws %v, want tempering.svg, and trajectory.svg for this seed", got)
	}
	text, _, _ := gaussianCommand(t.Context(), "-two-modes", "-seed", fmt.Sprint(seed), "-out", folder)
	o, table := options{config: model.Config{Seed: seed}}, ""
	for i := range want {
		table += o.modesTable(want[:i+1])
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
	if math.Abs(u(3, 0)-leastPotential) > 1e-9 || math.Abs(u(0, 0)-u(-3, 0)-barrier) > 1e-9 {
		t.Errorf("U is %v at a mode and %v higher at 0, want %v and %v", u(3, 0), u(0, 0)-u(-3, 0), leastPotential, barrier)
	}
	heights := map[float64]int{}
	c := contours()
	for i, x := range c.X {
		if h := u(x, c.Y[i]) - leastPotential; !math.IsNaN(h) {
			heights[math.Round(100*h)/100]++
		}
	}
	if diff := cmp.Diff(map[float64]int{2: 122, 6: 122, 10: 122, 14: 122}, heights); diff != "" {
		t.Errorf("the heights of the points on the contours (-want +got):\n%s", diff)
	}
}
