// Package document compares documents and figures with values that tests compute from stored results. With the flag
// -update, a test writes the figures and the computed parts of the documents again. A new row of a table needs only its
// first cells; the test computes the others.
package document

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write figures and the computed parts of documents again")

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !*update {
		t.Fatal(err)
	}
	return string(b)
}

// File checks that the named file has the given contents.
func File(t *testing.T, name string, want []byte) {
	t.Helper()
	if read(t, name) == string(want) {
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

// Part checks the part of a page between the lines <!-- name --> and <!-- end -->. The function compute gets the text
// of the part and returns the correct text.
func Part(t *testing.T, page, name string, compute func(text string) string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- end -->\n"
	before, rest, begins := strings.Cut(read(t, page), begin)
	text, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no part between the lines <!-- %s --> and <!-- end -->", page, name)
	}
	File(t, page, []byte(before+begin+compute(text)+end+after))
}

// Rows checks a part of a page that is a Markdown table. In each row below the header, the first cells are labels. The
// function fill gets a row in which all other cells are empty, and sets them. Then, Rows removes NaN from the row, and
// replaces the hyphen of each negative number by a minus sign.
func Rows(t *testing.T, page, name string, labels int, fill func(cells []string)) {
	t.Helper()
	Part(t, page, name, func(text string) string {
		lines := strings.SplitAfter(text, "\n")
		for i := 2; i < len(lines)-1; i++ {
			cells := strings.Split(strings.Trim(lines[i], "|\n"), "|")
			for j := range cells {
				cells[j] = strings.TrimSpace(cells[j])
			}
			clear(cells[labels:])
			fill(cells)
			row := strings.ReplaceAll(strings.Join(cells, " | "), "NaN", "")
			lines[i] = "| " + negative.ReplaceAllString(row, "$1−$2") + " |\n"
		}
		return strings.Join(lines, "")
	})
}

// negative matches a negative number at the beginning of a word.
var negative = regexp.MustCompile(`(^|[ (])-(\d)`)

// Sentence checks that a page contains the formatted text. It treats minus signs as hyphens and line breaks as spaces.
func Sentence(t *testing.T, page, format string, args ...any) {
	t.Helper()
	plain := func(text string) string {
		return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "−", "-")
	}
	if text := fmt.Sprintf(format, args...); !strings.Contains(plain(read(t, page)), plain(text)) {
		t.Errorf("%s does not contain %q", page, text)
	}
}
