package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteFileReplacesOrCreatesAFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, strings.Repeat("x", 251)+".svg") // the longest name that most file systems allow
	check := func(want string) {
		t.Helper()
		b, err := os.ReadFile(name)
		entries, _ := os.ReadDir(dir)
		if string(b) != want || err != nil || len(entries) != 1 {
			t.Errorf("the file contains %q (error %v), and the folder %v; want %q and only this file", b, err, entries, want)
		}
	}
	for _, content := range []string{"first, and longer", "second"} {
		if err := WriteFile(name, []byte(content), os.Rename); err != nil {
			t.Fatal(err)
		}
		check(content)
	}
	if err := WriteFile(name, []byte("third"), os.Link); !errors.Is(err, os.ErrExist) {
		t.Errorf("with os.Link, the error for an existing file is %v, want os.ErrExist", err)
	}
	check("second")
	os.Remove(name)
	if err := WriteFile(name, []byte("fourth"), os.Link); err != nil {
		t.Error(err)
	}
	check("fourth")
	if s, err := os.Stat(name); err != nil || s.Mode().Perm()&0o600 != 0o600 {
		t.Errorf("the mode of the file is %v (error %v)", s.Mode(), err)
	}
}

func TestWriteFileReplacesOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		dir:                             "it is not a regular file",
		os.DevNull:                      "it is not a regular file",
		filepath.Join(dir, "none", "x"): "no such file",
	} {
		err := WriteFile(name, nil, os.Rename)
		if err == nil || !strings.HasPrefix(err.Error(), "cannot write "+name+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("the error for %s is %v, want %s", name, err, want)
		}
	}
}

// A process that is killed between the temporary file and its place leaves the old contents, and a file that the pattern
// Temporary matches.
func TestAnInterruptedWriteKeepsTheOldContents(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "state")
	killed := func(temporary, _ string) error {
		b, err := os.ReadFile(temporary)
		matches, _ := filepath.Glob(filepath.Join(dir, Temporary))
		if string(b) != "new" || len(matches) != 1 || matches[0] != temporary {
			t.Errorf("the temporary file contains %q (error %v), and the pattern matches %v", b, err, matches)
		}
		return errors.New("killed")
	}
	if err := errors.Join(os.WriteFile(name, []byte("old"), 0o644), WriteFile(name, []byte("new"), killed)); err == nil {
		t.Error("WriteFile does not return the error of its argument")
	}
	if b, err := os.ReadFile(name); string(b) != "old" {
		t.Errorf("the file contains %q (error %v), want the old contents", b, err)
	}
}
