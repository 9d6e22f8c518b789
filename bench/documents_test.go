package bench

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// read returns the contents of a file, or "" if it cannot be read.
func read(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}

var (
	testName = regexp.MustCompile(`\b(?:Test|Example|Benchmark|Fuzz)[A-Z]\w*`)

	// fileName matches relative links, paths that begin with a folder of the repository, and names of Go files.
	fileName = regexp.MustCompile(`\]\(([^):#\s]+)[)#]|` +
		`\b((?:ad|bench|conv|gaussian|hvae|linalg|mnist)/[\w./-]*\w|\w+\.go)\b`)
)

// Every test and file that is named in a README.md file or in a comment in paper_test.go must exist.
func TestTestsAndFilesNamedInDocumentsExist(t *testing.T) {
	t.Chdir("..")
	comments := regexp.MustCompile(`(?m)^\s*//.*`).FindAllString(read("paper_test.go"), -1)
	documents, tests, paths := map[string]string{"paper_test.go": strings.Join(comments, "\n")}, "", ""
	filepath.WalkDir(".", func(path string, d fs.DirEntry, _ error) error {
		paths += "\n/hvae/" + filepath.ToSlash(path) + "\n"
		if d.Name() == "README.md" {
			documents[path] = read(path)
		}
		if strings.HasSuffix(path, "_test.go") {
			tests += read(path)
		}
		return nil
	})
	for document, text := range documents {
		for _, test := range testName.FindAllString(text, -1) {
			if !strings.Contains(tests, "\nfunc "+test+"(") {
				t.Errorf("%s names %s, which does not exist", document, test)
			}
		}
		for _, m := range fileName.FindAllStringSubmatch(text, -1) {
			name := strings.TrimSuffix(m[1]+m[2], "/")
			_, err := os.Stat(filepath.Join(filepath.Dir(document), name))
			if err != nil && !strings.Contains(paths, "/"+name+"\n") {
				t.Errorf("%s names %s, which does not exist", document, name)
			}
		}
	}
}

// The times and ratios in the table of README.md, and the ratios in ../README.md, must agree with the measurements.
func TestSpeedsInDocumentsMatchTheMeasurements(t *testing.T) {
	table, text := read("README.md"), strings.Join(strings.Fields(read("../README.md")), " ")
	measurements, _, _ := strings.Cut(read("results/xeon2.txt"), "$ HVAE_SIMD=none")
	shortest := func(pattern string) float64 { // the smallest number that the capturing group matches
		var all []float64
		for _, m := range regexp.MustCompile(`(?m)^`+pattern).FindAllStringSubmatch(measurements, -1) {
			v, _ := strconv.ParseFloat(m[1], 64)
			all = append(all, v)
		}
		return slices.Min(all)
	}
	var ratios []any
	for _, step := range []struct{ row, benchmark, peer string }{ // peer is the beginning of the lines about PyTorch
		{"VAE", "TrainStep/VAE-2", "K=0"},
		{"HVAE, K = 10", "TrainStep/HVAE-K10-2", "K=10"},
		{"dense HVAE, K = 4", "Dense/step-2", "step"},
		{"dense HVAE, K = 4, evaluation", "Dense/evaluation-2", "evaluation"},
		{"VAE, 16 cores", "TrainStep/VAE(?:-16)?", "K=0 .*threads=16:"},
		{"HVAE, K = 10, 16 cores", "TrainStep/HVAE-K10(?:-16)?", "K=10 .*threads=16:"},
	} {
		if strings.Contains(step.row, "16 cores") {
			measurements = read("results/xeon16.txt")
		}
		ours := shortest(`Benchmark`+step.benchmark+`\s+\d+\s+([\d.]+) ns/op`) / 1e6
		theirs := shortest(step.peer + ` .*min ([\d.]+)`)
		ratios = append(ratios, theirs/ours)
		row := fmt.Sprintf(`\| %s \| %.1f ms \|[^|]*\| %.1f ms \| %.1f \|`, step.row, ours, theirs, theirs/ours)
		if !regexp.MustCompile(row).MatchString(table) {
			t.Errorf("README.md does not contain the row %s", row)
		}
	}
	want := fmt.Sprintf("a training step of the VAE is %.1f times as fast as in PyTorch 2.6, a step of an HVAE (K = 10) %.1f "+
		"times, and a step of a small dense HVAE %.1f times; its evaluation is %.1f times as fast. On 16 cores of another "+
		"Xeon, with PyTorch 2.11, the factors are %.1f for the VAE and %.1f for the HVAE", ratios...)
	if !strings.Contains(text, want) {
		t.Errorf("../README.md does not contain %q", want)
	}
}
