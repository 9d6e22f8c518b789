package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/plot"
	"hvae/bench/plot/plottest"
	"hvae/gaussian/model"
	"hvae/linalg/random"
)

// get returns the response of explorer to a GET request.
func get(ctx context.Context, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	explorer(5).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, nil))
	return w
}

func TestViewShowsNumbersAndFiguresForItsSettings(t *testing.T) {
	for query, want := range map[string]view{
		"":                                       {model.TwoModesFlow{K: 64, StepSize: 0.1, InvSqrtBeta0: 3, Tempering: "fixed"}, 4},
		"K=10&start=2":                           {model.TwoModesFlow{K: 10, StepSize: 0.1, InvSqrtBeta0: 2, Tempering: "fixed"}, 4},
		"K=256&eps=0.01&tempering=free&paths=12": {model.TwoModesFlow{K: 256, StepSize: 0.01, InvSqrtBeta0: 3, Tempering: "free"}, 12},
		"K=1&eps=0.5&start=6&tempering=none&paths=1": {model.TwoModesFlow{K: 1, StepSize: 0.5, InvSqrtBeta0: 6, Tempering: "none"}, 1},
	} {
		w := get(t.Context(), "/view?"+query)
		if w.Code != http.StatusOK {
			t.Fatalf("%q: status %d, %s", query, w.Code, w.Body)
		}
		l, changed, _ := want.flow.Draw(t.Context(), pageDraws, random.Stream(5, "two modes page"))
		r := summariseModes(want.flow, l, changed)
		var html bytes.Buffer
		writeView(&html, want.flow.Paths(12, random.Stream(5, "two modes page paths"))[:want.paths], l, r)
		if diff := cmp.Diff(html.String(), w.Body.String()); diff != "" {
			t.Errorf("%q: the page differs from the expected page (-want +got):\n%s", query, diff)
		}
		if text := fmt.Sprintf("ELBO <b>%.2f</b>, variance of log p̂ <b>%.1f ± %.1f</b>, <b>%.1f %%</b> of %d draws change mode", r.ELBO, r.Variance, r.VarianceSE, 100*float64(changed)/float64(len(l)), pageDraws); !strings.Contains(w.Body.String(), text) {
			t.Errorf("%q: the text does not contain %q", query, text)
		}
		figures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(w.Body.String(), -1)
		if len(figures) != 3 {
			t.Fatalf("%q: the page has %d figures, want 3", query, len(figures))
		}
		for i, svg := range figures {
			if p := plottest.Read(t, []byte(svg), false, false)[0]; p.Title != []string{"Paths in the plane", "Energy along the paths", "Estimates of log p(x) = 0"}[i] {
				t.Errorf("%q: the title of figure %d is %q", query, i, p.Title)
			}
			if n := strings.Count(svg, `stroke-width="2.2"`); i == 0 && n != want.paths {
				t.Errorf("%q: the figure shows %d paths, want %d", query, n, want.paths)
			}
		}
	}
}

func TestHistogramCountsEveryDraw(t *testing.T) {
	c := histogram([]float64{-1e3, -40, -39.5, -0.5, 0, 0.25, 9.5, 10, 1e3, math.Inf(-1)}, -2.5)
	for i := range c.Series {
		c.Series[i].Label = fmt.Sprint(i)
	}
	p := plottest.Read(t, plot.Panels(1, c), false, false)[0]
	want := map[float64]float64{-40: 0.4, -1: 0.1, 0: 0.2, 9: 0.3}
	outline := p.Series[0].Line[0]
	if len(outline) != 2*50+2 {
		t.Fatalf("the outline has %d corners, want 102", len(outline))
	}
	for i := range 50 {
		low := float64(i - 40)
		if a, b := outline[2*i+1], outline[2*i+2]; !p.X.Near(a.X, low) || !p.X.Near(b.X, low+1) || !p.Y.Near(a.Y, want[low]) || !p.Y.Near(b.Y, want[low]) {
			t.Errorf("the top of the bin [%v, %v] is drawn from pixel %v to pixel %v, want the height %v", low, low+1, a, b, want[low])
		}
	}
	if mean := p.Series[1].Line[0]; !p.X.Near(mean[0].X, -2.5) || mean[0].X != mean[1].X {
		t.Errorf("the ELBO is drawn at the pixels %v, want a vertical line at −2.5 nats", mean)
	}
}

