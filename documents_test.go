package paper_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test, file and folder that README.md, a README.md of a folder or a comment of
// paper_test.go names must exist.
func TestWhatDocumentsNameExists(t *testing.T) {
	paths, tests := repository(t)
	exists := func(name, folder string) bool {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return true
		}
		for _, path := range paths {
			if strings.HasSuffix("/"+path, "/"+name) {
				return true
			}
		}
		return false
	}
	named, files := 0, 0
	for document, text := range documents(t, paths) {
		for _, test := range regexp.MustCompile(`\b(?:Test|Example|Benchmark|Fuzz)[A-Z]\w*`).FindAllString(text, -1) {
			if named++; !tests[test] {
				t.Errorf("%s names %s, which does not exist", document, test)
			}
		}
		for _, m := range fileName.FindAllStringSubmatch(text, -1) {
			name := strings.TrimSuffix(m[1]+m[2]+m[3]+m[4], "/")
			if files++; !exists(name, filepath.Dir(document)) {
				t.Errorf("%s names %s, which does not exist", document, name)
			}
		}
	}
	if named < 3 || files < 30 {
		t.Errorf("%d tests and %d files were found: the documents name more", named, files)
	}
}

// Documents take differences of correlations in quadrature, and README.md says how long an
// example is.
func TestDocumentsArithmetic(t *testing.T) {
	paths, _ := repository(t)
	all, roots := documents(t, paths), 0
	for document, text := range all {
		for _, m := range regexp.MustCompile(`√\((\S+)² − (\S+)²\)(?: =|, is) (\d+\.\d+)`).FindAllStringSubmatch(text, -1) {
			a, b := number(t, m[1]), number(t, m[2])
			if got := fmt.Sprintf("%.2f", math.Sqrt(a*a-b*b)); got != m[3] {
				t.Errorf("%s has %s, which is %s", document, m[0], got)
			}
			roots++
		}
	}
	example, err := os.ReadFile("hvae/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(example), "\nfunc ExampleTrainer() {")
	body, _, _ = strings.Cut(body, "\n}\n")
	length := fmt.Sprintf("in %d lines", strings.Count(body, "\n")+2)
	if roots != 2 || !strings.Contains(strings.Join(strings.Fields(all["README.md"]), " "), length) {
		t.Errorf("the documents have %d roots, want 2, or README.md does not say that ExampleTrainer trains %s", roots, length)
	}
}

// fileName matches a name in a document that must exist: the target of a link in the
// repository, a path from one of the repository's folders, a file of Go code, and a folder in
// code font. Other names, such as of files that a command writes, need not exist.
var fileName = regexp.MustCompile(`\]\(([^):#]+)[)#]` +
	`|(?:^|[^\w./-])((?:\.ci|ad|bench|conv|gaussian|hvae|linalg|mnist)/[\w./-]*\w)` +
	`|\b(\w+\.go)\b` +
	"|`([a-z]\\w*/)`")

// repository returns the paths of all files and folders, and the names of all tests.
func repository(t *testing.T) (paths []string, tests map[string]bool) {
	t.Helper()
	tests = map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Example|Benchmark|Fuzz)\w*)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			return err
		}
		paths = append(paths, filepath.ToSlash(path))
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(b, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths, tests
}

// documents returns the texts by their paths.
func documents(t *testing.T, paths []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range paths {
		if filepath.Base(path) == "README.md" {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = string(b)
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "paper_test.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Comments {
		all["paper_test.go"] += c.Text()
	}
	return all
}
