package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// noError ends the test if err is not nil.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckedInFilesAreTheOutputOfTheGenerator(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(dir + name)
		noError(t, err)
		if string(got) != want {
			t.Errorf("%s differs from the output of the generator; run 'go generate' in linalg/internal/asmgen", name)
		}
	}
}

// TestKernelsChangeNoPointerArgument checks that kernels change no arguments, except for the counter argument of the
// kernels for quad tiles. The garbage collector may scan the arguments after a kernel has returned, and a changed
// pointer might be invalid.
func TestKernelsChangeNoPointerArgument(t *testing.T) {
	found := false
	for name, text := range files() {
		// Match instructions whose last operand, the destination, is a kernel argument.
		pattern := regexp.MustCompile(`(?m)^\t[^\n]*[ (](\w+Args_\w+)[^,\n]*\(\w+\)$`)
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			found = true
			if m[1] != "tileArgs_left" {
				t.Errorf("%s: the instruction %q changes an argument that is not a counter", name, m[0])
			}
		}
	}
	if !found {
		t.Error("the regular expression does not find the argument tileArgs_left")
	}
}

// TestInstructionsUseAllOperands checks that assembler.code panics if it is given the wrong number or kind of operands.
func TestInstructionsUseAllOperands(t *testing.T) {
	for _, code := range []string{"RETURN y", "ADD y", "ADD y, y, y", "MOVE other, y", "LOOP y", "MULTIPLY y, y"} {
		for _, arch := range []*architecture{amd64, arm64} {
			w := newFile(arch, "peak", "", "y: a register")
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: %q becomes %q, want a panic", arch.goarch, code, w.String())
					}
				}()
				w.code("%s", code)
			}()
		}
	}
}

// TestWordsMatchTheirComments checks the WORD directives, which encode instructions that Go's assembler lacks. For each
// directive, the output of the GNU disassembler must equal the comment.
func TestWordsMatchTheirComments(t *testing.T) {
	var code bytes.Buffer
	var comments []string
	for _, text := range files() {
		for _, m := range regexp.MustCompile(`WORD \$(0x[0-9a-f]{8}) // (.*)`).FindAllStringSubmatch(text, -1) {
			word, err := strconv.ParseUint(m[1], 0, 32)
			noError(t, err)
			code.Write(binary.LittleEndian.AppendUint32(nil, uint32(word)))
			comments = append(comments, m[2])
		}
	}
	if len(comments) < 500 {
		t.Fatalf("the generated files contain %d WORD directives, want at least 500", len(comments))
	}
	disassembler, err := exec.LookPath("aarch64-linux-gnu-objdump")
	if err != nil {
		t.Skip("aarch64-linux-gnu-objdump from the package binutils-aarch64-linux-gnu is not installed")
	}
	file := filepath.Join(t.TempDir(), "words")
	noError(t, os.WriteFile(file, code.Bytes(), 0o666))
	out, err := exec.Command(disassembler, "-D", "-z", "-b", "binary", "-m", "aarch64", file).Output()
	noError(t, err)
	lines := regexp.MustCompile(`(?m)^ *[0-9a-f]+:\t[0-9a-f]{8} \t(.*)$`).FindAllStringSubmatch(string(out), -1)
	if len(lines) != len(comments) {
		t.Fatalf("the disassembler prints %d lines, want %d (one for each WORD directive)", len(lines), len(comments))
	}
	for i, m := range lines {
		if got := strings.ReplaceAll(m[1], "\t", " "); got != comments[i] {
			t.Errorf("the disassembler prints %q for a WORD directive, but its comment is %q", got, comments[i])
		}
	}
}

// TestAVX2KernelsUseNoAVX512Registers checks that no kernel in the AVX2 table uses AVX-512 registers. Such a kernel
// would crash the program on a processor without AVX-512.
func TestAVX2KernelsUseNoAVX512Registers(t *testing.T) {
	generated := files()
	checked := 0
	check := func(kind string, index int) {
		s := generated[kind+"_amd64.s"]
		entry := fmt.Sprintf(`(?m)^DATA \w+Table<>\+%d\(SB\)/8, \$(\w+)<>`, 8*index)
		name := regexp.MustCompile(entry).FindStringSubmatch(s)[1]
		_, text, _ := strings.Cut(s, "TEXT "+name+"<>(SB)")
		text, _, _ = strings.Cut(text, "TEXT ")
		if r := regexp.MustCompile(`\b(Z\d+|K\d|[XY](1[6-9]|[23]\d))\b`).FindString(text); r != "" || text == "" {
			t.Errorf("the table of AVX2 lists the kernel %s, which uses the register %q in %d bytes of code", name, r, len(text))
		}
		checked++
	}
	_, table, _ := strings.Cut(generated["tables_amd64.go"], "levelAVX2: {")
	for kind, pattern := range map[string]string{
		"elementwise": `elementwise: (\d+)`, "peak": `peak: +(\d+)`,
		"transpose": `\{\d+, (\d+)\}`, "tiles": `\{\d+, \d+, (\d+)\}`,
	} {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(table, -1) {
			index, err := strconv.Atoi(m[1])
			noError(t, err)
			kernels := 1
			if kind == "elementwise" {
				kernels = len(elementwiseKernels)
			}
			for i := range kernels {
				check(kind, index+i)
			}
		}
	}
	if want := len(elementwiseKernels) + 2 + len(slices.Concat(avx2.tiles[:]...)); checked != want {
		t.Errorf("the test checked %d kernels, want %d", checked, want)
	}
}
