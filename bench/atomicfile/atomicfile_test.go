package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteReplacesTheFileOrKeepsItsContents(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, strings.Repeat("x", 251)+".svg") // the longest name that most file systems allow
	for _, content := range []string{"first, and longer", "second"} {
		if err := Write(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(name); err != nil || string(got) != content {
			t.Errorf("the file contains %q (error %v), want %q", got, err, content)
		}
	}
	if s, err := os.Stat(name); err != nil || s.Mode().Perm()&0o600 != 0o600 {
		t.Errorf("the mode of the file is %v (error %v)", s.Mode(), err)
	}
	missing := filepath.Join(dir, "missing", "figure.svg")
	if err := Write(missing, nil); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), missing+": ") {
		t.Errorf("for a missing folder, Write returns the error %v, want os.ErrNotExist with the path", err)
	}
	folder := filepath.Join(dir, "folder")
	os.Mkdir(folder, 0o755)
	if err := Write(folder, []byte("x")); err == nil || err.Error() != folder+" is not a regular file" {
		t.Errorf("Write replaces a folder (error %v)", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder contains %v (error %v), want only the file and the folder", entries, err)
	}
}

// If the folder is moved, WriteIn must write to the moved folder, and not to a new folder at the old path.
func TestWriteInFollowsAFolderThatMoves(t *testing.T) {
	parent := t.TempDir()
	path, moved := filepath.Join(parent, "run"), filepath.Join(parent, "moved")
	made := os.Mkdir(path, 0o755)
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(made, err)
	}
	defer root.Close()
	if err := errors.Join(WriteIn(root, ".tmp", "state", []byte("old")), os.WriteFile(filepath.Join(path, ".tmp"), []byte("of a killed process"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, moved); err != nil {
		t.Skip("this system cannot move an open folder: ", err)
	}
	if err := errors.Join(os.Mkdir(path, 0o755), WriteIn(root, ".tmp", "state", []byte("new"))); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]int{path: 0, moved: 1} {
		if entries, err := os.ReadDir(folder); err != nil || len(entries) != want {
			t.Errorf("%s contains %v (error %v), want %d files", folder, entries, err, want)
		}
	}
	if b, err := ReadIn(root, "state"); err != nil || string(b) != "new" {
		t.Errorf("ReadIn returns %q (error %v), want the new contents", b, err)
	}
	// After the folder is removed, WriteIn must fail, and its error must not mention the temporary name.
	os.RemoveAll(moved)
	if err := WriteIn(root, ".tmp", "state", nil); !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), ".tmp") {
		t.Errorf("in a removed folder, WriteIn returns the error %v, want os.ErrNotExist for the file", err)
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, want string }{
		{filepath.Join(dir, "none"), filepath.Join(dir, "none") + ": "},
		{dir, dir + " is not a regular file"},
		{os.DevNull, os.DevNull + " is not a regular file"}, // like pipes and other devices
	} {
		if _, err := Read(c.name); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("Read(%q) returns the error %v, want %s", c.name, err, c.want)
		}
	}
}
