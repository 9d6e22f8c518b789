package main

import (
	"context"
	"strconv"
	"strings"
	"testing"

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

func TestSimulatedImagesAreAsManyAsTestImages(t *testing.T) {
	name, _ := trained(t, model.Config{Kind: "vae", Tempering: "none", Latent: 2}, 1)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, stderr, status := mnist(ended, strings.Fields("eval -simulated -method ais -runs 1 -checkpoint "+name)...); status != 130 || !strings.Contains(stderr, " of 10000 images") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
