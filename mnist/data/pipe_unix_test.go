//go:build unix

package data

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLoadDoesNotBlockOnAPipe(t *testing.T) {
	for _, name := range []string{"", "own"} {
		folder := t.TempDir()
		pipe := filepath.Join(folder, trainImages.name)
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Skip(err)
		}
		if _, err := Load(t.Context(), folder, name, nil); err == nil || !strings.Contains(err.Error(), pipe+" is a pipe, not a file") {
			t.Errorf("dataset %q: Load returns the error %v, want \"is a pipe, not a file\"", name, err)
		}
	}
}
