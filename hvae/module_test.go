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

// TestAnotherModuleImportsThisOne copies the go.mod file and the program from the README to another folder.
// It runs the program without network access. The README must contain the output.
func TestAnotherModuleImportsThisOne(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	root, err2 := filepath.Abs("..")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	readme, folder := string(text), t.TempDir()
	for name, begin := range map[string]string{"go.mod": "module example\n", "main.go": "package main\n"} {
		_, block, found := strings.Cut(readme, "\n"+begin)
		block, _, closed := strings.Cut(block, "\n```\n")
		if !found || !closed {
			t.Fatalf("the README has no block that begins with %q", begin)
		}
		block = strings.Replace(begin+block+"\n", "=> ../hvae\n", "=> "+root+"\n", 1)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("go", "run", ".")
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := command.CombinedOutput()
	if printed := strings.TrimSpace(string(out)); err != nil || !strings.Contains(readme, "`"+printed+"`") {
		t.Errorf("the program in the README prints %q (error %v), but the README does not contain this output", printed, err)
	}
}