func TestInvalidSettingsReturnStatus400AndOneLine(t *testing.T) {
	for query, want := range map[string]string{
		"K=0":          `invalid value "0" for K: it must be a whole number from 1 to 256`,
		"K=257":        `invalid value "257" for K: it must be a whole number from 1 to 256`,
		"K=1.5":        `invalid value "1.5" for K: it must be a whole number from 1 to 256`,
		"paths=13":     `invalid value "13" for paths: it must be a whole number from 1 to 12`,
		"eps=NaN":      `invalid value "NaN" for eps: it must be a number from 0.01 to 0.5`,
		"eps=0":        `invalid value "0" for eps: it must be a number from 0.01 to 0.5`,
		"start=0.9":    `invalid value "0.9" for start: it must be a number from 1 to 6`,
		"start=a%0Ab":  `invalid value "a\nb" for start: it must be a number from 1 to 6`,
		"tempering=<b": `invalid value "<b" for tempering: it must be one of none, fixed, free`,
	} {
		w := get(t.Context(), "/view?"+query)
		if got := w.Body.String(); w.Code != http.StatusBadRequest || got != want+"\n" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s: status %d and text %q, want status 400 and text %q", query, w.Code, got, want)
		}
	}
	for path, want := range map[string]int{"/": 200, "/view": 200, "/other": 404} {
		if w := get(t.Context(), path); w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
	}
}

func TestComputationEndsWhenBrowserDisconnects(t *testing.T) {
	ctx, disconnect := context.WithCancel(t.Context())
	disconnect()
	if w := get(ctx, "/view"); w.Body.Len() != 0 {
		t.Errorf("the response to a disconnected browser is %q, want an empty response", w.Body)
	}
}

func TestPageAndServerAgreeOnDefaultsAndLimits(t *testing.T) {
	first, least, most := url.Values{}, url.Values{}, url.Values{}
	for _, m := range regexp.MustCompile(`name="(\w+)"(?: min="(.*?)" max="(.*?)")?.* value="(.*?)"`).FindAllStringSubmatch(string(explorePage), -1) {
		first.Set(m[1], m[4])
		least.Set(m[1], m[2])
		most.Set(m[1], m[3])
	}
	want, _ := parseView(nil)
	got, err := parseView(first)
	if len(first) != 4 || err != nil || got != want {
		t.Errorf("the initial values of the page are %v, which parseView returns as %+v with the error %v; want the default %+v", first, got, err, want)
	}
	for _, q := range []url.Values{least, most} {
		for _, kind := range regexp.MustCompile(`<option value="(.*?)"`).FindAllStringSubmatch(string(explorePage), -1) {
			q.Set("tempering", kind[1])
			if _, err := parseView(q); err != nil {
				t.Errorf("the page allows the settings %v, but the server returns the error %v", q, err)
			}
		}
	}
	if n := bytes.Count(explorePage, []byte("\n")); n > 150 {
		t.Errorf("the page has %d lines, want at most 150", n)
	}
}

// serve starts the program with the flag -http. It returns the URL of the page and a function that
// interrupts the program and returns the exit status.
func serve(t *testing.T, address string) (page string, interrupt func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- program.Run(ctx, []string{"-two-modes", "-http", address}, w, io.Discard)
		w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	m := regexp.MustCompile(`^serving (http://\S+/); press Ctrl-C to stop\n$`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the program printed %q, error %v", line, err)
	}
	return m[1], func() int { cancel(); return <-status }
}

func TestPageIsServedOnLoopbackUntilInterrupt(t *testing.T) {
	for _, address := range []string{":0", "localhost:0"} {
		page, interrupt := serve(t, address)
		if u, err := url.Parse(page); err != nil || !slices.Contains([]string{"127.0.0.1", "::1"}, u.Hostname()) {
			t.Errorf("-http %s serves %s, want a loopback address; error %v", address, page, err)
		}
		answer, err := http.Get(page)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if !bytes.Equal(body, explorePage) || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
			t.Errorf("the served page is not explore.html: header %s, body %s, error %v", answer.Header, body, err)
		}
		// A second server cannot use the same address.
		taken := strings.TrimSuffix(strings.TrimPrefix(page, "http://"), "/")
		if stdout, stderr, status := gaussianCommand(t.Context(), "-two-modes", "-http", taken); status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, taken) {
			t.Errorf("a second server: status %d, stdout %q, stderr %q; want status 1 and a line with the address", status, stdout, stderr)
		}
		if status := interrupt(); status != 130 {
			t.Errorf("the status after an interrupt is %d, want 130", status)
		}
		if _, err := http.Get(page); err == nil {
			t.Error("the page is still served after the interrupt")
		}
	}
}

