package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hvae/mnist/data"
	"hvae/mnist/model"
)

// What was obtained is checked in, in results/, and README.md tells it. Here the files are
// held against each other, and README.md against them.

// checkedIn returns a table of results/, without images but with as many as MNIST has.
func checkedIn(folder string, t table) *table {
	t.out, t.patience, t.samples, t.task = filepath.Join("results", folder), 100, 1000, -1
	t.set = data.Set{Name: "mnist", Train: data.Images{Pixels: make([]byte, 60000*784)}}
	t.tasks = t.plan()
	return &t
}

// equalBudgets is the table with 30 epochs of each model.
func equalBudgets() *table {
	return checkedIn("table", table{
		rows:  []string{"vae", "hvae-k1-none", "hvae-k1-fixed", "hvae-k5-none-varied", "hvae-k5-fixed-varied", "hvae-k5-free-varied"},
		seeds: []uint64{85547, 12345, 98765}, epochs: 30, limit: 2000, runs: 1,
	})
}

var decimal = regexp.MustCompile(`\d+\.\d+`)

// alike says whether two files are the same but for last digits, which are others where the
// compiler fuses multiplications and additions: of a picture's pixels, rounded to tenths,
// the tenths.
func alike(a, b string) bool {
	x, y := decimal.FindAllString(a, -1), decimal.FindAllString(b, -1)
	if len(x) != len(y) || decimal.ReplaceAllString(a, "") != decimal.ReplaceAllString(b, "") {
		return false
	}
	for i := range x {
		v, _ := strconv.ParseFloat(x[i], 64)
		w, _ := strconv.ParseFloat(y[i], 64)
		tolerance := 1e-9 * math.Abs(w)
		if strings.Contains(b, "<svg") {
			tolerance = 0.11
		}
		if !(math.Abs(v-w) <= tolerance) {
			return false
		}
	}
	return true
}

func TestCheckedInTablesAreWhatTheirRunsSay(t *testing.T) {
	for _, table := range []*table{equalBudgets()} {
		want, err := table.report().files()
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range want {
			got, err := os.ReadFile(filepath.Join(table.out, name))
			if err != nil || !alike(string(got), string(content)) {
				t.Errorf("%s in %s is not what its runs say (%v): the command table writes it", name, table.out, err)
			}
		}
		entries, err := os.ReadDir(table.out)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			i := slices.IndexFunc(table.tasks, func(k task) bool { return k.String() == e.Name() })
			if i < 0 {
				t.Errorf("%s is no run of its table", e.Name())
			} else if s, err := table.status(table.tasks[i]); err != nil || !s.done() {
				t.Errorf("%s: it is not done, %v", e.Name(), err)
			}
		}
	}
}

// signed formats a difference and its error, if that is known, with the signs of README.md's
// text.
func signed(v float64, err *float64) string {
	sign := "+"
	if v < 0 {
		sign = "−"
	}
	return sign + plusMinus(2, math.Abs(v), err)
}

// difference returns the mean of NLL of row a less that of row b with the same seed, with
// its standard error.
func difference(runs []result, a, b string) string {
	var d []float64
	for _, x := range runs {
		for _, y := range runs {
			if x.Row == a && y.Row == b && x.Seed == y.Seed {
				d = append(d, x.NLL-y.NLL)
			}
		}
	}
	return signed(meanSE(d))
}

func TestREADMETellsWhatWasObtained(t *testing.T) {
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(b)))
	says := func(line string) {
		t.Helper()
		if !slices.Contains(lines, line+"\n") {
			t.Errorf("README.md should say\n%s", line)
		}
	}
	r := equalBudgets().report()
	for _, row := range r.Rows {
		line := "| `" + row.Row + "` |"
		for _, s := range []*summary{row.Published, row.Obtained} {
			excess := ""
			if s.ToVAE != nil {
				excess = signed(*s.ToVAE, s.ToVAEError)
			}
			line += fmt.Sprintf(" %d | %s | %s | %s |", s.Seeds, strings.Replace(fmt.Sprintf("%.2f", s.ELBO), "-", "−", 1), plusMinus(2, s.NLL, s.SeedSD), excess)
		}
		says(line)
	}
	for _, c := range [][3]string{
		{"fixed against no tempering, K = 1", "hvae-k1-fixed", "hvae-k1-none"},
		{"fixed against no tempering, K = 5", "hvae-k5-fixed-varied", "hvae-k5-none-varied"},
		{"free against no tempering, K = 5", "hvae-k5-free-varied", "hvae-k5-none-varied"},
		{"free against fixed tempering, K = 5", "hvae-k5-free-varied", "hvae-k5-fixed-varied"},
		{"K = 5 against 1, no tempering", "hvae-k5-none-varied", "hvae-k1-none"},
		{"K = 5 against 1, fixed tempering", "hvae-k5-fixed-varied", "hvae-k1-fixed"},
	} {
		says(fmt.Sprintf("| %s | %s | %s |", c[0], difference(published(), c[1], c[2]), difference(r.Results, c[1], c[2])))
	}
}

func TestCheckedInWeightsAreThoseOfTheirRuns(t *testing.T) {
	for file, c := range map[string]struct {
		table *table
		run   string
	}{
		"vae30.safetensors":  {equalBudgets(), "vae-85547"},
		"hvae30.safetensors": {equalBudgets(), "hvae-k5-fixed-varied-85547"},
	} {
		m, err := model.ReadCheckpoint(filepath.Join("results", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range c.table.tasks {
			if k.String() != c.run {
				continue
			}
			if s, err := c.table.status(k); err != nil || m.Config != k.config || m.Seed != k.seed || m.Epoch != s.best.Epoch || m.ELBO != s.best.ValELBO {
				t.Errorf("%s is %+v, seed %d, epoch %d, validation ELBO %v; %s is %+v, %+v, %v", file, m.Config, m.Seed, m.Epoch, m.ELBO, c.run, k, s.best, err)
			}
		}
		picture := filepath.Join(t.TempDir(), "digits.png")
		if _, stderr, status := mnist(t.Context(), "sample", "-checkpoint", filepath.Join("results", file), "-n", "2", "-o", picture); status != 0 {
			t.Errorf("sample: status %d, %s", status, stderr)
		}
	}
}
