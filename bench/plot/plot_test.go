package plot

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
)

// elements parses an SVG document and returns its text and its paths.
func elements(t *testing.T, svg []byte) (texts, paths []string) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return texts, paths
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inText = e.Name.Local == "text"
			for _, a := range e.Attr {
				if a.Name.Local == "d" {
					paths = append(paths, a.Value)
				}
			}
		case xml.CharData:
			if inText {
				texts = append(texts, string(e))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func has(list []string, want string) bool {
	for _, s := range list {
		if s == want {
			return true
		}
	}
	return false
}

func TestChartsSayWhatTheyShow(t *testing.T) {
	c := Chart{
		Title: "a < b & c", XLabel: "d", YLabel: "error", LogX: true, LogY: true,
		XTicks: []float64{1, 10, 100},
		Series: []Series{
			{Label: "first", X: []float64{1, 10, 100}, Y: []float64{0.02, 3, 5000}},
			{Label: "floor", X: []float64{1, 100}, Y: []float64{1, 1}, Dashed: true},
		},
	}
	texts, paths := elements(t, c.SVG())
	for _, want := range []string{"a < b & c", "d", "error", "first", "floor", "1", "10", "100", "0.01", "1000", "10000"} {
		if !has(texts, want) {
			t.Errorf("the chart does not say %q: %q", want, texts)
		}
	}
	// On logarithmic axes 1, 10, 100 are equally far apart.
	line := ""
	for _, p := range paths {
		if strings.Count(p, "L") == 2 {
			line = p
			break
		}
	}
	x, _ := axes(c)
	if d := (x.at(100) - x.at(10)) - (x.at(10) - x.at(1)); !(math.Abs(d) <= 1e-9) || line == "" {
		t.Errorf("the line is %q; 1, 10 and 100 are unevenly spaced by %v", line, d)
	}
}

func axes(c Chart) (x, y axis) {
	x = c.axis(c.LogX, c.XTicks, func(s Series) []float64 { return s.X })
	y = c.axis(c.LogY, nil, func(s Series) []float64 { return s.Y })
	x.from, x.to, y.from, y.to = left, plotRight, plotBottom, top
	return x, y
}

func TestEverythingShownIsInsideTheAxes(t *testing.T) {
	for _, c := range []Chart{
		{Series: []Series{{X: []float64{-3, 0, 7.5}, Y: []float64{-1e-3, 2e-3, 0}}}},
		{LogX: true, LogY: true, XTicks: []float64{1, 2, 301}, Series: []Series{{X: []float64{1, 2, 301}, Y: []float64{1e-9, 1, 1e9}}}},
		{LogY: true, Series: []Series{{X: []float64{5}, Y: []float64{100}}}},
		{Series: []Series{{X: []float64{2, 2}, Y: []float64{0, 0}}}},
	} {
		x, y := axes(c)
		for _, s := range c.Series {
			for i := range s.X {
				px, py := x.at(s.X[i]), y.at(s.Y[i])
				if !(px >= left && px <= plotRight && py >= top && py <= plotBottom) {
					t.Errorf("(%v, %v) is drawn at (%v, %v)", s.X[i], s.Y[i], px, py)
				}
			}
		}
		for _, v := range y.ticks {
			if p := y.at(v); p < top-1e-9 || p > plotBottom+1e-9 {
				t.Errorf("the tick %v is drawn at %v", v, p)
			}
		}
		if svg := string(c.SVG()); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("a coordinate is not a number:\n%s", svg)
		}
	}
}

func TestLinesBreakAtValuesThatCannotBeShown(t *testing.T) {
	c := Chart{LogY: true, Series: []Series{{X: []float64{1, 2, 3, 4, 5, 6, 7}, Y: []float64{1, 2, math.NaN(), 3, 0, math.Inf(1), 4}}}}
	_, paths := elements(t, c.SVG())
	found := false
	for _, p := range paths {
		if strings.Count(p, "M") == 3 && strings.Count(p, "L") == 1 {
			found = true
		}
	}
	if !found {
		t.Errorf("no line in three pieces, one of two points: %q", paths)
	}
	if _, empty := elements(t, Chart{LogX: true, Series: []Series{{Label: "nothing"}}}.SVG()); len(empty) == 0 {
		t.Error("a chart without points has no axes")
	}
}
