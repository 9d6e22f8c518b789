package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/plot/plottest"
)

// readFigure parses a figure that the program wrote to a folder. log specifies whether both axes are
// logarithmic.
func readFigure(t *testing.T, folder, file string, log bool) []plottest.Panel {
	t.Helper()
	svg, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return plottest.Read(t, svg, log, log)
}

// figuresOf returns the names of the figures that the program reports on stderr, and the names of
// the files in the folder.
func figuresOf(t *testing.T, folder, stderr string) (reported, existing []string) {
	t.Helper()
	for line := range strings.Lines(stderr) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "wrote "); ok && filepath.Dir(name) == folder {
			reported = append(reported, filepath.Base(name))
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		existing = append(existing, e.Name())
	}
	return reported, existing
}

func TestFiguresShowRowsWithStandardErrors(t *testing.T) {
	legend := map[string]string{
		"hvae-k1": "HVAE, K = 1", "hvae-k10": "HVAE, K = 10",
		"hvae-notemp-k1": "K = 1, no tempering", "hvae-notemp-k10": "K = 10, no tempering",
		"nf-k1": "planar flow, K = 1", "nf-k30": "planar flow, K = 30", "vb": "mean-field VB",
	}
	for _, methods := range [][]string{{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10", "nf-k1", "nf-k30", "vb"}, {"vb", "hvae-notemp-k1"}} {
		e := base // few points and iterations, for large error bars
		e.dims, e.methods, e.points, e.iterations, e.rate, e.seed = []int{3, 1, 2}, methods, 10, 60, 0.1, 5
		folder := filepath.Join(t.TempDir(), "new", "folder")
		_, stderr, status := gaussianCommand(t.Context(), append(e.args(), "-json", "-out", folder)...)
		if status != 0 {
			t.Fatalf("status %d, stderr %q", status, stderr)
		}
		rows := e.rows(t)
		files := []string{"figure1a.svg", "figure1b.svg", "figure1c.svg"}
		reported, existing := figuresOf(t, folder, stderr)
		if !slices.Equal(reported, files) || !slices.Equal(existing, files) {
			t.Errorf("the program reports the figures %v and writes %v, want %v", reported, existing, files)
		}
		for _, f := range []struct {
			file, title, y, mean, standardError, mle string
			methods                                  []string
		}{
			{"figure1a.svg", "Comparison across all methods", "mean of ‖θ − θ̂‖² ± s.e.", "err", "err_se", "mle sum", []string{"hvae-k1", "hvae-k10", "nf-k1", "nf-k30", "vb"}},
			{"figure1b.svg", "HVAE with and without tempering", "mean of ‖θ − θ̂‖² ± s.e.", "err", "err_se", "mle sum", []string{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10"}},
			{"figure1c.svg", "HVAE with and without tempering: σ alone", "mean of ‖σ − σ̂‖² ± s.e.", "sigma_err", "sigma_err_se", "mle_sigma_err", []string{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10"}},
		} {
			p := readFigure(t, folder, f.file, true)[0]
			f.methods = slices.DeleteFunc(slices.Clone(f.methods), func(m string) bool { return strings.Contains(m, "untied") })
			shown := slices.DeleteFunc(slices.Clone(f.methods), func(m string) bool { return !slices.Contains(methods, m) })
			x := "dimension d"
			if len(shown) > 1 {
				x += " (markers are shifted sideways)"
			}
			if diff := cmp.Diff([]string{f.title, x, f.y}, []string{p.Title, p.XLabel, p.YLabel}); diff != "" {
				t.Errorf("%s: title and axis labels (-want +got):\n%s", f.file, diff)
			}
			var labels []string
			for _, s := range p.Series {
				labels = append(labels, s.Label)
			}
			want := []string{}
			for _, m := range shown {
				want = append(want, legend[m])
			}
			if diff := cmp.Diff(append(want, "max. likelihood"), labels); diff != "" {
				t.Fatalf("%s: labels in the legend (-want +got):\n%s", f.file, diff)
			}
			for i, s := range p.Series {
				if len(s.Line) != 1 || len(s.Line[0]) != 3 {
					t.Fatalf("%s: the series %q is drawn as %+v, want one line of three points", f.file, s.Label, s)
				}
				for j, d := range []int{1, 2, 3} {
					at := s.Line[0][j]
					row := rows[slices.IndexFunc(rows, func(r expectedRow) bool { return r.d == d && (i == len(shown) || r.method == shown[i]) })].numbers
					if i == len(shown) { // maximum likelihood
						if !p.X.Near(at.X, float64(d)) || !p.Y.Near(at.Y, row[f.mle]) || s.Bars != nil {
							t.Errorf("%s: maximum likelihood in %d dimensions is drawn at pixel %v, want the value %v without an error bar", f.file, d, at, row[f.mle])
						}
						continue
					}
					shift := 5 * (float64(i) - float64(len(shown)-1)/2)
					if m := s.Markers[j]; !p.X.Near(at.X, float64(d)) || !p.Y.Near(at.Y, row[f.mean]) || math.Abs(m.X-at.X-shift) > 0.11 || m.Y != at.Y {
						t.Errorf("%s: %q in %d dimensions is drawn at pixel %v, want the value %v at height %v", f.file, s.Label, d, at, row[f.mean], p.Y.Pixel(row[f.mean]))
					}
					low, high := row[f.mean]-row[f.standardError], row[f.mean]+row[f.standardError]
					b := s.Bars[j]
					if b.X != s.Markers[j].X || !p.Y.Near(b.High, high) || b.Foot && !p.Y.Near(b.Low, low) || !b.Foot && !(low <= 0 || p.Y.Pixel(low) >= p.Bottom-0.3) {
						t.Errorf("%s: the error bar of %q in %d dimensions is drawn as %+v, want %v to %v", f.file, s.Label, d, b, low, high)
					}
				}
			}
		}
	}
}

func TestOneDimensionWritesNoFigure(t *testing.T) {
	folder := t.TempDir()
	_, stderr, status := gaussianCommand(t.Context(), append(base.args(), "-out", folder)...)
	if reported, existing := figuresOf(t, folder, stderr); status != 0 || reported != nil || existing != nil {
		t.Errorf("status %d, the program reports the figures %v and writes %v; want status 0 and no figures", status, reported, existing)
	}
}
