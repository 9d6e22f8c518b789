package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
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
		if s, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && s.Mode() != 0o644 {
			t.Errorf("the file's mode is %v (%v): others may read it", s.Mode(), err)
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

// Windows does not replace a file while another process has it open. Here that is played.
func TestAFileInUseIsWaitedForAndThenKept(t *testing.T) {
	busy := errors.New("another process has it open")
	defer func() { rename, inUse = os.Rename, inUseOnWindows }()
	inUse = func(err error) bool { return err == busy }
	for _, c := range []struct {
		refusals int
		err      error
		want     string
	}{{3, busy, "new"}, {1 << 30, busy, "old"}, {1, os.ErrInvalid, "old"}} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "state")
			if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			tries := 0
			rename = func(from, to string) error {
				if tries++; tries <= c.refusals {
					return c.err
				}
				return os.Rename(from, to)
			}
			err := Write(name, []byte("new"))
			if got, _ := os.ReadFile(name); string(got) != c.want || (err == nil) != (c.want == "new") || err != nil && err != c.err {
				t.Errorf("refused %d times: the file has %q, error %v", c.refusals, got, err)
			}
			if c.err == os.ErrInvalid && tries != 1 || c.err == busy && tries < 4 {
				t.Errorf("refused with %v: tried %d times", c.err, tries)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("the folder has %v, %v", entries, err)
			}
		})
	}
}

func TestOnlyFilesAreOpened(t *testing.T) {
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
		t.Errorf("a file that is not there: %v", err)
	}
	for _, name := range []string{dir, os.DevNull} {
		if f, err := Open(name); err == nil || err.Error() == "" {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
}
