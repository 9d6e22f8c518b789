// Package document compares documents and figures with values that tests compute from stored results. With the flag
// -update, a test writes the figures and the generated parts of the documents again.
package document

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write figures and the generated parts of documents again")

// File checks that the named file has the given contents.
func File(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	t.Errorf("%s differs from the stored results; go test -update writes it again", name)
	if *update {
		err := os.WriteFile(name, want, 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Part checks that the part of a page with the given name is equal to text. A part begins after the comment line
// <!-- name --> and ends before the comment line <!-- end -->.
func Part(t *testing.T, page, name, text string) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(b), "<!-- "+name+" -->\n")
	_, after, ends := strings.Cut(rest, "<!-- end -->\n")
	if !begins || !ends {
		t.Fatalf("%s has no part between the lines <!-- %s --> and <!-- end -->", page, name)
	}
	File(t, page, []byte(before+"<!-- "+name+" -->\n"+text+"<!-- end -->\n"+after))
}

// negative matches a negative number at the beginning of a word.
var negative = regexp.MustCompile(`(^|[ (])-(\d)`)

// Table checks a part of a page that is a Markdown table. The first row contains the names of the columns. In rows,
// the cells are separated by " | ". Negative numbers get a minus sign instead of a hyphen.
func Table(t *testing.T, page, name string, rows ...string) {
	t.Helper()
	text := ""
	for i, row := range rows {
		text += "| " + negative.ReplaceAllString(row, "$1−$2") + " |\n"
		if i == 0 {
			text += strings.Repeat("| --- ", 1+strings.Count(row, " | ")) + "|\n"
		}
	}
	Part(t, page, name, text)
}

// Sentence checks that a page contains the formatted text. It treats minus signs as hyphens and line breaks as spaces.
func Sentence(t *testing.T, page, format string, args ...any) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	plain := func(text string) string {
		return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "−", "-")
	}
	if text := fmt.Sprintf(format, args...); !strings.Contains(plain(string(b)), plain(text)) {
		t.Errorf("%s does not contain %q", page, text)
	}
}
