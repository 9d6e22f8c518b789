package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/bench/command"
	"hvae/bench/document"
	"hvae/bench/plot"
	"hvae/gaussian/model"
	"hvae/linalg"
	"hvae/linalg/random"
)

var long = flag.Bool("long", false, "also run the test that takes seconds, as .ci/run does")

func TestREADMEShowsTheTableOfTwoModes(t *testing.T) {
	if !*long {
		t.Skip("not run without -long")
	}
	stdout, stderr, status := gaussianCommand(t.Context(), "-two-modes")
	if status != 0 {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	document.Part(t, "README.md", "two modes", func(string) string { return "```\n" + stdout + "```\n" })
}

func TestSummaryOfDraws(t *testing.T) {
	const n = 500
	f := model.TwoModesFlow{Tempering: "fixed", PriorSD: 1.5, InvSqrtBeta0: 3, StepSize: 0.1, K: 16}
	elbo, variance, changed, endSD := summariseModes(f, n, random.Stream(1, "summary"))
	var tape ad.Tape[float64]
	_, s := f.Draw(&tape, n, random.Stream(1, "summary"))
	var sum, squares, crossed, distances float64
	for i, l := range s.LogEstimate().Value.Data {
		sum += l
		squares += l * l
		x0, x, y := s.Start.Z.Value.At(0, i), s.End.Z.Value.At(0, i), s.End.Z.Value.At(1, i)
		if x0 < 0 && x > 0 || x0 > 0 && x < 0 {
			crossed++
		}
		distances += min((x-3)*(x-3), (x+3)*(x+3)) + y*y
	}
	want := []float64{sum / n, (squares - sum*sum/n) / (n - 1), 100 * crossed / n, math.Sqrt(distances / (2 * n))}
	for i, got := range []float64{elbo, variance, changed, endSD} {
		if !(math.Abs(got-want[i]) <= 1e-9*math.Abs(want[i])) {
			t.Errorf("statistic %d is %v, want %v", i, got, want[i])
		}
	}
}

// The barrier and the contours in the charts must agree with the target.
func TestPotentialOfTheTargetWithTwoModes(t *testing.T) {
	var tape ad.Tape[float64]
	u := func(x, y float64) float64 {
		return -model.TwoModes.LogJoint(tape.Const(linalg.Column(x, y))).Scalar()
	}
	if math.Abs(u(3, 0)-math.Log(math.Pi)) > 1e-9 || math.Abs(u(0, 0)-u(-3, 0)-barrier) > 1e-9 {
		t.Errorf("U is %v at a mode and %v higher at 0, want log π and %v", u(3, 0), u(0, 0)-u(-3, 0), barrier)
	}
	var plane plot.Chart
	addContours(&plane)
	c := plane.Series[0]
	for i, x := range c.X {
		want := float64(2 + i/124*4) // each height has 2·62 points; every 62nd point is a gap
		if height := u(x, c.Y[i]) - u(3, 0); i%62 < 61 && !(math.Abs(height-want) < 0.005) {
			t.Errorf("point %d of the contours has the height %v, want %v", i, height, want)
		}
	}
	if len(c.X) != 4*124 {
		t.Errorf("the contours have %d points, want %d", len(c.X), 4*124)
	}
}

// get sends a GET request to explorer and returns the status and the body of the response.
func get(path string) (status int, body string) {
	w := httptest.NewRecorder()
	explorer(5).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

func TestViewShowsNumbersAndFiguresForItsSettings(t *testing.T) {
	f := model.TwoModesFlow{Tempering: "untied", PriorSD: 1.5, MomentumSD: 2.5, InvSqrtBeta0: 9, StepSize: 0.01, K: 256}
	settings, _ := json.Marshal(f)
	elbo, variance, changed, endSD := summariseModes(f, 2000, random.Stream(5, "two modes page"))
	plane, energy := pathCharts(f, 4, random.Stream(5, "two modes page paths"), "Paths in the plane")
	want := fmt.Sprintf(`<p>ELBO <b>%.2f</b>, variance of log p̂ <b>%.1f</b>,
  standard deviation of z around the nearest mode <b>%.2f</b>,
  <b>%.1f %%</b> of 2000 draws change mode</p>%s`, elbo, variance, endSD, changed, plot.Panels(2, plane, energy))
	if status, view := get("/view?flow=" + url.QueryEscape(string(settings))); status != 200 || view != want {
		t.Errorf("the view for %s has the status %d and begins with %.200q, want %.200q", settings, status, view, want)
	}
	const valid = `"prior_sd":1,"momentum_sd":1,"inv_sqrt_beta0":0.5,"eps":0.1`
	for _, settings := range []string{"", "{" + valid + `,"k":0}`, "{" + valid + `,"k":257}`, `{"k":2}`,
		"{" + valid + `,"k":2,"eps":"x"}`, "{" + valid + `,"k":2,"eps":-1}`, "{" + valid + `,"k":2,"tempering":"fixed"}`} {
		status, body := get("/view?flow=" + url.QueryEscape(settings))
		if status != 400 || !strings.HasPrefix(body, "invalid settings") {
			t.Errorf("the settings %q: status %d, %q; want status 400", settings, status, body)
		}
	}
}

func TestPageHasAnInputForEachSetting(t *testing.T) {
	settings, _ := json.Marshal(model.TwoModesFlow{})
	status, page := get("/")
	for _, m := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(string(settings), -1) {
		if strings.Count(page, `name="`+m[1]+`"`) != 1 {
			t.Errorf("the page (status %d) does not have one input for %s", status, m[1])
		}
	}
}

func TestPageIsServedOnLoopbackUntilInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	r, w := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- command.Run(ctx, "gaussian", run, []string{"-http", ":0"}, w, io.Discard)
		w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	serving := regexp.MustCompile(`^serving http://((127\.0\.0\.1|\[::1\]):\d+)/; press Ctrl-C to stop\n$`)
	m := serving.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the program printed %q, error %v; want a loopback address", line, err)
	}
	answer, err := http.Get("http://" + m[1])
	if err != nil || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the page has the header %v (error %v)", answer, err)
	}
	full := writer(func([]byte) error { return errors.New("disk full") })
	if s := command.Run(t.Context(), "gaussian", run, []string{"-http", ":0"}, full, io.Discard); s != 1 {
		t.Errorf("if the output fails, the status is %d, want 1", s)
	}
	_, stderr, second := gaussianCommand(t.Context(), "-http", m[1]) // a second server at the same address
	if second != 1 || !strings.HasPrefix(stderr, "gaussian: cannot serve the page at "+m[1]) {
		t.Errorf("a second server: status %d, stderr %q; want status 1 and the address", second, stderr)
	}
	interrupt()
	if s := <-status; s != 130 {
		t.Errorf("the status after an interrupt is %d, want 130", s)
	}
	if _, err := http.Get("http://" + m[1]); err == nil {
		t.Error("the page is still served after the interrupt")
	}
}
