//go:build unix

package atomicfile

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAPipeDoesNotBlock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := Open(name); err == nil || !strings.Contains(err.Error(), name+" is a pipe, not a file") {
		t.Errorf("error %v", err)
	}
}
