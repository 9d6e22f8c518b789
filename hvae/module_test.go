//go:build !js

package hvae_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnotherModuleImportsThisOne copies the go.mod file and the program from the README to another folder.
// It runs the program without network access. The README must contain the output.
func TestAnotherModuleImportsThisOne(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	block := func(begin string) string {
		_, text, found := strings.Cut(string(readme), "\n"+begin)
		text, _, closed := strings.Cut(text, "\n```\n")
		if !found || !closed {
			t.Fatalf("the README has no block that begins with %q", begin)
		}
		return begin + text + "\n"
	}
	module := block("module example\n")
	if !strings.Contains(module, "=> ../hvae\n") {
		t.Fatalf("the module in the README does not replace hvae with ../hvae:\n%s", module)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  strings.Replace(module, "../hvae", root, 1),
		"main.go": block("package main\n"),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("go", "run", ".")
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := command.CombinedOutput()
	if printed := strings.TrimSpace(string(out)); err != nil || !strings.Contains(string(readme), "`"+printed+"`") {
		t.Errorf("the program in the README prints %q (error %v), but the README does not contain this output", printed, err)
	}
}
