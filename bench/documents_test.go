package bench

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test and every file that a document names must exist. The documents are all README.md files
// and the comments in paper_test.go.
func TestTestsAndFilesNamedInDocumentsExist(t *testing.T) {
	t.Chdir("..")
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
			imported, err := os.Stat(strings.TrimPrefix(name, "hvae/")) // a package of the module hvae
			if files++; !exists(name, filepath.Dir(document)) && !(err == nil && imported.IsDir()) {
				t.Errorf("%s names %s, which does not exist", document, name)
			}
		}
	}
	if named < 3 || files < 30 {
		t.Errorf("the documents contain only %d names of tests and %d names of files, want at least 3 and 30", named, files)
	}
}

// fileName matches names that must exist: targets of relative links, paths that begin with a folder of the
// repository, names of Go files, and folders in code font. Output files, for example, need not exist.
var fileName = regexp.MustCompile(`\]\(([^):#]+)[)#]` +
	`|(?:^|[^\w./-])((?:\.ci|ad|bench|conv|gaussian|hvae|linalg|mnist)/[\w./-]*\w)` +
	`|\b(\w+\.go)\b` +
	"|`([a-z]\\w*/)`")

// repository returns the paths of all files and folders below the current folder, and the names of all
// tests, examples, benchmarks and fuzz targets.
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

// documents returns the contents of the README.md files in paths and the comments of paper_test.go, keyed
// by path.
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
