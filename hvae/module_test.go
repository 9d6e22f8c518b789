//go:build !js

package hvae_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnotherModuleImportsThisOne runs the command and the program from the README in another module, without
// network access. The README must contain the output of the program.
func TestAnotherModuleImportsThisOne(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	root, err2 := filepath.Abs("..")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	readme, folder := string(text), t.TempDir()
	// cut returns the part of the README from a line that starts with the string begin to just before the string end.
	cut := func(begin, end string) string {
		_, block, found := strings.Cut(readme, "\n"+begin)
		block, _, closed := strings.Cut(block, end)
		if !found || !closed {
			t.Fatalf("the README has no block that begins with %q", begin)
		}
		return begin + block
	}
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(cut("package main\n", "\n```\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	edit := strings.Replace(cut("    go mod edit ", "\n"), "=../hvae", "="+root, 1)
	for _, line := range []string{"go mod init example", edit, "go run ."} {
		command := exec.Command("go", strings.Fields(line)[1:]...)
		command.Dir = folder
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := command.CombinedOutput()
		if err != nil || line == "go run ." && !strings.Contains(readme, "`"+strings.TrimSpace(string(out))+"`") {
			t.Fatalf("%s prints %q (error %v), but the README does not contain this output", line, out, err)
		}
	}
}
