package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestWriteReplacesTheFileOrKeepsItsContents(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "figure.svg")
	for _, content := range []string{"first, and longer", "second"} {
		if err := Write(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("the file contains %q (error %v), want %q", got, err, content)
		}
	}
	missing := filepath.Join(dir, "missing", "figure.svg")
	if err := Write(missing, nil); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), missing+": ") {
		t.Errorf("for a missing folder, Write returns the error %v, want os.ErrNotExist with the path", err)
	}
	folder, link := filepath.Join(dir, "folder"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(folder, 0o755), os.Symlink(name, link)); err != nil {
		t.Skip(err)
	}
	for name, want := range map[string]string{folder: folder + " is a folder, not a file", link: link + " is a symbolic link, not a file"} {
		if err := Write(name, []byte("x")); err == nil || err.Error() != want {
			t.Errorf("Write returns the error %v, want %s", err, want)
		}
	}
	// If the rename fails, Write must remove the temporary file and must not mention it in the
	// error.
	defer func() { rename = os.Rename }()
	rename = func(from, to string) error {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: os.ErrPermission}
	}
	if err := Write(name, nil); err == nil || err.Error() != name+": permission denied" {
		t.Errorf("after a failed rename, Write returns the error %v, want one with only the destination", err)
	}
	rename = os.Rename
	refusal := errors.New("not allowed now")
	if err := WriteIf(func() error { return refusal }, name, nil); !errors.Is(err, refusal) {
		t.Errorf("if check returns the error %v, WriteIf returns %v, want the same error", refusal, err)
	}
	// The temporary file must be complete when WriteIf calls check.
	complete := func() error {
		names, err := filepath.Glob(filepath.Join(dir, ".figure.svg-*.tmp"))
		if err != nil || len(names) != 1 {
			return fmt.Errorf("the temporary files are %v (error %v)", names, err)
		}
		if got, err := os.ReadFile(names[0]); err != nil || string(got) != "second" {
			return fmt.Errorf("the temporary file contains %q (error %v)", got, err)
		}
		return nil
	}
	if err := WriteIf(complete, name, []byte("second")); err != nil {
		t.Errorf("when WriteIf calls check: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("the folder contains %v (error %v), want only figure.svg, folder and link", entries, err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "second" {
		t.Errorf("after failed writes, the file contains %q (error %v), want second", got, err)
	}
}

func TestCleanRemovesOnlyTheTemporaryFilesOfAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd [name")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", ".a-123.tmp", ".a-9.tmp", ".b-1.tmp", ".ab", ".a-backup", ".a-2.tmp.tmp", ".a-1", ".c.d-1.tmp", ".cxd-1.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "c.d"} {
		if err := Clean(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{".a-1", ".a-2.tmp.tmp", ".a-backup", ".ab", ".b-1.tmp", ".cxd-1.tmp", "a", "b"}; !slices.Equal(left, want) {
		t.Errorf("after Clean, the folder contains %v, want %v", left, want)
	}
}

// Windows cannot replace a file that is open in another process. The test simulates the errors that
// os.Rename returns in this case.
func TestWriteRetriesWhileAFileIsInUse(t *testing.T) {
	const accessDenied, sharingViolation = syscall.Errno(5), syscall.Errno(32)
	defer func(w bool) { rename, windows = os.Rename, w }(windows)
	windows = true
	for _, c := range []struct {
		failures int // failed calls to rename before a successful one
		err      error
		want     string // contents of the file
	}{{3, accessDenied, "new"}, {3, sharingViolation, "new"}, {1 << 30, sharingViolation, "old"}, {1, os.ErrInvalid, "old"}} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "state")
			if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			attempts := 0
			rename = func(from, to string) error {
				if attempts++; attempts <= c.failures {
					return c.err
				}
				return os.Rename(from, to)
			}
			err := Write(name, []byte("new"))
			if got, _ := os.ReadFile(name); string(got) != c.want || (err == nil) != (c.want == "new") || !errors.Is(err, c.err) && c.want == "old" {
				t.Errorf("after %d failures with the error %v, the file contains %q and Write returns the error %v, want the contents %q", c.failures, c.err, got, err, c.want)
			}
			if c.err == os.ErrInvalid && attempts != 1 || c.err != os.ErrInvalid && attempts < 4 {
				t.Errorf("after the error %v, Write calls rename %d times, want retries only if the file is in use", c.err, attempts)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("the folder contains %v (error %v), want only the file", entries, err)
			}
		})
	}
}

func TestOpenOpensOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("for a missing file, Open returns the error %v, want os.ErrNotExist", err)
	}
	for _, name := range []string{dir, os.DevNull} {
		if f, err := Open(name); err == nil || err.Error() == "" {
			f.Close()
			t.Errorf("Open(%q) returns no error", name)
		}
	}
	for limit, want := range map[int64]string{1: "x", 0: ""} {
		if b, err := Read(name, limit); string(b) != want || (err == nil) != (limit == 1) {
			t.Errorf("for a file of one byte and the limit %d, Read returns %q and the error %v", limit, b, err)
		}
	}
}
