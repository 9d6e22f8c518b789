package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"net"
	"net/http"

	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg"
	"hvae/linalg/random"
)

// With -two-modes, the program compares these settings of Algorithm 1 for K = 4, 8, …, 128.
var modeFlows = []model.TwoModesFlow{
	{Tempering: "none", PriorSD: 1.5, MomentumSD: 1, InvSqrtBeta0: 1, StepSize: 0.1},
	{Tempering: "fixed", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1},
	{Tempering: "untied", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 9, StepSize: 0.1},
	{Tempering: "none", PriorSD: 0.5, MomentumSD: 1, InvSqrtBeta0: 1, StepSize: 0.1},
	{Tempering: "fixed", PriorSD: 0.5, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1},
}

const modeDraws = 50_000 // draws of log p̂ for each setting

// A modeRow summarises draws of log p̂ for the target with two modes, whose log evidence is 0.
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
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r := summariseModes(f, f.Draw(modeDraws, random.Stream(o.config.Seed, "two modes", f.K), false))
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
		text = fmt.Sprintf("target with two modes, log p(x) = 0; %d draws of log p̂ that start near the left mode, seed %d\n", modeDraws, o.config.Seed)
		text += fmt.Sprintf("%-9s %10s %5s %6s %5s %10s %10s %14s %10s\n",
			"tempering", "s.d. of q⁰", "s", "1/√β₀", "K", "ELBO", "variance", "change of mode", "s.d. of z")
	}
	return text + fmt.Sprintf("%-9s %10.3g %5.3g %6.3g %5d %10.3f %10.2f %12.2f %% %10.3f\n",
		r.Tempering, r.PriorSD, r.MomentumSD, r.InvSqrtBeta0, r.K, r.ELBO, r.Variance, r.ChangedMode, r.EndSD)
}

func summariseModes(f model.TwoModesFlow, draws []model.TwoModesDraw) modeRow {
	r, n, squares := modeRow{TwoModesFlow: f}, float64(len(draws)), 0.0
	var logs []float64
	for _, d := range draws {
		logs = append(logs, d.LogEstimate)
		x, y := math.Abs(d.X[len(d.X)-1])-3, d.Y[len(d.Y)-1] // the modes are at (±3, 0)
		squares += x*x + y*y
		if d.ChangesMode() {
			r.ChangedMode += 100 / n
		}
	}
	elbo, se := linalg.MeanSE(logs)
	r.ELBO, r.Variance, r.EndSD = elbo, se*se*n, math.Sqrt(squares/(2*n))
	return r
}

// drawPaths returns an SVG figure of paths from the same z₀ and γ₀, with a column for each of the first three settings.
// The seed was chosen so that two paths change mode with fixed tempering, although only 6.7 % of all paths do.
func drawPaths() []byte {
	var charts [6]plot.Chart
	for i, f := range modeFlows[:3] {
		f.K = 64
		paths := f.Draw(3, random.Stream(1028, "two modes paths"), true)
		title := fmt.Sprintf("%s: K = %d, s = %v, Πα = 1/%v", f.Tempering, f.K, f.MomentumSD, f.InvSqrtBeta0)
		charts[i], charts[i+3] = pathCharts(paths, title)
	}
	return plot.Panels(3, charts[:]...)
}

// barrier is the difference of the potential at z = 0, between the modes, and its minimum at the modes.
const barrier = 18 - math.Ln2

// pathCharts returns two charts: the paths in the plane with contours of the target, and the energies along the paths.
func pathCharts(draws []model.TwoModesDraw, title string) (plane, energy plot.Chart) {
	plane = plot.Chart{Title: title, Width: 340, Equal: true}
	plane.XLabel, plane.YLabel = "first coordinate of z", "second coordinate of z"
	energy = plot.Chart{Title: "Energy along the paths", Width: 340, Height: 160}
	energy.XLabel, energy.YLabel = "step k", "H − min U (nats)"
	for i, d := range draws {
		label := fmt.Sprintf("path %d", i+1)
		for k, e := range d.Energy {
			addPoint(&plane, label, plot.Line, d.X[k], d.Y[k])
			addPoint(&energy, label, plot.Line, float64(k), e)
		}
	}
	K := len(draws[0].X) - 1
	for _, d := range draws {
		addPoint(&plane, "start z₀", plot.Points, d.X[0], d.Y[0])
		addPoint(&plane, "end z_K", plot.Points, d.X[K], d.Y[K])
	}
	plane.Series = append(plane.Series, contours())
	label := fmt.Sprintf("barrier, %.1f nats", barrier)
	addPoint(&energy, label, plot.Dashed, 0, barrier)
	addPoint(&energy, label, plot.Dashed, float64(K), barrier)
	return plane, energy
}

// contours returns the lines where the potential is 2, 6, 10 and 14 nats above its minimum. The modes hardly overlap, so
// these are nearly circles around (±3, 0) with the radii s√(2·2), …, s√(2·14), where s = ½.
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

//go:embed explore.html
var exploreHTML string
var page = template.Must(template.New("").Parse(exploreHTML))

// explore serves an interactive web page about the target with two modes until ctx is done.
func explore(ctx context.Context, address string, seed uint64, stdout io.Writer) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return command.Usage("invalid value %q for flag -http: it must be HOST:PORT, such as localhost:8080", address)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "localhost"), port))
	if err != nil {
		return fmt.Errorf("cannot serve the page at %s: %w; select another address with -http", address, err)
	}
	server := http.Server{Handler: explorer(seed)}
	defer context.AfterFunc(ctx, func() { server.Close() })() // Close also ends active requests
	fmt.Fprintf(stdout, "serving http://%s/; press Ctrl-C to stop\n", l.Addr())
	err = server.Serve(l)
	return cmp.Or(context.Cause(ctx), err)
}

// explorer returns the HTTP handler of the page, which requests a view for a TwoModesFlow in JSON.
func explorer(seed uint64) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { page.ExecuteTemplate(w, "page", nil) })
	mux.HandleFunc("GET /view", func(w http.ResponseWriter, r *http.Request) {
		var f model.TwoModesFlow
		err := json.Unmarshal([]byte(r.FormValue("flow")), &f)
		if err != nil || f.K < 1 || f.K > 256 {
			http.Error(w, fmt.Sprintf("invalid settings (%v), or K is not from 1 to 256", err), http.StatusBadRequest)
			return
		}
		paths := f.Draw(4, random.Stream(seed, "two modes page paths"), true)
		draws := f.Draw(2000, random.Stream(seed, "two modes page"), false)
		plane, energy := pathCharts(paths, "Paths in the plane")
		var figures []template.HTML
		for _, c := range []plot.Chart{plane, energy} {
			for i := range c.Series {
				c.Series[i].Label = "" // no legend
			}
			figures = append(figures, template.HTML(c.SVG()))
		}
		page.ExecuteTemplate(w, "view", map[string]any{"Row": summariseModes(f, draws), "Figures": figures})
	})
	return mux
}
