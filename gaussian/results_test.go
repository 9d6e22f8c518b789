package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

)

// readResults returns the JSON objects in results/name.
func readResults[T any](t *testing.T, name string) []T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("results", name))
	if err != nil {
		t.Fatal(err)
	}
	return decode[T](t, string(b))
}

// rowOf returns the row of a method in d dimensions.
func rowOf(rows []row, d int, method string) row {
	return rows[slices.IndexFunc(rows, func(r row) bool { return r.Dims == d && r.Method == method })]
}

func TestFigure1MatchesResults(t *testing.T) {
	rows := readResults[row](t, "figure1.jsonl")
	if len(rows) != 10*7 {
		t.Fatalf("the file contains %d rows, want 70", len(rows))
	}
	folder := t.TempDir()
	for _, f := range figures {
		if err := os.WriteFile(filepath.Join(folder, f.file), f.chart(rows).SVG(), 0o644); err != nil {
			t.Fatal(err)
		}
		sameFigure(t, filepath.Join("figures", f.file), filepath.Join(folder, f.file))
	}
}

func TestREADMEMatchesResults(t *testing.T) {
	var b []byte
	for _, name := range []string{"../README.md", "README.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, text...)
	}
	var lines [][]string
	for line := range strings.Lines(string(b)) {
		lines = append(lines, strings.Fields(line))
	}
	// Each line of the table for d = 50 must be in one of the READMEs. The running times may differ.
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	d50 := readResults[row](t, "d50.jsonl")
	for n := range d50 {
		if err := o.print(&table, d50[:n+1]); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(table.String()) {
		want := strings.Fields(line)
		if len(want) > 0 && slices.Contains(o.methods, want[0]) {
			want = want[:len(want)-1]
			if want[6] == "0" { // JSON null, which means that the method has no β₀
				want[6] = "–"
			}
		}
		if !slices.ContainsFunc(lines, func(got []string) bool {
			return len(got) >= len(want) && slices.Equal(got[:len(want)], want)
		}) {
			t.Errorf("no README contains the line %q", want)
		}
	}
	for _, r := range readResults[modeRow](t, "two-modes.jsonl") {
		want := fmt.Sprintf("%6.3g %5d %10.3f %10.2f %12.2f %%\n", r.InvSqrtBeta0, r.K, r.ELBO, r.Variance, 100*r.ChangedMode)
		if given := strings.Contains(string(b), want); given != slices.Contains([]int{4, 16, 64}, r.K) {
			t.Errorf("gaussian/README.md must contain the lines for K = 4, 16 and 64 and no others; contains the line %q: %v", want, given)
		}
	}
	// The text of the READMEs must quote the numbers in the results files.
	rows := readResults[row](t, "figure1.jsonl")
	sum := func(d int, method string) string {
		r := rowOf(rows, d, method)
		return fmt.Sprintf("%.1f ± %.1f", r.Err, float64(r.ErrSE))
	}
	chained := readResults[row](t, "chained.jsonl")
	chain := func(d int, method string) string {
		r := rowOf(chained, d, method)
		return fmt.Sprintf("%.0f ± %.0f", r.Err, float64(r.ErrSE))
	}
	sigma := func(method string) float64 { return rowOf(rows, 301, method).SigmaErr }
	delta := func(method string) float64 { return rowOf(d50, 50, method).DeltaErr }
	for _, want := range []string{
		fmt.Sprintf("at d = 51 its error is %s, compared with %s for HVAE with K = 1", sum(51, "vb"), sum(51, "hvae-k1")),
		fmt.Sprintf("At d = 301 it is %.0f, compared with %.0f", rowOf(rows, 301, "vb").Err, rowOf(rows, 301, "hvae-k1").Err),
		fmt.Sprintf("at d = 50 this error is %.0f for VB, and %.0f and %.0f for the planar flows", delta("vb"), delta("nf-k1"), delta("nf-k30")),
		fmt.Sprintf("At d = 301 the error in σ is %.3f (K = 1) and %.3f (K = 10) with tempering, but %.1f and %.0f without", sigma("hvae-k1"), sigma("hvae-k10"), sigma("hvae-notemp-k1"), sigma("hvae-notemp-k10")),
		fmt.Sprintf("VB has an error of %s at d = 51 (HVAE with K = 1: %s), %s at d = 101 (HVAE: %s) and %s at d = 301 (HVAE: %s)",
			chain(51, "vb"), chain(51, "hvae-k1"), chain(101, "vb"), chain(101, "hvae-k1"), chain(301, "vb"), chain(301, "hvae-k1")),
		fmt.Sprintf("larger errors in Δ: %.0f and %.0f at d = 51", rowOf(chained, 51, "nf-k1").DeltaErr, rowOf(chained, 51, "nf-k30").DeltaErr),
		fmt.Sprintf("at d = 51 from %.0f to %.0f; HVAE's stays at %.0f", rowOf(rows, 51, "vb").Err, rowOf(chained, 51, "vb").Err, rowOf(chained, 51, "hvae-k1").Err),
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(b)), " "), want) {
			t.Errorf("no README contains %q", want)
		}
	}
}

func TestClaimsAboutFigure1aHold(t *testing.T) {
	rows := readResults[row](t, "figure1.jsonl")
	for _, d := range []int{1, 2, 3, 5, 11, 25, 51, 101, 201, 301} {
		hvae, vb := rowOf(rows, d, "hvae-k1"), rowOf(rows, d, "vb")
		if (vb.Err > hvae.Err) != (d > 51) {
			t.Errorf("d = %d: the error is %v for VB and %v for HVAE, want a larger error of VB only if d > 51", d, vb.Err, hvae.Err)
		}
		for _, flow := range []string{"nf-k1", "nf-k30"} {
			nf := rowOf(rows, d, flow)
			if d > 11 && !(nf.DeltaErr > vb.DeltaErr) || d > 1 && !(nf.SigmaErr > 100*max(hvae.SigmaErr, vb.SigmaErr)) {
				t.Errorf("d = %d: the errors of Δ and σ are %[3]v and %[4]v for %[2]s, and %[5]v and %[6]v for VB; the error of σ is %[7]v for HVAE", d, flow, nf.DeltaErr, nf.SigmaErr, vb.DeltaErr, vb.SigmaErr, hvae.SigmaErr)
			}
		}
	}
}
