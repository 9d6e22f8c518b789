package atomicfile

import (
	"os"
	"path/filepath"
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
