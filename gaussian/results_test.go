package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hvae/gaussian/model"
)

// readResults returns the rows of the named file in the folder results.
func readResults[T any](t *testing.T, name string) []T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("results", name))
	if err != nil {
		t.Fatal(err)
	}
	return decode[T](t, string(b))
}

// Figure 1 is drawn from rows in reverse order, because figures must not depend on the order of the rows.
func TestRedrawnFiguresEqualTheCheckedInFigures(t *testing.T) {
	folder, reversed := t.TempDir(), filepath.Join(t.TempDir(), "reversed.jsonl")
	b, err := os.ReadFile("results/figure1.jsonl")
	rows := slices.Collect(strings.Lines(string(b)))
	slices.Reverse(rows)
	if err := errors.Join(err, os.WriteFile(reversed, []byte(strings.Join(rows, "")), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-redraw", reversed}, {"-redraw", "results/entropy.jsonl", "-gap"}} {
		if stdout, stderr, status := gaussianCommand(t.Context(), append(args, "-out", folder)...); status != 0 || stdout != "" {
			t.Fatalf("%v: status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
	drawn := files(t, folder)
	drawn["trajectory.svg"] = drawPaths(nil)
	if got, want := names(drawn), []string{"figure1a.svg", "figure1b.svg", "figure1c.svg", "gap.svg", "trajectory.svg"}; !slices.Equal(got, want) {
		t.Fatalf("the program draws %v, want %v", got, want)
	}
	for name, svg := range drawn {
		if want, err := os.ReadFile(filepath.Join("figures", name)); err != nil || !bytes.Equal(svg, want) {
			t.Errorf("%s differs from the checked-in file (error %v); the program draws it again", name, err)
		}
	}
}

// Each block of program output in the READMEs must consist of lines that the program prints for the checked-in
// results. Running times may differ.
func TestREADMEsShowTheResults(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	for _, name := range []string{"d50.jsonl", "figure1.jsonl"} {
		var printed []model.Outcome
		for _, r := range readResults[model.Outcome](t, name) {
			if len(printed) > 0 && printed[0].Dims != r.Dims {
				printed = nil
			}
			printed = append(printed, r)
			output.WriteString(o.table(printed))
		}
	}
	for i, r := range readResults[modeRow](t, "two-modes.jsonl") {
		output.WriteString(o.modesTable(r, i == 0))
	}
	// comparable replaces each sequence of spaces in a line with one space, and removes the running time of a method.
	comparable := func(line string) string {
		f := strings.Fields(line)
		if len(f) > 8 && slices.Contains(model.MethodNames(), f[0]) {
			f = f[:len(f)-1]
		}
		return strings.Join(f, " ")
	}
	printed := map[string]bool{}
	for line := range strings.Lines(output.String()) {
		printed[comparable(line)] = true
	}
	blocks := 0
	for _, name := range []string{"../README.md", "README.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```") {
			if i%2 == 0 || !strings.HasPrefix(block, "\nd = ") && !strings.HasPrefix(block, "\ntarget ") {
				continue
			}
			blocks++
			for line := range strings.Lines(block) {
				if !printed[comparable(line)] {
					t.Errorf("%s contains the line %q, which the program does not print for the results", name, line)
				}
			}
		}
	}
	if blocks < 3 {
		t.Errorf("the READMEs contain %d blocks of output, want at least 3", blocks)
	}
}

// The results in figure1.jsonl must support the claims about figure 1a in README.md.
func TestClaimsAboutFigure1aHold(t *testing.T) {
	rows := map[string]map[int]model.Outcome{}
	for _, r := range readResults[model.Outcome](t, "figure1.jsonl") {
		if rows[r.Method] == nil {
			rows[r.Method] = map[int]model.Outcome{}
		}
		rows[r.Method][r.Dims] = r
	}
	for _, d := range []int{1, 2, 3, 5, 11, 25, 51, 101, 201, 301} {
		hvae, vb := rows["hvae-k1"][d], rows["vb"][d]
		if (vb.Err > hvae.Err) != (d > 51) {
			t.Errorf("d = %d: the error is %v for VB and %v for HVAE, want a larger error of VB only if d > 51", d, vb.Err, hvae.Err)
		}
		for _, flow := range []string{"nf-k1", "nf-k30"} {
			nf := rows[flow][d]
			if d > 11 && !(nf.DeltaErr > vb.DeltaErr) || d > 1 && !(nf.SigmaErr > 100*max(hvae.SigmaErr, vb.SigmaErr)) {
				t.Errorf("d = %d: the errors of Δ and σ are %v and %v for %s, and %v and %v for VB; the error of σ is %v for HVAE", d, nf.DeltaErr, nf.SigmaErr, flow, vb.DeltaErr, vb.SigmaErr, hvae.SigmaErr)
			}
		}
	}
}
