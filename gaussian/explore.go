package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg/random"
)

//go:embed explore.html
var explorePage []byte

// explore serves an interactive web page about the target with two modes until ctx is done.
func explore(ctx context.Context, o options, stdout io.Writer) error {
	l, err := net.Listen("tcp", o.http)
	if err != nil {
		return fmt.Errorf("cannot serve the page at %s: %w; select another address with -http", o.http, err)
	}
	server := http.Server{Handler: explorer(o.config.Seed), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })() // Close also ends active requests
	fmt.Fprintf(stdout, "serving http://%s/; press Ctrl-C to stop\n", l.Addr())
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("cannot serve the page: %w", err)
	}
	return context.Cause(ctx)
}

// explorer returns the HTTP handler of the interactive page. The handler serves the page at /. At
// /view, it serves the figures and numbers for the settings in the query of the URL.
func explorer(seed uint64) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { w.Write(explorePage) })
	mux.HandleFunc("GET /view", func(w http.ResponseWriter, r *http.Request) {
		v, err := parseView(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// All settings use the same noise, so that two views differ only because of their settings.
		paths := v.flow.Paths(maxPaths, random.Stream(seed, "two modes page paths"))[:v.paths]
		l, changed, err := v.flow.Draw(r.Context(), pageDraws, random.Stream(seed, "two modes page"))
		if err != nil {
			return // the browser has disconnected
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		writeView(w, paths, l, summariseModes(v.flow, l, changed))
	})
	return mux
}

const (
	maxPaths  = 12   // the largest number of paths on the page
	pageDraws = 2000 // the number of draws of log p̂ for each view
)

// A view holds the settings of the interactive page.
type view struct {
	flow  model.TwoModesFlow
	paths int
}

// parseView parses the settings in the query of a URL. A missing setting gets the initial value of
// the interactive page.
func parseView(q url.Values) (v view, err error) {
	number := func(name, kind string, preset, minimum, maximum float64) float64 {
		x, parseErr := strconv.ParseFloat(cmp.Or(q.Get(name), fmt.Sprint(preset)), 64)
		if parseErr != nil || !(x >= minimum && x <= maximum) || kind == "whole number" && x != math.Trunc(x) {
			err = cmp.Or(err, fmt.Errorf("invalid value %.40q for %s: it must be a %s from %v to %v", q.Get(name), name, kind, minimum, maximum))
		}
		return x
	}
	v.flow = model.TwoModesFlow{
		K:            int(number("K", "whole number", 64, 1, 256)),
		StepSize:     number("eps", "number", 0.1, 0.01, 0.5),
		InvSqrtBeta0: number("start", "number", 3, 1, 6),
		Tempering:    cmp.Or(q.Get("tempering"), "fixed"),
	}
	v.paths = int(number("paths", "whole number", 4, 1, maxPaths))
	if kinds := []string{"none", "fixed", "free"}; !slices.Contains(kinds, v.flow.Tempering) {
		err = cmp.Or(err, fmt.Errorf("invalid value %.40q for tempering: it must be one of %s", v.flow.Tempering, strings.Join(kinds, ", ")))
	}
	return v, err
}

// writeView writes the numbers and figures of the interactive page as HTML. It ignores write
// errors, which mean that the browser has disconnected.
func writeView(w io.Writer, paths []model.TwoModesPath, l []float64, r modeRow) {
	fmt.Fprintf(w, "<p>ELBO <b>%.2f</b>, variance of log p̂ <b>%.1f ± %.1f</b>, <b>%.1f %%</b> of %d draws change mode</p>\n",
		r.ELBO, r.Variance, r.VarianceSE, 100*r.ChangedMode, len(l))
	plane, energy, _ := pathCharts(paths, make([]string, len(paths)))
	plane.Title, energy.Title = "Paths in the plane", "Energy along the paths"
	captions := []string{
		"paths from ○ to ●; contours of U at 2, 6, 10 and 14 nats above the minimum",
		"H = U + ½ρᵀρ after each step; dashed line: the barrier between the modes",
		"fraction of draws in each bin of 1 nat; the first and last bins include all smaller and larger values; dashed line: the ELBO",
	}
	for i, c := range []plot.Chart{plane, energy, histogram(l, r.ELBO)} {
		c.Width = 340
		for j := range c.Series {
			c.Series[j].Label = "" // no legend
		}
		fmt.Fprintf(w, "<figure>\n%s<figcaption>%s</figcaption></figure>\n", c.SVG(), captions[i])
	}
}

// histogram returns a histogram of the draws l of log p̂. The bins are one nat wide, from −40 to 10 nats.
// The first and last bins include all smaller and larger draws. A dashed line shows the ELBO.
func histogram(l []float64, elbo float64) plot.Chart {
	const low, high = -40, 10
	var fractions [high - low]float64
	for _, v := range l {
		fractions[int(min(max(v, low), high-1)-low)] += 1 / float64(len(l))
	}
	outline := plot.Series{X: []float64{low}, Y: []float64{0}}
	for i, f := range fractions {
		outline.X, outline.Y = append(outline.X, low+float64(i), low+float64(i+1)), append(outline.Y, f, f)
	}
	outline.X, outline.Y = append(outline.X, high), append(outline.Y, 0)
	at := max(elbo, low)
	mean := plot.Series{X: []float64{at, at}, Y: []float64{0, slices.Max(fractions[:])}, Style: plot.Dashed}
	return plot.Chart{Title: "Estimates of log p(x) = 0", XLabel: "log p̂ (nats)", YLabel: "fraction of draws", Height: 160, Series: []plot.Series{outline, mean}}
}