// A browser is a headless Chromium that the test controls through pipes with the DevTools protocol.
type browser struct {
	t        *testing.T
	in       io.Writer
	out      *bufio.Reader
	session  string
	id       int
	messages []string // console messages and exceptions of the page
}

// call calls a method of the DevTools protocol and decodes its result.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.id++
	message, err := json.Marshal(map[string]any{"id": b.id, "method": method, "params": params, "sessionId": b.session})
	if err != nil {
		b.t.Fatal(err)
	}
	if b.session == "" {
		message = bytes.Replace(message, []byte(`,"sessionId":""`), nil, 1)
	}
	if _, err := b.in.Write(append(message, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		answer, err := b.out.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID            int
			Method        string
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(answer[:len(answer)-1], &m); err != nil {
			b.t.Fatal(err)
		}
		switch {
		case slices.Contains([]string{"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}, m.Method):
			b.messages = append(b.messages, string(answer[:len(answer)-1]))
		case m.ID == b.id && m.Error != nil:
			b.t.Fatalf("%s: %s", method, m.Error)
		case m.ID == b.id:
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
			return
		}
	}
}

// eval evaluates a JavaScript expression in the page and returns its value as JSON.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return string(r.Result.Value)
}

// text evaluates a JavaScript expression in the page and returns its value, a string.
func (b *browser) text(expression string) (s string) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.eval(expression)), &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// wait waits until a JavaScript expression in the page is true.
func (b *browser) wait(expression string) {
	b.t.Helper()
	for b.eval(expression) != "true" { // eval fails when the timeout ends the browser
		time.Sleep(20 * time.Millisecond)
	}
}

// TestPageInABrowser runs if HVAE_CHROMIUM is the path of a Chromium binary.
func TestPageInABrowser(t *testing.T) {
	path := os.Getenv("HVAE_CHROMIUM")
	if path == "" {
		t.Skip("HVAE_CHROMIUM is not set")
	}
	page, interrupt := serve(t, "localhost:0")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	profile, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile) // t.TempDir would fail if Chromium still writes to the folder
	command := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	var nothing struct{}
	for _, domain := range []string{"Runtime.enable", "Log.enable", "Page.enable"} {
		b.call(domain, nil, &nothing)
	}
	visit := func(url string) {
		b.call("Page.navigate", map[string]any{"url": url}, &nothing)
		b.wait("document.querySelectorAll('#view svg').length == 3 && !busy")
	}
	visit(page + "?K=32")
	before := b.text("view.innerHTML")
	if k := b.eval("[form.elements.K.value, form.querySelectorAll('output')[1].value]"); k != `["32","32"]` {
		t.Errorf("the page shows K = %s, want 32 as in the URL", k)
	}
	b.eval("form.elements.start.focus()")
	for range 5 {
		for _, event := range []string{"rawKeyDown", "keyUp"} {
			b.call("Input.dispatchKeyEvent", map[string]any{"type": event, "key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39}, &nothing)
		}
	}
	b.wait("form.elements.start.value == '3.5' && !busy")
	after := b.text("view.innerHTML")
	p, q := strings.Split(before, "<figure"), strings.Split(after, "<figure")
	if len(p) != 4 || len(q) != 4 {
		t.Fatalf("the page shows %s, want numbers and three figures", after)
	}
	for i, name := range []string{"the text", "the plane", "the energies", "the histogram"} {
		if p[i] == q[i] {
			t.Errorf("%s did not change with 1/√β₀", name)
		}
	}
	if search := b.text("location.search"); !strings.Contains(search, "start=3.5") || !strings.Contains(search, "K=32") {
		t.Errorf("the settings in the URL are %s, want start=3.5 and K=32", search)
	}
	shared := b.text("location.href")
	b.call("Page.navigate", map[string]any{"url": "about:blank"}, &nothing)
	visit(shared)
	if again := b.text("view.innerHTML"); again != after {
		t.Error("loading the URL again does not restore the view")
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 320, "height": 640, "deviceScaleFactor": 1, "mobile": true}, &nothing)
	if width := b.eval("document.documentElement.scrollWidth"); width != "320" {
		t.Errorf("the page is %s pixels wide on a screen of 320 pixels", width)
	}
	if b.messages != nil {
		t.Errorf("the browser's console shows %s", b.messages)
	}
	b.eval("form.elements.tempering.options[0].value = 'x'; draw()")
	b.wait(`error.textContent.startsWith('invalid value "x" for tempering') && view.querySelector('svg') != null`)
	interrupt()
	b.eval("draw()")
	b.wait("error.textContent == 'The program has ended.'")
	in.Close()
	cancel()
	command.Wait()
}
