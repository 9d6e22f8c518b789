package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg/random"
)

//go:embed explore.html
var exploreHTML string

var page = template.Must(template.New("").Parse(exploreHTML))

// explore serves an interactive web page about the target with two modes until ctx is done.
func explore(ctx context.Context, address string, seed uint64, stdout io.Writer) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return command.UsageError("invalid value %q for flag -http: it must be HOST:PORT, such as localhost:8080", address)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "localhost"), port))
	if err != nil {
		return fmt.Errorf("cannot serve the page at %s: %w; select another address with -http", address, err)
	}
	server := http.Server{Handler: explorer(seed), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })() // Close also ends active requests
	fmt.Fprintf(stdout, "serving http://%s/; press Ctrl-C to stop\n", l.Addr())
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("cannot serve the page: %w", err)
	}
	return context.Cause(ctx)
}

// A slider describes a numeric setting of the page.
type slider struct {
	Name, Text            string // in URLs and on the page
	Min, Max, Step, Value float64
	For                   string // names of the temperings that use the setting; empty if all do
}

// The settings of the page and their default values. By default, the page uses the first tempering.
var (
	sliders = []slider{
		{"q", "s.d. of q⁰ =", 0.5, 1.5, 0.1, 1.5, ""},
		{"start", "1/√β₀ = 1/Πα =", 1, 12, 0.1, 3, "fixed free untied"},
		{"s", "s.d. of ρ₀, s =", 0.1, 6, 0.1, 3, "untied"},
		{"K", "steps K =", 1, 256, 1, 64, ""},
		{"eps", "step size ε =", 0.01, 0.5, 0.01, 0.1, ""},
		{"paths", "paths:", 1, 12, 1, 4, ""},
	}
	temperings = []string{"fixed", "free", "untied", "none"}
)

// A view holds the data for the template explore.html: the settings of the page and the results for them.
type view struct {
	Sliders    []slider
	Temperings []string
	Invalid    []string // a message about each invalid setting; the view uses the default value instead
	Row        modeRow
	Figures    []template.HTML
}

// The mutex computing ensures that only one view is computed at a time, because a view with K = 256 needs about 50 MB
// of memory.
var computing sync.Mutex

// explorer returns the HTTP handler of the interactive page. The query of the URL contains the settings.
func explorer(seed uint64) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		computing.Lock()
		v, err := newView(r.Context(), r.URL.Query(), seed)
		computing.Unlock()
		if err == nil {
			page.Execute(w, v)
		} // otherwise, or if Execute returns an error, the browser has disconnected
	})
	return mux
}

// newView returns a view for the settings in the query of a URL. Missing and invalid settings get their default values.
// The noise is the same for all settings, so that two views differ only because of their settings. If ctx is done,
// newView returns ctx.Err().
func newView(ctx context.Context, q url.Values, seed uint64) (*view, error) {
	v := &view{Sliders: slices.Clone(sliders), Temperings: temperings}
	tempering := q.Get("tempering")
	if !slices.Contains(temperings, tempering) {
		if q.Has("tempering") {
			v.Invalid = append(v.Invalid, fmt.Sprintf("tempering=%.40s is unknown", tempering))
		}
		tempering = temperings[0]
	}
	x := map[string]float64{} // the values of the sliders
	for i := range v.Sliders {
		s := &v.Sliders[i]
		value, err := strconv.ParseFloat(q.Get(s.Name), 64)
		if err == nil && value >= s.Min && value <= s.Max && (s.Step < 1 || value == math.Trunc(value)) {
			s.Value = value
		} else if q.Has(s.Name) {
			v.Invalid = append(v.Invalid, fmt.Sprintf("%s=%.40s is not a number from %v to %v", s.Name, q.Get(s.Name), s.Min, s.Max))
		}
		x[s.Name] = s.Value
	}
	f := model.TwoModesFlow{Tempering: tempering, PriorSD: x["q"], MomentumSD: x["s"], InvSqrtBeta0: x["start"], StepSize: x["eps"], K: int(x["K"])}
	paths, _ := f.Draw(ctx, 12, random.Stream(seed, "two modes page paths"), true)
	draws, err := f.Draw(ctx, 2000, random.Stream(seed, "two modes page"), false)
	if err != nil {
		return nil, err
	}
	v.Row = summariseModes(f, draws)
	plane, energy := pathCharts(paths[:int(x["paths"])], "Paths in the plane")
	for _, c := range []plot.Chart{plane, energy, histogram(draws, v.Row.ELBO)} {
		for j := range c.Series {
			c.Series[j].Label = "" // no legend
		}
		v.Figures = append(v.Figures, template.HTML(c.SVG()))
	}
	return v, nil
}

// histogram returns a histogram of log p̂. The bins are one nat wide, from −40 to 10 nats. The first bin also counts
// all smaller draws, and the last bin all larger draws. A dashed line shows the ELBO.
func histogram(draws []model.TwoModesDraw, elbo float64) plot.Chart {
	const low, high = -40, 10
	var fractions [high - low]float64
	for _, d := range draws {
		fractions[int(min(max(d.LogEstimate, low), high-1)-low)] += 1 / float64(len(draws))
	}
	c := plot.Chart{Title: "Estimates of log p(x) = 0", XLabel: "log p̂ (nats)", YLabel: "fraction of draws", Width: 340, Height: 160}
	for i, f := range fractions {
		addPoint(&c, "draws", plot.Line, low+float64(i), f)
		addPoint(&c, "draws", plot.Line, low+float64(i+1), f)
	}
	addPoint(&c, "ELBO", plot.Dashed, max(elbo, low), 0)
	addPoint(&c, "ELBO", plot.Dashed, max(elbo, low), slices.Max(fractions[:]))
	return c
}
