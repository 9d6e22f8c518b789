package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"

	"hvae/ad"
	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg/numeric"
	"hvae/linalg/random"
)

// With -two-modes, the program compares these settings of Algorithm 1 for K = 16 and 64.
var modeFlows = []model.TwoModesFlow{
	{Tempering: "none", PriorSD: 1.5, MomentumSD: 1, InvSqrtBeta0: 1, StepSize: 0.1},
	{Tempering: "fixed", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1},
	{Tempering: "untied", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 9, StepSize: 0.1},
	{Tempering: "none", PriorSD: 0.5, MomentumSD: 1, InvSqrtBeta0: 1, StepSize: 0.1},
	{Tempering: "fixed", PriorSD: 0.5, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1},
}

// compareModes runs Algorithm 1 for each setting and prints a table.
func compareModes(ctx context.Context, seed uint64, stdout io.Writer) error {
	const draws = 50_000
	const title = "target with two modes, log p(x) = 0; %d draws of log p̂ that start near the left mode, seed %d\n"
	_, err := fmt.Fprintf(stdout, title+"%-9s %10s %5s %6s %5s %10s %10s %14s %10s\n", draws, seed,
		"tempering", "s.d. of q⁰", "s", "1/√β₀", "K", "ELBO", "variance", "change of mode", "s.d. of z")
	for _, f := range modeFlows {
		for _, f.K = range []int{16, 64} {
			if err = cmp.Or(context.Cause(ctx), err); err != nil {
				return err
			}
			elbo, variance, changed, endSD := summariseModes(f, draws, random.Stream(seed, "two modes", f.K))
			_, err = fmt.Fprintf(stdout, "%-9s %10.3g %5.3g %6.3g %5d %10.3f %10.2f %12.2f %% %10.3f\n",
				f.Tempering, f.PriorSD, f.MomentumSD, f.InvSqrtBeta0, f.K, elbo, variance, changed, endSD)
		}
	}
	return err
}

// summariseModes returns the mean and variance of log p̂, the percentage of draws that change mode, and the
// root-mean-square deviation of the coordinates of z_K from the nearest mode. It makes n draws in batches of 500.
func summariseModes(f model.TwoModesFlow, n int, rng *rand.Rand) (elbo, variance, changed, endSD float64) {
	var logs []float64
	squares := 0.0
	var t ad.Tape[float64]
	for len(logs) < n {
		t.Reset()
		_, s := f.Draw(&t, 500, rng)
		logs = append(logs, s.LogEstimate().Value.Data...)
		start, end := s.Start.Z.Value, s.End.Z.Value
		for i := range end.Cols {
			x, y := math.Abs(end.At(0, i))-3, end.At(1, i) // the modes are at (±3, 0)
			squares += x*x + y*y
			if start.At(0, i)*end.At(0, i) < 0 {
				changed += 100 / float64(n)
			}
		}
	}
	elbo, se := numeric.MeanSE(logs)
	return elbo, se * se * float64(n), changed, math.Sqrt(squares / float64(2*n))
}

// drawPaths returns an SVG figure with a column for each of the first three elements of modeFlows. Each column shows
// three paths, which start at the same z₀ and γ₀ in all columns. With the seed used here, two of the three paths change
// mode under fixed tempering, although only 6.7 % of all paths do.
func drawPaths() []byte {
	var charts [6]plot.Chart
	for i, f := range modeFlows[:3] {
		f.K = 64
		title := fmt.Sprintf("%s: K = %d, s = %v, Πα = 1/%v", f.Tempering, f.K, f.MomentumSD, f.InvSqrtBeta0)
		charts[i], charts[i+3] = pathCharts(f, 3, random.Stream(1028, "two modes paths"), title)
	}
	return plot.Panels(3, charts[:]...)
}

const barrier = 18 - math.Ln2 // U(0) − min U: the potential halfway between the modes minus the potential at a mode

