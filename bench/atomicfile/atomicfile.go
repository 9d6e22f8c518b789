// Package atomicfile writes files atomically, so that a crash never leaves a partial file. It reads and
// replaces only regular files.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// WriteIn replaces the contents of a regular file in a folder, or creates the file. It writes the data to
// the file named temporary in the same folder, syncs this file and renames it. After a crash, the named file
// has either the old or the new contents, and the temporary file may remain. WriteIn overwrites an existing
// temporary file. If temporary is "", it uses a random name, so that concurrent calls do not collide.
func WriteIn(root *os.Root, temporary, name string, data []byte) error {
	path := filepath.Join(root.Name(), name)
	if s, err := root.Lstat(name); err == nil && !s.Mode().IsRegular() {
		return notRegular(path)
	}
	if temporary == "" {
		temporary = fmt.Sprintf(".%016x.tmp", rand.Uint64()) // short, because name may have the maximum length
	}
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return Named(path, err)
	}
	_, err = f.Write(data)
	for _, step := range []func() error{f.Sync, f.Close, func() error { return root.Rename(temporary, name) }} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		f.Close()
		root.Remove(temporary)
		return Named(path, err)
	}
	return nil
}

// Open opens a regular file for reading.
func Open(name string) (*os.File, error) {
	if err := check(name, name, 1<<62, os.Stat); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, Named(name, err)
	}
	return f, nil
}

// Read returns the contents of a regular file. It returns an error if the file is longer than limit bytes.
func Read(name string, limit int64) ([]byte, error) {
	return read(name, name, limit, os.Stat, os.ReadFile)
}

// ReadIn is like Read, but reads a file in a folder.
func ReadIn(root *os.Root, name string, limit int64) ([]byte, error) {
	return read(filepath.Join(root.Name(), name), name, limit, root.Stat, root.ReadFile)
}

func read(path, name string, limit int64, stat func(string) (fs.FileInfo, error), readFile func(string) ([]byte, error)) ([]byte, error) {
	if err := check(path, name, limit, stat); err != nil {
		return nil, err
	}
	b, err := readFile(name)
	if err != nil {
		return nil, Named(path, err)
	}
	return b, nil
}

// check returns an error unless stat reports a regular file of at most limit bytes. Reading a pipe may block,
// and reading a device may never end.
func check(path, name string, limit int64, stat func(string) (fs.FileInfo, error)) error {
	s, err := stat(name)
	switch {
	case err != nil:
		return Named(path, err)
	case !s.Mode().IsRegular():
		return notRegular(path)
	case s.Size() > limit:
		return fmt.Errorf("%s cannot be read: it has %d bytes, more than the limit of %d", path, s.Size(), limit)
	}
	return nil
}

func notRegular(path string) error { return fmt.Errorf("%s is not a regular file", path) }

// Named returns err prefixed with name. It omits the operation and the path of a file system error, because
// the path may belong to a temporary file.
func Named(name string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
