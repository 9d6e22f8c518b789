package table

import (
	"math"
	"slices"
	"testing"

	"hvae/bench/plot/plottest"
)

// Points must show means over two seeds, whose NLLs are 0.07 and 0.05 above the values in the map obtained.
func TestFigureShowsTheMeansOfAllRows(t *testing.T) {
	tasks := plan([]string{"hvae-k1-none", "hvae-k5-none-shared", "hvae-k5-none-varied", "hvae-k5-fixed-shared", "hvae-k5-fixed-varied", "vae"}, []uint64{85547, 12345})
	obtained := map[string]float64{ // all rows except hvae-k5-fixed-varied
		"vae": 91, "hvae-k1-none": 91.1, "hvae-k5-fixed-shared": 90.8, "hvae-k5-none-shared": 90.7, "hvae-k5-none-varied": 90.5,
	}
	published := map[string]float64{ // from the paper, for these seeds
		"vae": (83.25 + 83.15) / 2, "hvae-k1-none": (83.29 + 83.04) / 2, "hvae-k5-fixed-shared": (83.36 + 83.16) / 2,
		"hvae-k5-none-shared": 83.68, "hvae-k5-fixed-varied": (83.10 + 82.77) / 2, "hvae-k5-none-varied": (83.38 + 83.32) / 2,
	}
	var runs []result
	for _, k := range tasks {
		if nll, ok := obtained[k.Row]; ok {
			runs = append(runs, result{task: k, NLL: nll + float64(k.Seed%10)/100})
		}
	}
	for row := range obtained {
		obtained[row] += 0.06
	}

	check := func(runs []result) {
		t.Helper()
		panels := plottest.Read(t, figure(makeRows(tasks, runs)), false, false)
		if len(panels) != 4 {
			t.Fatalf("the figure has %d panels, want 4", len(panels))
		}
		for i, p := range panels {
			eps, of := []string{"shared", "varied"}[i/2], []map[string]float64{obtained, published}[i%2]
			if title := []string{"Obtained", "Published"}[i%2] + ", ε " + eps; p.Title != title || p.YLabel != "NLL minus the VAE's ± s.e. (nats)" {
				t.Errorf("panel %d has the title %q, want %q, and the axis %q", i, p.Title, title, p.YLabel)
			}
			rows := map[string][]string{
				"VAE":             {"vae"},
				"no tempering":    {"hvae-k5-none-" + eps},
				"fixed tempering": {"hvae-k5-fixed-" + eps},
			}
			if eps == "shared" { // the first row also shows K = 1
				rows["no tempering"] = []string{"hvae-k1-none", "hvae-k5-none-shared"}
			}
			if len(p.Series) != len(rows) {
				t.Fatalf("%s: the panel has %d series, want %d", p.Title, len(p.Series), len(rows))
			}
			for _, s := range p.Series {
				rows, points := slices.DeleteFunc(rows[s.Label], func(row string) bool { return of[row] == 0 }), s.Markers
				if s.Label == "VAE" {
					points = s.Line[0][:1]
				}
				if len(points) != len(rows) {
					t.Errorf("%s: %q has %d points, want the rows %v", p.Title, s.Label, len(points), rows)
					continue
				}
				for m, row := range rows {
					if y := of[row] - of["vae"]; !p.Y.Near(points[m].Y, y) {
						t.Errorf("%s, %s: the point is %v, want the value %v at pixel %v", p.Title, row, points[m], y, p.Y.Pixel(y))
					}
				}
			}
		}
	}
	check(runs)

	// The figure must omit our result for an HVAE if there is no VAE run with the same seed.
	runs = slices.DeleteFunc(runs, func(r result) bool { return r.Row == "vae" })
	obtained = map[string]float64{"vae": 91}
	check(runs)
}

// Lines must show means over two seeds, and bands ± one standard deviation. A training step costs 8,254,400
// multiply-adds per image for the VAE and 20,624,000 for the HVAE.
func TestBudgetShowsMeansAndDeviations(t *testing.T) {
	tasks := plan([]string{"vae", "hvae-k1-none"}, []uint64{1, 2})
	curves := map[string][2][]float64{
		"vae":          {{-200, -100, -96, -94}, {-190, -104, -98, -94, -90}},
		"hvae-k1-none": {{-119, -93}, {-111, -91}},
	}
	mean := map[string][]float64{"vae": {-102, -97, -94}, "hvae-k1-none": {-115, -92}} // the mean of the VAE's first epoch is below −120
	sd := map[string][]float64{"vae": {math.Sqrt(8), math.Sqrt2, 0}, "hvae-k1-none": {math.Sqrt(32), math.Sqrt2}}
	first := map[string]float64{"vae": 2, "hvae-k1-none": 1}
	var runs []result
	for _, k := range tasks {
		runs = append(runs, result{task: k, curve: curves[k.Row][k.Seed-1]})
	}
	panels := plottest.Read(t, budget(makeRows(tasks, runs), runs), true, false)
	if len(panels) != 2 || len(panels[0].Series) != 2 || len(panels[1].Series) != 2 {
		t.Fatalf("the panels are %+v, want two panels with two series each", panels)
	}
	for i, p := range panels {
		for _, s := range p.Series {
			scale := 1.0
			if i == 1 && s.Label != "vae" {
				scale = 20_624_000.0 / 8_254_400
			}
			n := len(mean[s.Label])
			if len(s.Line) != 1 || len(s.Line[0]) != n || len(s.Band) != 2*n {
				t.Fatalf("%s of %s: the line is %v and the band is %v, want %d points", s.Label, p.Title, s.Line, s.Band, n)
			}
			for j, m := range mean[s.Label] {
				x, up, down, e := s.Line[0][j], s.Band[j], s.Band[2*n-1-j], sd[s.Label][j]
				if !p.X.Near(x.X, scale*(first[s.Label]+float64(j))) || !p.Y.Near(x.Y, m) || !p.Y.Near(up.Y, m+e) || !p.Y.Near(down.Y, m-e) || up.X != x.X || down.X != x.X {
					t.Errorf("%s of %s: point %d is %v with a band from %v to %v; want the ELBO %v ± %v", s.Label, p.Title, j, x, down, up, m, e)
				}
			}
		}
	}
}
