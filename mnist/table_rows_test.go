package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hvae/bench/plot/plottest"
	"hvae/mnist/model"
)

func TestRowsAreWhatTheirNamesSay(t *testing.T) {
	var all table
	all.tasks = all.plan()
	rows := all.tableRows(nil)
	if len(rows) != 27 {
		t.Errorf("the paper's table has %d rows, want 27", len(rows))
	}
	for _, r := range rows {
		K, tempering, eps := 0, "none", ""
		if parts := strings.Split(r.Row, "-"); parts[0] == "hvae" {
			K, _ = strconv.Atoi(strings.TrimPrefix(parts[1], "k"))
			tempering = parts[2]
			eps = strings.Join(parts[3:], "")
		}
		if r.K != K || r.Tempering != tempering || r.Eps != eps || r.config.VaryEps != (eps == "varied") || (K > 1) != (eps != "") {
			t.Errorf("%s: K = %d, tempering %s, ε %q, %+v", r.Row, r.K, r.Tempering, r.Eps, r.config)
		}
	}
}

func TestTheFigureHasAPanelForEachKindOfStepSizes(t *testing.T) {
	all := table{rows: []string{"vae", "hvae-k1-none", "hvae-k5-none-shared", "hvae-k5-none-varied"}, seeds: []uint64{85547, 12345}}
	all.tasks = all.plan()
	var runs []result
	obtained := map[string]float64{"vae": 91, "hvae-k1-none": 91.1, "hvae-k5-none-shared": 90.7, "hvae-k5-none-varied": 90.5}
	published := map[string]float64{ // from the paper, seed 85547 and 12345, less the VAE's 83.25 and 83.15
		"hvae-k1-none": (83.29+83.04)/2 - 83.2, "hvae-k5-none-shared": 83.68 - 83.2, "hvae-k5-none-varied": (83.38+83.32)/2 - 83.2,
	}
	for _, k := range all.tasks {
		runs = append(runs, result{Row: k.row, Seed: k.seed, NLL: obtained[k.row]})
	}
	panels := plottest.Read(t, figure(all.tableRows(runs)), false, false)
	if len(panels) != 2 {
		t.Fatalf("%d panels, want 2", len(panels))
	}
	for i, eps := range []string{"shared", "varied"} {
		p := panels[i]
		if p.Title != "NLL in excess of the VAE's, ε "+eps {
			t.Errorf("panel %d: %q", i, p.Title)
		}
		drawn := 0
		for _, s := range p.Series {
			for label, nll := range map[string]map[string]float64{"no tempering, obtained": obtained, "no tempering, published": published} {
				if s.Label != label || len(s.Markers) != 2 {
					continue
				}
				for j, row := range []string{"hvae-k1-none", "hvae-k5-none-" + eps} {
					if y := nll[row] - nll["vae"]; !p.Y.Near(s.Markers[j].Y, y) {
						t.Errorf("%s, %s, %s: %v, want %v at pixel %v", p.Title, s.Label, row, s.Markers[j], y, p.Y.Pixel(y))
					}
					drawn++
				}
			}
		}
		if drawn != 4 {
			t.Errorf("%s: %d of 4 markers", p.Title, drawn)
		}
	}

	// As long as the VAE's own runs are missing, NLL is itself.
	runs = slices.DeleteFunc(runs, func(r result) bool { return r.Row == "vae" })
	for _, p := range plottest.Read(t, figure(all.tableRows(runs)), false, false) {
		for _, s := range p.Series {
			if s.Label == "no tempering, obtained" && !p.Y.Near(s.Markers[0].Y, obtained["hvae-k1-none"]) || !strings.HasPrefix(p.Title, "NLL, ε ") {
				t.Errorf("%s without the VAE's runs: %v", p.Title, s.Markers)
			}
		}
	}
}

func TestSimulatedImagesAreAsManyAsTestImages(t *testing.T) {
	name, _ := trained(t, model.Config{Kind: "vae", Tempering: "none", Latent: 2}, 1)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, stderr, status := mnist(ended, strings.Fields("eval -simulated -method ais -runs 1 -checkpoint "+name)...); status != 130 || !strings.Contains(stderr, " of 10000 images") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
