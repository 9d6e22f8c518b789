package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The WebAssembly program and the native program must print the same numbers, up to rounding errors.
func TestWebAssemblyPrintsSameNumbers(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil || testing.Short() {
		t.Skip("this test needs Node and half a minute: go test ./gaussian")
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
	want, got := decode[map[string]any](t, native), decode[map[string]any](t, string(output))
	if len(want) != 7 || len(got) != 7 {
		t.Fatalf("the native program prints %d methods and the WebAssembly program prints %d, want 7", len(want), len(got))
	}
	for i, method := range want {
		delete(method, "seconds")
		delete(got[i], "seconds")
		tolerance := 1e-8
		if method["method"] == "vb" { // near the maximum of the exact bound, the gradient consists of rounding errors
			tolerance = 1e-3
		}
		if diff := cmp.Diff(method, got[i], cmpopts.EquateApprox(tolerance, 0)); diff != "" {
			t.Errorf("the numbers of %s (-) and WebAssembly (+) differ:\n%s", runtime.GOARCH, diff)
		}
	}
}
