package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The WebAssembly program computes the same numbers as the native program up to rounding errors,
// to which VB is sensitive.
func TestWebAssemblyPrintsTheSameDigits(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil || testing.Short() {
		t.Skip("needs Node, and half a minute to compile the standard library; run go test ./gaussian")
	}
	program := filepath.Join(t.TempDir(), "gaussian.wasm")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Fields("-d 5 -datasets 2 -iters 300 -json")
	started := filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec_node.js")
	output, err := exec.Command(node, append([]string{"--stack-size=8192", started, program}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	native, stderr, status := gaussianCommand(t.Context(), args...)
	if status != 0 {
		t.Fatal(stderr)
	}
	rows := func(lines string) (all []map[string]any) {
		for line := range strings.Lines(lines) {
			var row map[string]any
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			delete(row, "seconds")
			all = append(all, row)
		}
		return all
	}
	want, got := rows(native), rows(string(output))
	if len(want) != 7 || len(got) != 7 {
		t.Fatalf("%d and %d methods, want 7", len(want), len(got))
	}
	for i, method := range want {
		tolerance := 1e-8
		if method["method"] == "vb" { // its bound is exact, so near the maximum rounding errors dominate the gradient
			tolerance = 1e-3
		}
		if diff := cmp.Diff(method, got[i], cmpopts.EquateApprox(tolerance, 0)); diff != "" {
			t.Errorf("%s and WebAssembly differ:\n%s", runtime.GOARCH, diff)
		}
	}
}
