// Package atomicfile writes files atomically, so that a crash never leaves a partial file. It reads and replaces only
// regular files.
package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// Write replaces the contents of a regular file, or creates the file. It is safe for concurrent use.
func Write(name string, data []byte) error {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return Named(name, err)
	}
	defer root.Close()
	return WriteIn(root, "", filepath.Base(name), data)
}

// WriteIn replaces the contents of a regular file in a folder, or creates the file. It writes the data to a temporary
// file in the same folder, syncs this file and renames it. After a crash, the file has either the old or the new
// contents, and the temporary file may remain. The argument temporary is the name of the temporary file, which WriteIn
// overwrites. If it is "", WriteIn uses a random name, so that concurrent calls do not collide.
func WriteIn(root *os.Root, temporary, name string, data []byte) error {
	path := filepath.Join(root.Name(), name)
	if s, err := root.Lstat(name); err == nil && !s.Mode().IsRegular() {
		return notRegular(path)
	}
	temporary = cmp.Or(temporary, fmt.Sprintf(".%016x.tmp", rand.Uint64())) // short, as name may have the maximum length
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return Named(path, err)
	}
	_, err = f.Write(data)
	if err = cmp.Or(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		root.Remove(temporary)
		return Named(path, err)
	}
	return nil
}

// Read returns the contents of a regular file.
func Read(name string) ([]byte, error) { return read(name, name, os.Stat, os.ReadFile) }

// ReadIn is like Read, but reads a file in a folder.
func ReadIn(root *os.Root, name string) ([]byte, error) {
	return read(filepath.Join(root.Name(), name), name, root.Stat, root.ReadFile)
}

// read reads only regular files, because reading a pipe may block, and reading a device may never end.
func read(path, name string, stat func(string) (os.FileInfo, error), file func(string) ([]byte, error)) ([]byte, error) {
	if s, err := stat(name); err == nil && !s.Mode().IsRegular() {
		return nil, notRegular(path)
	}
	b, err := file(name)
	if err != nil {
		return nil, Named(path, err)
	}
	return b, nil
}

func notRegular(path string) error { return fmt.Errorf("%s is not a regular file", path) }

// Named returns the system's error in err with the given file name as a prefix. It omits the path in err, which may
// belong to a temporary file.
func Named(name string, err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		err = e
	}
	return fmt.Errorf("%s: %w", name, err)
}
