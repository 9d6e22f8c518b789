package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/plot/plottest"
	"hvae/gaussian/model"
	"hvae/hvae"
)

// steps and starts are the rows of -two-modes: 1/√β₀ by 1/√β₀, K by K.
var (
	steps  = []int{4, 8, 16, 32, 64, 128}
	starts = []float64{3, 1}
)

// modes returns the mean of n draws of log p̂, their sample variance, and which share of them
// changed mode.
func modes(t *testing.T, K int, start float64, n int, seed uint64) (mean, variance, share float64) {
	t.Helper()
	draws, changed := model.DrawTwoModes(K, start, n, hvae.Stream(seed, "two modes", K))
	if len(draws) != n {
		t.Fatalf("%d draws, want %d", len(draws), n)
	}
	for _, l := range draws {
		mean += l / float64(n)
	}
	for _, l := range draws {
		variance += (l - mean) * (l - mean) / float64(n-1)
	}
	return mean, variance, float64(changed) / float64(n)
}

func TestTwoModesTable(t *testing.T) {
	folder := t.TempDir()
	stdout, stderr, status := gaussianCommand(t.Context(), "-two-modes", "-out", folder)
	if said, there := wrote(t, folder, stderr); status != 0 || !slices.Equal(said, []string{"tempering.svg", "trajectory.svg"}) || !slices.Equal(said, there) {
		t.Fatalf("status %d, the program says it wrote %v, there are %v", status, said, there)
	}
	lines := strings.Split(stdout, "\n")
	if len(lines) != 2+2*len(steps)+1 || lines[0] != "two modes, log p(x) = 0; 50000 draws of log p̂ from around one of them, seed 1" || lines[1] != " 1/√β₀     K       ELBO   variance change of mode" {
		t.Fatalf("printed\n%s", stdout)
	}
	for i, start := range starts {
		for j, K := range steps {
			line := lines[2+i*len(steps)+j]
			if f := strings.Fields(line); len(f) != 6 || f[0] != fmt.Sprint(start) || f[1] != fmt.Sprint(K) || len([]rune(line)) != len([]rune(lines[1])) {
				t.Errorf("the line of 1/√β₀ = %v, K = %d is %q", start, K, line)
			}
			if K <= 4 { // the others take longer
				mean, variance, share := modes(t, K, start, 50_000, 1)
				if diff := cmp.Diff(strings.Fields(fmt.Sprintf("%v %d %.3f %.2f %.2f %%", start, K, mean, variance, 100*share)), strings.Fields(line)); diff != "" {
					t.Error(diff)
				}
			}
		}
	}
	for _, name := range []string{"tempering.svg", "trajectory.svg"} {
		sameFigure(t, filepath.Join("figures", name), filepath.Join(folder, name))
	}
}

