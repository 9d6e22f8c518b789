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

// read returns the contents of a file.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fileName matches names that must exist: targets of relative links, paths that begin with a folder of the
// repository, names of Go files, and folders in code font. Output files, for example, need not exist.
var fileName = regexp.MustCompile(`\]\(([^):#]+)[)#]` +
	`|(?:^|[^\w./-])((?:\.ci|ad|bench|conv|gaussian|hvae|linalg|mnist)/[\w./-]*\w)` +
	`|\b(\w+\.go)\b` +
	"|`([a-z]\\w*/)`")

var testName = regexp.MustCompile(`\b(?:Test|Example|Benchmark|Fuzz)[A-Z]\w*`)

// Every test and every file that a document names must exist. The documents are all README.md files and
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

// The numbers in README.md are medians of the measurements in results/zen4.txt. Only the table of times on up to
// 16 processors is from results/xeon16.txt.
func TestREADMEMatchesTheMeasurements(t *testing.T) {
	simd, plain, ok := strings.Cut(read(t, "results/zen4.txt"), "$ HVAE_SIMD=none")
	if !ok {
		t.Fatal("results/zen4.txt contains no measurements of plain Go")
	}
	// numbers returns the sorted numbers that the group in pattern matches in text.
	numbers := func(text, pattern string) (all []float64) {
		t.Helper()
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
		return all
	}
	median := func(text, pattern string) float64 { all := numbers(text, pattern); return all[len(all)/2] }
	ms := func(text, name string) float64 { return median(text, `^`+name+`\s+\d+\s+([\d.]+) ns/op`) / 1e6 }
	const executed = generator / 1_374_400.0 // share of the multiply-adds that are not multiplications by padding
	peak := func(name string) float64 { return median(simd, `^`+name+`-2\s.*?([\d.]+) %peak`) * executed }
	torch := func(K int, what string) float64 {
		return numbers(plain, fmt.Sprintf(`^K=%d .*%s ([\d.]+)`, K, what))[0] // the shorter of the times with one thread and two threads
	}
	text := strings.Join(strings.Fields(read(t, "README.md")+read(t, "../README.md")), " ")
	contains := func(format string, args ...any) {
		t.Helper()
		if want := fmt.Sprintf(format, args...); !strings.Contains(text, want) {
			t.Errorf("README.md does not contain %q", want)
		}
	}
	vae, hvae, recompute := ms(simd, "BenchmarkTrainStep/VAE-2"), ms(simd, "BenchmarkTrainStep/HVAE-K10-2"), ms(simd, "BenchmarkTrainStepRecompute/HVAE-K10-2")
	ratio, ratio10 := torch(0, "median")/vae, torch(10, "median")/hvae
	contains("| VAE | %.1f ms | %.0f %% | %.0f ms | %.1f |", vae, peak("BenchmarkTrainStep/VAE"), torch(0, "median"), ratio)
	contains("| HVAE, K = 10 | %.0f ms | %.0f %% | %.0f ms | %.1f |", hvae, peak("BenchmarkTrainStep/HVAE-K10"), torch(10, "median"), ratio10)
	contains("| HVAE, K = 10, with `-recompute` | %.0f ms | %.0f %% | | |", recompute, peak("BenchmarkTrainStepRecompute/HVAE-K10"))
	contains("| NLL of two images with 1,000 samples, VAE | %.0f ms | %.0f %% | | |", ms(simd, "BenchmarkEvaluate/VAE-2"), peak("BenchmarkEvaluate/VAE"))
	contains("its fastest single steps take %.0f ms for the VAE and %.0f ms for the HVAE", torch(0, "min"), torch(10, "min"))
	contains("fused multiply-adds in registers: %.0f GFLOP/s", median(simd, `^BenchmarkPeak-2\s.*?([\d.]+) GFLOP/s`))
	contains("a step takes %.0f %% more time", 100*(recompute/hvae-1))
	contains("Plain Go takes %.0f times as long", ms(plain, "BenchmarkGEMM/1024x1024x1024-2")/ms(simd, "BenchmarkGEMM/1024x1024x1024-2"))
	contains("a training step of the VAE is %.0f times as fast as in PyTorch, and a step of an HVAE with K = 10 is %.0f times as fast", ratio, ratio10)
	xeon := read(t, "results/xeon16.txt")
	for name, row := range map[string]string{"VAE": "VAE", "HVAE-K5": "HVAE, K = 5"} {
		line := "| " + row + " |"
		for _, processors := range []string{"", "-2", "-4", "-8", "-16"} {
			line += fmt.Sprintf(" %.1f ms |", ms(xeon, "BenchmarkTrainStep/"+name+processors))
		}
		contains("%s", line)
	}
}