// pathCharts returns two charts: n paths in the plane with contours of the target, and the energies of the paths.
func pathCharts(f model.TwoModesFlow, n int, rng *rand.Rand, title string) (plane, energy plot.Chart) {
	plane = plot.Chart{Title: title, XLabel: "first coordinate of z", YLabel: "second coordinate of z", Equal: true}
	energy = plot.Chart{Title: "Energy along the paths", XLabel: "step k", YLabel: "H − min U (nats)", Height: 160}
	plane.Width = 340
	energy.Width = 340
	flow, sample := f.Draw(new(ad.Tape[float64]), n, rng)
	for k, phase := range flow.Path(sample.Start) {
		z := phase.Z.Value
		kinetic := ad.Scale(ad.MulSumTo(phase.Rho, phase.Rho, 1, n), 0.5)
		h := ad.Sub(kinetic, flow.Target.LogJoint(phase.Z)).Value // the energy H(z_k, ρ_k)
		for i := range n {
			label := fmt.Sprintf("path %d", i+1)
			plane.Add(label, plot.Line, z.At(0, i), z.At(1, i))
			energy.Add(label, plot.Line, float64(k), h.At(0, i)-math.Log(math.Pi))
		}
	}
	for _, path := range plane.Series {
		plane.Add("start z₀", plot.Points, path.X[0], path.Y[0])
		plane.Add("end z_K", plot.Points, path.X[f.K], path.Y[f.K])
	}
	addContours(&plane)
	for _, k := range []int{0, f.K} {
		energy.Add(fmt.Sprintf("barrier, %.1f nats", barrier), plot.Dashed, float64(k), barrier)
	}
	return plane, energy
}

// addContours adds lines where the potential U is 2, 6, 10 and 14 nats above its minimum. The modes hardly overlap, so
// U − min U is nearly r²/2s² at the distance r from the nearest mode, where s = ½, and the contours are nearly circles.
func addContours(plane *plot.Chart) {
	const label = "U − min U = 2, 6, 10, 14 nats"
	for _, height := range []float64{2, 6, 10, 14} {
		for _, mode := range []float64{3, -3} {
			r := 0.5 * math.Sqrt(2*height)
			for j := range 61 {
				sin, cos := math.Sincos(2 * math.Pi * float64(j) / 60)
				plane.Add(label, plot.Thin, mode+r*cos, r*sin)
			}
			plane.Add(label, plot.Thin, math.NaN(), math.NaN()) // a gap
		}
	}
}

//go:embed explore.html
var page []byte

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
	_, err = fmt.Fprintf(stdout, "serving http://%s/; press Ctrl-C to stop\n", l.Addr())
	if err == nil {
		err = server.Serve(l)
	}
	return cmp.Or(context.Cause(ctx), err)
}

// explorer returns an HTTP handler for the page explore.html. The page requests /view?flow=F, where F is a TwoModesFlow
// encoded as JSON. The response is HTML with statistics and charts for F.
func explorer(seed uint64) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { w.Write(page) })
	mux.HandleFunc("GET /view", func(w http.ResponseWriter, r *http.Request) {
		var f model.TwoModesFlow
		err := json.Unmarshal([]byte(r.FormValue("flow")), &f)
		if err != nil || f.K < 1 || f.K > 256 || min(f.PriorSD, f.MomentumSD, f.InvSqrtBeta0, f.StepSize) <= 0 ||
			f.Tempering == "fixed" && f.InvSqrtBeta0 < 1 {
			http.Error(w, fmt.Sprintf("invalid settings (error %v): K must be from 1 to 256, all other numbers positive, "+
				"and for fixed tempering, 1/√β₀ at least 1", err), http.StatusBadRequest)
			return
		}
		elbo, variance, changed, endSD := summariseModes(f, 2000, random.Stream(seed, "two modes page"))
		fmt.Fprintf(w, `<p>ELBO <b>%.2f</b>, variance of log p̂ <b>%.1f</b>,
  standard deviation of z around the nearest mode <b>%.2f</b>,
  <b>%.1f %%</b> of 2000 draws change mode</p>`, elbo, variance, endSD, changed)
		plane, energy := pathCharts(f, 4, random.Stream(seed, "two modes page paths"), "Paths in the plane")
		w.Write(plot.Panels(2, plane, energy))
	})
	return mux
}