func TestTwoModesJSONAndFiguresOfAnotherSeed(t *testing.T) {
	defer func(n int) { modeDraws = n }(modeDraws)
	modeDraws = 1100
	const seed = 6 // of which some paths change mode, with tempering and without
	folder := t.TempDir()
	stdout, stderr, status := gaussianCommand(t.Context(), "-two-modes", "-json", "-seed", fmt.Sprint(seed), "-out", folder)
	if status != 0 {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	p := readFigure(t, folder, "tempering.svg", true)[0]
	if diff := cmp.Diff([]string{"leapfrog steps K", "variance of log p̂"}, []string{p.XLabel, p.YLabel}); diff != "" || len(p.Series) != 2 {
		t.Fatalf("the figure has %d series; %s", len(p.Series), diff)
	}
	dec := json.NewDecoder(strings.NewReader(stdout))
	for i, start := range starts {
		if want := []string{"from temperature 9", "no tempering"}[i]; p.Series[i].Label != want {
			t.Errorf("the figure says %q, want %q", p.Series[i].Label, want)
		}
		for j, K := range steps {
			var row map[string]float64
			if err := dec.Decode(&row); err != nil {
				t.Fatal(err)
			}
			mean, variance, share := modes(t, K, start, 1100, seed)
			want := map[string]float64{"inv_sqrt_beta0": start, "k": float64(K), "elbo": mean, "variance": variance, "changed_mode": share}
			if diff := cmp.Diff(want, row, almost); diff != "" {
				t.Error(diff)
			}
			if at := p.Series[i].Line[0][j]; !p.X.Near(at.X, float64(K)) || !p.Y.Near(at.Y, row["variance"]) || p.Series[i].Markers[j] != at {
				t.Errorf("1/√β₀ = %v, K = %d: the figure has %v, want the variance %v", start, K, at, row["variance"])
			}
		}
	}
	if dec.More() {
		t.Error("there are more rows")
	}
	checkPaths(t, readFigure(t, folder, "trajectory.svg", false), seed)
}

// checkPaths holds the panels of trajectory.svg against the paths of a seed.
func checkPaths(t *testing.T, panels []plottest.Panel, seed uint64) {
	t.Helper()
	const K, draws = 64, 12
	if len(panels) != 2 {
		t.Fatalf("%d panels, want 2", len(panels))
	}
	for i, p := range panels {
		z := model.TwoModesPaths(K, starts[i], draws, hvae.Stream(seed, "two modes paths", K))
		if want := []string{"Two modes, K = 64, from temperature 9", "Two modes, K = 64, no tempering"}[i]; p.Title != want || p.XLabel != "first coordinate of z" || p.YLabel != "second coordinate of z" {
			t.Errorf("panel %d says %q, %q, %q", i, p.Title, p.XLabel, p.YLabel)
		}
		if s := p.X.Pixel(1) - p.X.Pixel(0); !(math.Abs(s/(p.Y.Pixel(0)-p.Y.Pixel(1))-1) <= 0.01) {
			t.Errorf("a unit has %v pixels across and %v up", s, p.Y.Pixel(0)-p.Y.Pixel(1))
		}
		series := map[string]plottest.Series{}
		for _, s := range p.Series {
			series[s.Label] = s
		}
		at := func(what string, drawn plottest.Point, k, i int) {
			if x, y := z[k].At(0, i), z[k].At(1, i); !p.X.Near(drawn.X, x) || !p.Y.Near(drawn.Y, y) {
				t.Errorf("%s: z_%d of draw %d, (%v, %v), is drawn at %v", what, k, i, x, y, drawn)
			}
		}
		next := map[string]int{}
		for i := range draws {
			at("start", series["start z₀"].Markers[i], 0, i)
			at("end", series["end z_K"].Markers[i], K, i)
			name := "ends in its mode"
			if (z[0].At(0, i) < 0) != (z[K].At(0, i) < 0) {
				name = "ends in the other"
			}
			n := next[name]
			next[name]++
			if n >= len(series[name].Line) || len(series[name].Line[n]) != K+1 {
				t.Fatalf("draw %d is not a line of its own that %s", i, name)
			}
			for k, drawn := range series[name].Line[n] {
				at("line", drawn, k, i)
				at("dots", series[name].Dots[n*(K+1)+k], k, i)
			}
		}
		for name, n := range next {
			if len(series[name].Line) != n || len(series[name].Dots) != n*(K+1) {
				t.Errorf("%d lines, want %d that %s", len(series[name].Line), n, name)
			}
		}
		// Around each mode are circles where the density is e^−2, e^−6, … of its largest:
		// at distances s√(2·2), s√(2·6), … of which the largest no longer are circles.
		length := map[bool]float64{}
		scale := p.X.Pixel(1) - p.X.Pixel(0)
		for _, line := range series["target"].Line {
			for j, d := range line {
				side := 3.0
				if d.X < p.X.Pixel(0) {
					side = -3
				}
				r := math.Hypot(d.X-p.X.Pixel(side), d.Y-p.Y.Pixel(0)) / scale
				if fall := r * r / (2 * 0.25); !slices.ContainsFunc([]float64{2, 6, 10, 14}, func(want float64) bool { return math.Abs(fall-want) <= 0.05*want }) {
					t.Fatalf("a contour passes where the density is e^−%.2f of its largest", fall)
				}
				if j > 0 {
					length[side > 0] += math.Hypot(d.X-line[j-1].X, d.Y-line[j-1].Y) / scale
				}
			}
		}
		want := 2 * math.Pi * 0.5 * (math.Sqrt(4) + math.Sqrt(12) + math.Sqrt(20) + math.Sqrt(28))
		for _, side := range []bool{false, true} {
			if l := length[side]; !(math.Abs(l/want-1) <= 0.03) {
				t.Errorf("the contours around the mode at the right (%v) are %v long, want %v", side, l, want)
			}
		}
	}
}

// sameFigure holds a figure against the one that is checked in: numbers may differ by a
// tenth of a pixel, as other processors round otherwise.
func sameFigure(t *testing.T, want, got string) {
	t.Helper()
	number := regexp.MustCompile(`[0-9]+\.[0-9]`)
	var text [2]string
	var numbers [2][]string
	for i, name := range []string{want, got} {
		svg, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[i], numbers[i] = number.ReplaceAllString(string(svg), "0"), number.FindAllString(string(svg), -1)
	}
	if text[0] != text[1] {
		t.Errorf("%s is drawn otherwise than %s, which was checked in:\n%s", got, want, cmp.Diff(text[0], text[1]))
		return
	}
	for i := range numbers[0] {
		a, errA := strconv.ParseFloat(numbers[0][i], 64)
		b, errB := strconv.ParseFloat(numbers[1][i], 64)
		if errA != nil || errB != nil || !(math.Abs(a-b) <= 0.11) {
			t.Fatalf("%s has %s where %s, which was checked in, has %s", got, numbers[1][i], want, numbers[0][i])
		}
	}
}
