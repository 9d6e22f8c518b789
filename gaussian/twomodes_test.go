package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/ad"
	"hvae/bench/command"
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
	if diff := cmp.Diff(map[string][]byte{"trajectory.svg": drawPaths()}, files(t, folder)); diff != "" {
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

// get returns the status and the body of the response of explorer to a GET request.
func get(path string) (status int, body string) {
	w := httptest.NewRecorder()
	explorer(5).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

func TestViewShowsNumbersAndFiguresForItsSettings(t *testing.T) {
	for _, f := range []model.TwoModesFlow{
		{Tempering: "fixed", PriorSD: 1.5, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1, K: 64},
		{Tempering: "none", PriorSD: 0.5, MomentumSD: 1, InvSqrtBeta0: 1, StepSize: 0.5, K: 1},
		{Tempering: "untied", PriorSD: 1.5, MomentumSD: 2.5, InvSqrtBeta0: 9, StepSize: 0.01, K: 256},
	} {
		settings, err := json.Marshal(f)
		draws, drawErr := f.Draw(t.Context(), 2000, random.Stream(5, "two modes page"), false)
		paths, pathErr := f.Draw(t.Context(), 4, random.Stream(5, "two modes page paths"), true)
		if err := errors.Join(err, drawErr, pathErr); err != nil {
			t.Fatal(err)
		}
		r := summariseModes(f, draws)
		status, view := get("/view?flow=" + url.QueryEscape(string(settings)))
		wants := []string{
			fmt.Sprintf("ELBO <b>%.2f</b>, variance of log p̂ <b>%.1f</b>", r.ELBO, r.Variance),
			fmt.Sprintf("nearest mode <b>%.2f</b>,\n  <b>%.1f %%</b> of 2000 draws change mode", r.EndSD, r.ChangedMode),
		}
		plane, energy := pathCharts(paths, "Paths in the plane")
		for _, chart := range []plot.Chart{plane, energy} {
			for i := range chart.Series {
				chart.Series[i].Label = ""
			}
			wants = append(wants, string(chart.SVG()))
		}
		for _, want := range wants {
			if status != 200 || !strings.Contains(view, want) {
				t.Errorf("the view for %s (status %d) does not contain %.100q", settings, status, want)
			}
		}
	}
}

func TestInvalidSettingsOfAViewAreErrors(t *testing.T) {
	for _, settings := range []string{"", "{}", `{"k":0}`, `{"k":257}`, `{"k":1.5}`, `{"k":2,"eps":"x"}`} {
		if status, body := get("/view?flow=" + url.QueryEscape(settings)); status != 400 || !strings.HasPrefix(body, "invalid settings") {
			t.Errorf("the settings %q: status %d, %q; want status 400", settings, status, body)
		}
	}
}

// The page sends its settings with the names of a TwoModesFlow. The sliders with data-for must be exactly the settings
// that other temperings ignore.
func TestPageHasASliderForEachSetting(t *testing.T) {
	_, body := get("/")
	for _, tempering := range []string{"fixed", "untied", "none"} {
		f := model.TwoModesFlow{Tempering: tempering, PriorSD: 0.6, MomentumSD: 3, InvSqrtBeta0: 3, StepSize: 0.1, K: 2}
		view := func(f model.TwoModesFlow) string {
			settings, _ := json.Marshal(f)
			_, view := get("/view?flow=" + url.QueryEscape(string(settings)))
			return view
		}
		for name, change := range map[string]func(f *model.TwoModesFlow){
			"prior_sd":       func(f *model.TwoModesFlow) { f.PriorSD = 1 },
			"inv_sqrt_beta0": func(f *model.TwoModesFlow) { f.InvSqrtBeta0 = 2 },
			"momentum_sd":    func(f *model.TwoModesFlow) { f.MomentumSD = 2 },
			"k":              func(f *model.TwoModesFlow) { f.K = 3 },
			"eps":            func(f *model.TwoModesFlow) { f.StepSize = 0.2 },
		} {
			slider := regexp.MustCompile(`<input type="range" name="` + name + `"[^>]*>`).FindString(body)
			used := slider != "" && (!strings.Contains(slider, "data-for") || regexp.MustCompile(`data-for="[^"]*`+tempering).MatchString(slider))
			changed := f
			if change(&changed); used != (view(changed) != view(f)) {
				t.Errorf("tempering %s: the page uses the slider %q: %v, but it has an effect: %v", tempering, slider, used, !used)
			}
		}
	}
}

func TestPageIsServedOnLoopbackUntilInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	r, w := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- command.Run(ctx, "gaussian", run, []string{"-two-modes", "-http", ":0"}, w, io.Discard)
		w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	m := regexp.MustCompile(`^serving http://((127\.0\.0\.1|\[::1\]):\d+)/; press Ctrl-C to stop\n$`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the program printed %q, error %v; want a loopback address", line, err)
	}
	answer, err := http.Get("http://" + m[1] + "/")
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
