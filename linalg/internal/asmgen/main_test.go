package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCheckedInAssemblyIsWhatTheGeneratorWrites(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the generator writes: run 'go generate' in linalg/internal/asmgen", name)
		}
	}
}
