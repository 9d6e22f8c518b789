//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPipesAreNeitherReadNorReplaced(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	_, err := Open(name)
	_, errRead := Read(name, 1)
	for _, err := range []error{err, errRead, Write(name, nil)} {
		if err == nil || !strings.Contains(err.Error(), name+" is a pipe, not a file") {
			t.Errorf("for a pipe, the error is %v, want \"is a pipe, not a file\"", err)
		}
	}
}

func TestWriteAppliesTheUmask(t *testing.T) {
	for mask, want := range map[int]os.FileMode{0o022: 0o644, 0o077: 0o600, 0o002: 0o664} {
		old := syscall.Umask(mask)
		name := filepath.Join(t.TempDir(), "file")
		err := Write(name, nil)
		syscall.Umask(old)
		if s, errStat := os.Stat(name); err != nil || errStat != nil || s.Mode() != want {
			t.Errorf("with the umask %03o, the mode of the file is %v (errors %v and %v), want %v", mask, s.Mode(), err, errStat, want)
		}
	}
}
