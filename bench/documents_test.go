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

	mnist "hvae/mnist/model"
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

// fileName matches names of files and folders that must exist: targets of relative links, paths that begin with a
// folder of the repository, names of Go files, and names of folders in backquotes. Output files need not exist, so
// other names do not match.
var fileName = regexp.MustCompile(`\]\(([^):#]+)[)#]` +
	`|(?:^|[^\w./-])((?:\.ci|ad|bench|conv|gaussian|hvae|linalg|mnist)/[\w./-]*\w)` +
	`|\b(\w+\.go)\b` +
	"|`([a-z]\\w*/)`")

var testName = regexp.MustCompile(`\b(?:Test|Example|Benchmark|Fuzz)[A-Z]\w*`)

// Every test and every file that a document names must exist. The documents are all README.md files and the comments of
// paper_test.go.
func TestTestsAndFilesNamedInDocumentsExist(t *testing.T) {
	t.Chdir("..")
	var paths string // of all files and folders, each between two line feeds
	documents, tests := map[string]string{}, ""
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
	for line := range strings.Lines(read(t, "paper_test.go")) {
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
			documents["paper_test.go"] += comment + "\n"
		}
	}
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
		t.Errorf("the documents contain only %d names of tests and %d names of files, want at least 3 and 30", named, files)
	}
}

// The numbers in README.md and ../README.md must agree with the measurements. The comparison of 2 and 16 processors is
// from results/xeon16.txt, and the other numbers are from results/zen4.txt.
func TestREADMEMatchesTheMeasurements(t *testing.T) {
	zen, xeon := read(t, "results/zen4.txt"), read(t, "results/xeon16.txt")
	simd, plain, ok := strings.Cut(zen, "$ HVAE_SIMD=none")
	if !ok {
		t.Fatal("results/zen4.txt contains no measurements of plain Go")
	}
	// spread returns the minimum and the median of the numbers that the capturing group of pattern matches in text.
	spread := func(text, pattern string) (least, median float64) {
		t.Helper()
		var all []float64
		for _, m := range regexp.MustCompile(`(?m)`+pattern).FindAllStringSubmatch(text, -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		if len(all) == 0 {
			t.Fatalf("the measurements do not contain %s", pattern)
		}
		slices.Sort(all)
		return all[0], all[len(all)/2]
	}
	ms := func(text, name string) (least, median float64) {
		least, median = spread(text, `^`+name+`\s+\d+\s+([\d.]+) ns/op`)
		return least / 1e6, median / 1e6
	}
	text := strings.Join(strings.Fields(read(t, "README.md")+read(t, "../README.md")), " ")
	contains := func(format string, args ...any) {
		t.Helper()
		if want := fmt.Sprintf(format, args...); !strings.Contains(text, want) {
			t.Errorf("README.md does not contain %q", want)
		}
	}
	_, peak := spread(simd, `^BenchmarkPeak-2\s.*?([\d.]+) GFLOP/s`)
	contains("fused multiply-adds in registers, %.0f GFLOP/s", peak)
	var ratios []any // ratios of the shortest times and of the median times
	for _, step := range []struct {
		row, benchmark string
		config         mnist.Config
	}{
		{"VAE", "TrainStep/VAE", vae()},
		{"HVAE, K = 10", "TrainStep/HVAE-K10", hvaeOf(10)},
		{"HVAE, K = 10, with `-recompute`", "TrainStepRecompute/HVAE-K10", hvaeOf(10)},
	} {
		least, median := ms(simd, "Benchmark"+step.benchmark+"-2")
		percent := 100 * 2 * 100 * float64(step.config.StepCost()) / (least * 1e6) / peak
		line := fmt.Sprintf("| %s | %.1f ms | %.0f %% |", step.row, least, percent)
		if strings.Contains(step.benchmark, "Recompute") {
			contains("%s | | |", line)
			continue
		}
		shortest, typical := math.Inf(1), math.Inf(1)
		for threads := 1; threads <= 2; threads++ {
			output := fmt.Sprintf(`^K=%d batch=100 threads=%d: `, step.config.K, threads)
			fastest, _ := spread(zen, output+`.*min ([\d.]+)`)
			_, middle := spread(zen, output+`median ([\d.]+)`)
			line += fmt.Sprintf(" %.0f ms |", fastest)
			shortest, typical = min(shortest, fastest), min(typical, middle)
		}
		contains("%s %.1f to %.1f |", line, shortest/least, typical/median)
		ratios = append(ratios, shortest/least, typical/median)
	}
	contains("a training step of the VAE is %.1f to %.1f times as fast as in PyTorch 1.13, and a step of an HVAE (K = 10) %.1f to %.1f times", ratios...)
	slow, _ := ms(plain, "BenchmarkGEMM/1024x1024x1024-2")
	fast, _ := ms(simd, "BenchmarkGEMM/1024x1024x1024-2")
	contains("Plain Go takes %.0f times as long", slow/fast)
	for _, name := range []string{"HVAE-K5", "VAE"} {
		two, _ := ms(xeon, "BenchmarkTrainStep/"+name+"-2")
		sixteen, _ := ms(xeon, "BenchmarkTrainStep/"+name+"-16")
		contains("%.1f instead of %.1f ms", sixteen, two)
	}
}
