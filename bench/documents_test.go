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

	"hvae/bench/document"
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

// The table of README.md shows the shortest times of the measurements, and ../README.md repeats the ratios.
func TestSpeedsInDocumentsMatchTheMeasurements(t *testing.T) {
	steps := map[string]struct{ file, benchmark, peer string }{ // peer is the beginning of the lines about PyTorch
		"VAE":                           {"xeon2", "TrainStep/VAE-2", "K=0"},
		"HVAE, K = 10":                  {"xeon2", "TrainStep/HVAE-K10-2", "K=10"},
		"dense HVAE, K = 4":             {"xeon2", "Dense/step-2", "step"},
		"dense HVAE, K = 4, evaluation": {"xeon2", "Dense/evaluation-2", "evaluation"},
		"VAE, 16 cores":                 {"xeon16", "TrainStep/VAE(?:-16)?", "K=0 .*threads=16:"},
		"HVAE, K = 10, 16 cores":        {"xeon16", "TrainStep/HVAE-K10(?:-16)?", "K=10 .*threads=16:"},
	}
	var ratios []any
	document.Rows(t, "README.md", "speed", 2, func(c []string) { // step, % of peak, our time, PyTorch's time, ratio
		step := steps[c[0]]
		measurements, _, _ := strings.Cut(read("results/"+step.file+".txt"), "$ HVAE_SIMD=none")
		shortest := func(pattern string) float64 { // the smallest number that the capturing group matches
			var all []float64
			for _, m := range regexp.MustCompile(`(?m)^`+pattern).FindAllStringSubmatch(measurements, -1) {
				v, _ := strconv.ParseFloat(m[1], 64)
				all = append(all, v)
			}
			return slices.Min(all)
		}
		ours := shortest(`Benchmark`+step.benchmark+`\s+\d+\s+([\d.]+) ns/op`) / 1e6
		theirs := shortest(step.peer + ` .*min ([\d.]+)`)
		c[2], c[3], c[4] = fmt.Sprintf("%.1f ms", ours), fmt.Sprintf("%.1f ms", theirs), fmt.Sprintf("%.1f", theirs/ours)
		ratios = append(ratios, theirs/ours)
	})
	document.Sentence(t, "../README.md", "a training step of the VAE is %.1f times as fast as in PyTorch 2.6, a step of an HVAE "+
		"(K = 10) %.1f times, and a step of a small dense HVAE %.1f times; its evaluation is %.1f times as fast. On 16 cores of "+
		"another Xeon, with PyTorch 2.11, the factors are %.1f for the VAE and %.1f for the HVAE", ratios...)
}
