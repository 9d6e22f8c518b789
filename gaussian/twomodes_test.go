package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hvae/ad"
	"hvae/bench/plot"
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

// get returns the response of explorer to a GET request.
func get(ctx context.Context, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	explorer(5).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, nil))
	return w
}

func TestPageShowsNumbersAndFiguresForItsSettings(t *testing.T) {
	for query, flow := range map[string]model.TwoModesFlow{
		"":                                 {Tempering: "fixed", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1, K: 64},
		"tempering=none&K=1&eps=0.5&q=0.5": {Tempering: "none", PriorSD: 0.5, StepSize: 0.5, K: 1},
		"K=256&eps=0.01":                   {Tempering: "fixed", PriorSD: 1.5, InvSqrtBeta0: 3, StepSize: 0.01, K: 256},
		"tempering=untied&start=9&s=2.5&K=16&eps=0.1": {Tempering: "untied", PriorSD: 1.5, MomentumSD: 2.5, InvSqrtBeta0: 9, StepSize: 0.1, K: 16},
	} {
		draws, err := flow.Draw(t.Context(), 2000, random.Stream(5, "two modes page"), false)
		if err != nil {
			t.Fatal(err)
		}
		r := summariseModes(flow, draws)
		page := get(t.Context(), "/?"+query).Body.String()
		for _, want := range []string{
			fmt.Sprintf("ELBO <b>%.2f</b>, variance of log p̂ <b>%.1f</b>", r.ELBO, r.Variance),
			fmt.Sprintf("nearest mode <b>%.2f</b>,\n  <b>%.1f %%</b> of 2000 draws change mode", r.EndSD, r.ChangedMode),
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the page for %q does not contain %q", query, want)
			}
		}
		paths, err := flow.Draw(t.Context(), 4, random.Stream(5, "two modes page paths"), true)
		if err != nil {
			t.Fatal(err)
		}
		plane, energy := pathCharts(paths, "Paths in the plane")
		for _, chart := range []plot.Chart{plane, energy} {
			for i := range chart.Series {
				chart.Series[i].Label = ""
			}
			if !strings.Contains(page, string(chart.SVG())) {
				t.Errorf("the page for %q does not contain the figure %q", query, chart.Title)
			}
		}
		for _, want := range []string{"<option selected>" + flow.Tempering, fmt.Sprintf(`name="K" min="1" max="256" step="1" value="%d"`, flow.K), `data-for="untied"`} {
			if !strings.Contains(page, want) {
				t.Errorf("%q: the form does not contain %s", query, want)
			}
		}
	}
}

func TestInvalidSettingsShowTheDefaultAndANotice(t *testing.T) {
	defaults := get(t.Context(), "/").Body.String()
	for query, want := range map[string]string{
		"K=0": "K=0 is not a number from 1 to 256", "K=257": "K=257 is not", "K=1.5": "K=1.5 is not", "K=abc": "K=abc is not",
		"eps=NaN": "eps=NaN is not", "start=0.9": "start=0.9 is not", "tempering=<hot": "tempering=&lt;hot is unknown",
		"K=0&eps=2": "K=0 is not a number from 1 to 256; eps=2 is not a number from 0.01 to 0.5.",
	} {
		page := get(t.Context(), "/?"+query).Body.String()
		notice := regexp.MustCompile(`<p role="alert">The address has invalid settings.*</p>`).FindString(page)
		if !strings.Contains(notice, want) || strings.Replace(page, notice, "", 1) != defaults {
			t.Errorf("%s: the notice is %q, want %q and the page of the defaults", query, notice, want)
		}
	}
}

// The page disables the sliders that the selected tempering does not use. Exactly these sliders must have no effect.
func TestSlidersHaveAnEffectOnTheirTemperings(t *testing.T) {
	for _, tempering := range temperings {
		query := "K=2&q=0.6&tempering=" + tempering
		view := func(query string) string { // the page without the form
			_, view, _ := strings.Cut(get(t.Context(), "/?"+query).Body.String(), `<div id="view"`)
			return view
		}
		before := view(query)
		for _, s := range sliders {
			after := view(fmt.Sprintf("%s=%v&%s", s.Name, s.Min, query))
			if used := s.For == "" || slices.Contains(strings.Fields(s.For), tempering); used != (after != before) {
				t.Errorf("tempering %s: %s is used for %q, but a change has an effect: %v", tempering, s.Name, s.For, after != before)
			}
		}
	}
}

func TestOneViewIsComputedAtATime(t *testing.T) {
	computing.Lock()
	waiting := make(chan *httptest.ResponseRecorder)
	ctx, disconnect := context.WithCancel(t.Context())
	go func() { waiting <- get(ctx, "/") }()
	select {
	case w := <-waiting:
		t.Errorf("a second view is computed: %q", w.Body)
	case <-time.After(50 * time.Millisecond):
	}
	disconnect()
	computing.Unlock()
	if w := <-waiting; w.Body.Len() > 0 {
		t.Errorf("a browser that disconnected while it waited gets %q", w.Body)
	}
}

func TestPageIsServedOnLoopbackUntilInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	r, w := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- program.Run(ctx, []string{"-two-modes", "-http", ":0"}, w, io.Discard)
		w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	m := regexp.MustCompile(`^serving http://((127\.0\.0\.1|\[::1\]):\d+)/; press Ctrl-C to stop\n$`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the program printed %q, error %v; want a loopback address", line, err)
	}
	answer, err := http.Get("http://" + m[1] + "/?K=2")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if !bytes.Contains(body, []byte("</html>")) || err != nil || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the page is %s (error %v)", body, err)
	}
	// A second server cannot use the same address.
	if stdout, stderr, status := gaussianCommand(t.Context(), "-two-modes", "-http", m[1]); status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, m[1]) {
		t.Errorf("a second server: status %d, stdout %q, stderr %q; want status 1 and a line with the address", status, stdout, stderr)
	}
	interrupt()
	if s := <-status; s != 130 {
		t.Errorf("the status after an interrupt is %d, want 130", s)
	}
	if _, err := http.Get("http://" + m[1]); err == nil {
		t.Error("the page is still served after the interrupt")
	}
}
