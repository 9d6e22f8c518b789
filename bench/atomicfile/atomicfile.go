// Package atomicfile writes files that a crash cannot leave half-written, and reads files
// that are files.
//
// The package imports the standard library only.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Write writes data to a file so that a crash leaves the old file or the new one:
// to a temporary file in the same folder, synced, then renamed.
func Write(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), prefix(name)+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return patiently(func() error { return rename(f.Name(), name) })
}

// Open opens a regular file for reading. Anything else is refused before it is opened: a
// pipe would block, and a device may never end.
func Open(name string) (f *os.File, err error) {
	s, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !s.Mode().IsRegular() {
		kind := "a device"
		switch {
		case s.IsDir():
			kind = "a folder"
		case s.Mode()&os.ModeNamedPipe != 0:
			kind = "a pipe"
		case s.Mode()&os.ModeSocket != 0:
			kind = "a socket"
		}
		return nil, fmt.Errorf("%s is %s, not a file", name, kind)
	}
	err = patiently(func() error { f, err = os.Open(name); return err })
	return f, err
}

// patiently tries again for a while if another process is in the way.
func patiently(try func() error) error {
	const most = 100 * time.Millisecond
	start := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, most) {
		err := try()
		if err == nil || !inUse(err) || time.Since(start) > patience {
			return err
		}
		time.Sleep(wait)
	}
}

const patience = 5 * time.Second

// Tests put others in their place.
var (
	rename = os.Rename
	inUse  = inUseOnWindows
)

// inUseOnWindows tells the errors of Windows for a file that another process has open:
// ERROR_ACCESS_DENIED and ERROR_SHARING_VIOLATION. Elsewhere files may be replaced at any
// time.
func inUseOnWindows(err error) bool {
	return runtime.GOOS == "windows" && (errors.Is(err, syscall.Errno(5)) || errors.Is(err, syscall.Errno(32)))
}

// Clean removes the temporary files that Write leaves behind if the program is killed in
// the middle of writing a file. Nobody may be writing that file meanwhile.
func Clean(name string) error {
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix(name)) {
			if err := os.Remove(filepath.Join(filepath.Dir(name), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// prefix begins the names of a file's temporary files.
func prefix(name string) string { return "." + filepath.Base(name) + "-" }
