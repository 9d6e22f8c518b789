// Package atomicfile writes files atomically, so that a crash never leaves a partial file. It reads
// and replaces only regular files.
package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// Write replaces the contents of a regular file, or creates the file. It writes a temporary file in
// the same folder, syncs it and renames it. After a crash, the file has either the old or the new
// contents. The permissions of the file are 0o666 before umask. Write returns an error if name is a
// symbolic link, a pipe, a device or a folder.
func Write(name string, data []byte) error {
	return WriteIf(func() error { return nil }, name, data)
}

// WriteIf is like Write, but calls check just before it replaces the file. If check returns an error,
// WriteIf keeps the old contents and returns the error.
func WriteIf(check func() error, name string, data []byte) error {
	if s, err := os.Lstat(name); err == nil && !s.Mode().IsRegular() {
		return notRegular(name, s.Mode())
	}
	temporary := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s-%d.tmp", filepath.Base(name), rand.Uint64()))
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // os.CreateTemp would set the mode 0o600
	if err != nil {
		return Named(name, err)
	}
	write := func() error { _, err := f.Write(data); return err }
	replace := func() error { return retry(func() error { return rename(temporary, name) }) }
	for _, step := range []func() error{write, f.Sync, f.Close, check, replace} {
		if err := step(); err != nil {
			f.Close()
			os.Remove(temporary)
			return Named(name, err)
		}
	}
	return nil
}

// Clean removes the temporary files of processes that were killed while writing the named file. No process
// may write the file concurrently.
func Clean(name string) error {
	entries, err := os.ReadDir(filepath.Dir(name))
	temporary := regexp.MustCompile(`^\.` + regexp.QuoteMeta(filepath.Base(name)) + `-\d+\.tmp$`)
	for _, e := range entries {
		if err == nil && temporary.MatchString(e.Name()) {
			err = os.Remove(filepath.Join(filepath.Dir(name), e.Name()))
		}
	}
	return err
}

// Open opens a regular file for reading. It returns an error for any other kind of file, because
// reading a pipe may block and reading a device may never end.
func Open(name string) (f *os.File, err error) {
	s, err := os.Stat(name)
	if err != nil {
		return nil, Named(name, err)
	}
	if !s.Mode().IsRegular() {
		return nil, notRegular(name, s.Mode())
	}
	if err := retry(func() error { f, err = os.Open(name); return err }); err != nil {
		return nil, Named(name, err)
	}
	return f, nil
}

// Read returns the contents of a regular file. It returns an error if the file is longer than limit bytes.
func Read(name string, limit int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := f.Stat()
	if err != nil {
		return nil, Named(name, err)
	}
	if s.Size() > limit {
		return nil, fmt.Errorf("%s cannot be read: it has %d bytes, more than the limit of %d", name, s.Size(), limit)
	}
	b := make([]byte, s.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, Named(name, err)
	}
	return b, nil
}

// notRegular returns an error such as "x is a folder, not a file".
func notRegular(name string, mode fs.FileMode) error {
	kinds := map[fs.FileMode]string{fs.ModeDir: "a folder", fs.ModeSymlink: "a symbolic link", fs.ModeNamedPipe: "a pipe", fs.ModeSocket: "a socket"}
	return fmt.Errorf("%s is %s, not a file", name, cmp.Or(kinds[mode.Type()], "a device"))
}

// Named returns err prefixed with name. It omits the operation and path of a file system error, because the
// path may belong to a temporary file.
func Named(name string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// retry calls f and returns its error. While another process has the file open (see inUse), retry calls
// f again, for up to about 5 s. The pauses between the calls are 1, 2, 4, …, 64, 100, 100, … ms.
func retry(f func() error) error {
	start := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := f()
		if err == nil || !inUse(err) || time.Since(start) > 5*time.Second {
			return err
		}
		time.Sleep(wait)
	}
}

// Tests set these variables to simulate Windows.
var (
	rename  = os.Rename
	windows = runtime.GOOS == "windows"
)

// inUse reports whether err means that another process has the file open. In this case, Windows returns
// ERROR_ACCESS_DENIED (5) or ERROR_SHARING_VIOLATION (32). Other systems can replace an open file.
func inUse(err error) bool {
	return windows && (errors.Is(err, syscall.Errno(5)) || errors.Is(err, syscall.Errno(32)))
}
