// Package atomicfile writes files that a crash cannot leave half-written, and reads regular
// files only.
//
// The package imports the standard library only.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Write writes data to a regular file so that a crash leaves the old file or the new one:
// to a temporary file in the same folder, synced, then renamed. The umask applies. Write
// refuses to replace a symbolic link, a pipe, a device or a folder.
func Write(name string, data []byte) error {
	return WriteIf(func() error { return nil }, name, data)
}

// WriteIf is Write, but calls allowed just before it renames the temporary file. If allowed
// returns an error, WriteIf returns the error and leaves the old file.
func WriteIf(allowed func() error, name string, data []byte) (err error) {
	if s, err := os.Lstat(name); err == nil && !s.Mode().IsRegular() {
		return notRegular(name, s.Mode())
	}
	f, err := createTemporary(name)
	if err != nil {
		return Named(name, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = Named(name, err)
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = allowed(); err != nil {
		return err
	}
	return patiently(func() error { return rename(f.Name(), name) })
}

// Open opens a regular file for reading. It refuses anything else, as a pipe would block
// and a device may never end.
func Open(name string) (f *os.File, err error) {
	s, err := os.Stat(name)
	if err != nil {
		return nil, Named(name, err)
	}
	if !s.Mode().IsRegular() {
		return nil, notRegular(name, s.Mode())
	}
	if err = patiently(func() error { f, err = os.Open(name); return err }); err != nil {
		return nil, Named(name, err)
	}
	if s, err = f.Stat(); err == nil && !s.Mode().IsRegular() { // replaced since the first look
		err = notRegular(name, s.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read returns the contents of a regular file of at most limit bytes.
func Read(name string, limit int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, Named(name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes, the most that is read of such a file", name, limit)
	}
	return b, nil
}

// notRegular returns the error for a file of another kind.
func notRegular(name string, mode fs.FileMode) error {
	kind := "a device"
	switch {
	case mode.IsDir():
		kind = "a folder"
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return fmt.Errorf("%s is %s, not a file", name, kind)
}

// Named returns the cause of a file system's error with name instead of the operation and
// the path, which may be a temporary file's.
func Named(name string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s: %w", name, err)
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

// A temporary file's name is the file's with a prefix, then digits and a suffix.
const temporarySuffix = ".tmp"

func temporaryPrefix(name string) string { return "." + filepath.Base(name) + "-" }

// createTemporary creates a temporary file for Write beside the file with the given name.
func createTemporary(name string) (f *os.File, err error) {
	for {
		path := filepath.Join(filepath.Dir(name), fmt.Sprintf("%s%d%s", temporaryPrefix(name), rand.Uint64(), temporarySuffix))
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Clean removes the temporary files that Write leaves behind if the program is killed while
// it writes a file. No process may be writing that file.
func Clean(name string) error {
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	for _, e := range entries {
		digits, temporary := strings.CutPrefix(e.Name(), temporaryPrefix(name))
		digits, suffixed := strings.CutSuffix(digits, temporarySuffix)
		if temporary && suffixed && strings.Trim(digits, "0123456789") == "" {
			if err := os.Remove(filepath.Join(filepath.Dir(name), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
