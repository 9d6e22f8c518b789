package bench

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// read returns the contents of a file.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fileName matches targets of relative links, paths that begin with a folder of the repository, names of Go files, and
// names of folders in backquotes. Other files may be outputs, which need not exist.
var fileName = regexp.MustCompile(`\]\(([^):#\s]+)[)#]` +
	`|(?:^|[^\w./-])((?:\.ci|ad|bench|conv|gaussian|hvae|linalg|mnist)/[\w./-]*\w)` +
	`|\b(\w+\.go)\b` +
	"|`([a-z]\\w*/)`")

var testName = regexp.MustCompile(`\b(?:Test|Example|Benchmark|Fuzz)[A-Z]\w*`)

// Every test and every file that a document names must exist. The documents are all README.md files and the comments of
// paper_test.go.
func TestTestsAndFilesNamedInDocumentsExist(t *testing.T) {
	t.Chdir("..")
	documents, tests, paths := map[string]string{}, "", "" // each path is between two line feeds
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			return err
		}
		paths += "\n/" + filepath.ToSlash(path) + "\n"
		if d.Name() == "README.md" {
			documents[path] = read(t, path)
		}
		if strings.HasSuffix(path, "_test.go") {
			tests += read(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	comments := regexp.MustCompile(`(?m)^\s*//.*`).FindAllString(read(t, "paper_test.go"), -1)
	documents["paper_test.go"] = strings.Join(comments, "\n")
	named, files := 0, 0
	for document, text := range documents {
		for _, test := range testName.FindAllString(text, -1) {
			if named++; !strings.Contains(tests, "\nfunc "+test+"(") {
				t.Errorf("%s names %s, which does not exist", document, test)
			}
		}
		for _, m := range fileName.FindAllStringSubmatch(text, -1) {
			name := strings.TrimSuffix(m[1]+m[2]+m[3]+m[4], "/")
			_, err := os.Stat(filepath.Join(filepath.Dir(document), name))
			imported := strings.TrimPrefix(name, "hvae/") // a package of the module hvae
			if files++; err != nil && !strings.Contains(paths, "/"+name+"\n") && !strings.Contains(paths, "\n/"+imported+"\n") {
				t.Errorf("%s names %s, which does not exist", document, name)
			}
		}
	}
	if named < 3 || files < 30 {
		t.Errorf("the documents name only %d tests and %d files, want at least 3 and 30", named, files)
	}
}

// The numbers in README.md and ../README.md must agree with the measurements. The comparison of 2 and 16 processors is
// from results/xeon16.txt, and the other numbers are from results/xeon2.txt.
func TestREADMEMatchesTheMeasurements(t *testing.T) {
	sixteen := read(t, "results/xeon16.txt")
	two, plain, _ := strings.Cut(read(t, "results/xeon2.txt"), "$ HVAE_SIMD=none")
	// numbers returns the sorted numbers that the capturing group of pattern matches in text.
	numbers := func(text, pattern string) (all []float64) {
		t.Helper()
		for _, m := range regexp.MustCompile(`(?m)^`+pattern).FindAllStringSubmatch(text, -1) {
			v, _ := strconv.ParseFloat(m[1], 64)
			all = append(all, v)
		}
		if len(all) == 0 {
			t.Fatalf("the measurements do not contain %s", pattern)
		}
		slices.Sort(all)
		return all
	}
	ms := func(text, benchmark string) float64 { // the shortest time
		return numbers(text, `Benchmark`+benchmark+`\s+\d+\s+([\d.]+) ns/op`)[0] / 1e6
	}
	text := strings.Join(strings.Fields(read(t, "README.md")+read(t, "../README.md")), " ")
	contains := func(format string, args ...any) {
		t.Helper()
		if want := fmt.Sprintf(format, args...); !strings.Contains(text, want) {
			t.Errorf("README.md does not contain %q", want)
		}
	}
	peaks := numbers(two, `BenchmarkPeak-2\s.*?([\d.]+) GFLOP/s`)
	peak := peaks[len(peaks)/2]
	contains("fused multiply-adds in registers, %.0f GFLOP/s", peak)
	var ratios []any
	for _, step := range []struct {
		row, benchmark string
		operations     int    // multiply-adds per sample, or 0 for no percentage
		peer           string // beginning of the lines about PyTorch, or ""
	}{
		{"VAE", "TrainStep/VAE", vae().StepCost(), "K=0"},
		{"HVAE, K = 10", "TrainStep/HVAE-K10", hvaeOf(10).StepCost(), "K=10"},
		{"HVAE, K = 10, with `-recompute`", "TrainStepRecompute/HVAE-K10", hvaeOf(10).StepCost(), ""},
		{"dense HVAE, K = 4", "Dense/step", 0, "step"},
		{"dense HVAE, K = 4, evaluation", "Dense/evaluation", 0, "evaluation"},
	} {
		time := ms(two, step.benchmark+"-2")
		percent, comparison := "|", "| |"
		if step.operations > 0 {
			percent = fmt.Sprintf("%.0f %% |", 100*2*100*float64(step.operations)/(time*1e6)/peak)
		}
		if step.peer != "" {
			peer := numbers(two, step.peer+` .*min ([\d.]+)`)[0]
			comparison = fmt.Sprintf("%.1f ms | %.1f |", peer, peer/time)
			ratios = append(ratios, peer/time)
		}
		contains("| %s | %.1f ms | %s %s", step.row, time, percent, comparison)
	}
	contains("a training step of the VAE is %.1f times as fast as in PyTorch 2.6, a step of an HVAE (K = 10) %.1f times, and a "+
		"step of a small dense HVAE %.1f times; its evaluation is %.1f times as fast", ratios...)
	least, most := math.Inf(1), 0.0
	for _, kind := range []string{"float32/", "float64/"} {
		for _, f := range []string{"exp", "log", "tanh", "sigmoid", "softplus"} {
			ratio := numbers(two, kind+f+`: (\d+) ns`)[0] / 1e6 / ms(two, "Elementwise/"+kind+f)
			least, most = min(least, ratio), max(most, ratio)
		}
	}
	contains("%.1f to %.1f times as fast as in PyTorch", least, most)
	for _, tile := range []string{"8x48x192", "8x48x32", "16x16x192"} {
		percents := numbers(two, `BenchmarkGEMM/`+tile+`\s.*?([\d.]+) %peak`)
		contains("%.0f %% (%s", percents[len(percents)-1], strings.ReplaceAll(tile, "x", " × "))
	}
	contains("Plain Go takes %.0f times as long", ms(plain, "GEMM/1024x1024x1024-2")/ms(two, "GEMM/1024x1024x1024-2"))
	for _, name := range []string{"HVAE-K5", "VAE"} {
		contains("%.1f instead of %.1f ms", ms(sixteen, "TrainStep/"+name+"-16"), ms(sixteen, "TrainStep/"+name+"-2"))
	}
}
