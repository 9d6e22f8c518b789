package table

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRowsMatchTheirNames(t *testing.T) {
	rows := makeRows(plan(nil, nil), nil)
	if len(rows) != 27 {
		t.Errorf("the paper's table has %d rows, want 27", len(rows))
	}
	for _, r := range rows {
		kind, K, tempering, eps := "vae", 0, "none", ""
		if parts := strings.Split(r.Row, "-"); len(parts) > 1 {
			kind = parts[0]
			K, _ = strconv.Atoi(strings.TrimPrefix(parts[1], "k"))
			tempering = parts[2]
			eps = strings.Join(parts[3:], "")
		}
		if r.config.Kind != kind || r.K != K || r.Tempering != tempering || r.Eps != eps || r.config.VaryEps != (eps == "varied") || (K > 1) != (eps != "") {
			t.Errorf("the row %s has K = %d, tempering %s, ε %q and the model %+v", r.Row, r.K, r.Tempering, r.Eps, r.config)
		}
	}
}

func TestParseRowRefusesOtherNames(t *testing.T) {
	for _, name := range []string{"", "hvae", "vae-k1-none", "hvae-k0-none", "hvae-k1-none-shared", "hvae-k5-free", "hvae-k05-free-varied", "hvae-k5-hot-varied", "hvae-k5-free-both", "hvae-k5-free-varied-1"} {
		if c, err := ParseRow(name); err == nil {
			t.Errorf("ParseRow accepts %q as %v", name, c)
		}
	}
}

// The hash is the SHA-256 of the sorted lines in the CSV blocks of the paper's source, with the columns Model, K and
// Tempering replaced by the name of the row.
func TestPublishedRunsAreThoseOfThePaper(t *testing.T) {
	const want = "531a12d9f2168001342ad05cef9c2e7974a3c8b60313111fbb8f81148d4ffb96"
	lines := slices.Sorted(strings.Lines(publishedCSV[strings.IndexByte(publishedCSV, '\n')+1:]))
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, "")))); len(lines) != 57 || sum != want {
		t.Errorf("published.csv contains %d runs with the hash %s, want 57 runs with the hash %s", len(lines), sum, want)
	}
}

func TestTheDefaultTasksAreThePublishedRuns(t *testing.T) {
	names := func(tasks []task) (all []string) {
		for _, k := range tasks {
			all = append(all, k.Run)
		}
		slices.Sort(all)
		return all
	}
	var want []string
	for _, r := range published() {
		want = append(want, r.Run)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, names(plan(nil, nil))); diff != "" {
		t.Errorf("the default tasks differ from the published runs (-want +got):\n%s", diff)
	}
	// By default, a row that is not in the paper must have tasks for the first two published seeds.
	want = []string{"hvae-k2-none-shared-12345", "hvae-k2-none-shared-85547"}
	if diff := cmp.Diff(want, names(plan([]string{"hvae-k2-none-shared"}, nil))); diff != "" {
		t.Errorf("the tasks of a row that was not published differ (-want +got):\n%s", diff)
	}
}
