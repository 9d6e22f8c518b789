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

// The table of README.md shows shortest times, followed by medians in parentheses, or the range of one or two
// measurements (with PyTorch 2.11). ../README.md repeats the ratios.
func TestSpeedsInDocumentsMatchTheMeasurements(t *testing.T) {
	machines := map[string]struct{ file, cores, threads string }{
		"Xeon": {"xeon2", "-2", ""}, "Zen 3": {"zen3", "-2", ""},
		"2 of 16": {"xeon16", "-2", "threads=2"}, "16": {"xeon16", "(?:-16)?", "threads=16"},
	}
	steps := map[string]struct{ benchmark, peer string }{ // peer is the beginning of the lines about PyTorch
		"VAE": {"TrainStep/VAE", "K=0"}, "HVAE, K = 10": {"TrainStep/HVAE-K10", "K=10"},
		"dense HVAE, K = 4": {"Dense/step", "step"}, "dense HVAE, K = 4, evaluation": {"Dense/evaluation", "evaluation"},
	}
	var ratios []any
	document.Rows(t, "README.md", "speed", 3, func(c []string) { // step, machine, version, our time, PyTorch's time, ratio
		machine, step := machines[c[1]], steps[c[0]]
		measurements, _, _ := strings.Cut(read("results/"+machine.file+".txt"), "$ HVAE_SIMD=none")
		times := func(pattern string) (least, median float64) { // of the numbers that the capturing group matches
			var sorted []float64
			for _, m := range regexp.MustCompile(`(?m)^`+pattern).FindAllStringSubmatch(measurements, -1) {
				v, _ := strconv.ParseFloat(m[1], 64)
				sorted = append(sorted, v)
			}
			slices.Sort(sorted)
			return sorted[0], sorted[len(sorted)/2]
		}
		ours, middle := times(`Benchmark` + step.benchmark + machine.cores + `\s+\d+\s+([\d.]+) ns/op`)
		peer := step.peer + ` .*` + machine.threads + `:`
		theirs, _ := times(peer + `.*min ([\d.]+)`)
		median := math.Inf(1) // of PyTorch with its fastest setting
		for _, setting := range regexp.MustCompile(`(?m)^`+peer).FindAllString(measurements, -1) {
			_, m := times(regexp.QuoteMeta(setting) + ` median ([\d.]+)`)
			median = min(median, m)
		}
		c[3], c[4] = fmt.Sprintf("%.1f (%.1f) ms", ours/1e6, middle/1e6), fmt.Sprintf("%.1f (%.1f) ms", theirs, median)
		c[5] = fmt.Sprintf("%.1f (%.1f)", 1e6*theirs/ours, 1e6*median/middle)
		if c[2] == "2.11" {
			c[3], c[4], c[5] = span(ours/1e6, middle/1e6)+" ms", span(theirs, theirs)+" ms", span(1e6*theirs/middle, 1e6*theirs/ours)
		}
		ratios = append(ratios, c[5])
	})
	document.Sentence(t, "../README.md", "A training step of the VAE is %[1]s times as fast as in Debian's PyTorch 2.6 on two cores "+
		"of a Xeon (AVX-512) and %[5]s times on a Zen 3 (AVX2), of an HVAE (K = 10) %[2]s and %[6]s. The official wheel gives "+
		"%[9]s and %[10]s on two cores of another Xeon, %[11]s and %[12]s on 16", ratios...)
}

// span returns the range of two numbers, or a single number if they are equal.
func span(low, high float64) string {
	return strings.Join(slices.Compact([]string{fmt.Sprintf("%.1f", low), fmt.Sprintf("%.1f", high)}), " to ")
}
