package atomicfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWriteReplacesWholeFilesOnly(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "figure.svg")
	for _, content := range []string{"first, and longer", "second"} {
		if err := Write(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("the file has %q (%v), want %q", got, err, content)
		}
	}
	if err := Write(filepath.Join(dir, "missing", "figure.svg"), nil); err == nil {
		t.Error("writing to a folder that is not there went well")
	}
	// A rename that cannot succeed leaves no temporary file behind.
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "folder"), []byte("x")); err == nil {
		t.Error("replacing a folder by a file went well")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v (%v), want the figure and the folder", entries, err)
	}
}

func TestCleanRemovesWhatAKillLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd [name")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", ".a-123", ".a-9", ".b-1", ".ab"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Clean(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{".ab", ".b-1", "a", "b"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}
