package command

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// ReadFile returns the contents of a file, and information about it. It returns an error at once if the file is not a
// regular file, such as a folder, a device or a FIFO, if it has more than limit bytes, or if it is a Git LFS pointer.
func ReadFile(name string, limit int64) (b []byte, info os.FileInfo, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err = f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	case info.Size() > limit:
		err = fmt.Errorf("it has %d bytes, but should have at most %d", info.Size(), limit)
	default:
		b = make([]byte, info.Size())
		_, err = io.ReadFull(f, b)
	}
	if bytes.HasPrefix(b, []byte("version https://git-lfs.github.com/")) {
		err = errors.New("it is a Git LFS pointer: git lfs pull downloads the file")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return b, info, nil
}

// Gunzip returns the decompressed contents of a gzip file. Like the gunzip command, it ignores zeros at the end of the
// file. It returns an error if the file is damaged or expands to more than limit bytes.
func Gunzip(b []byte, limit int64) ([]byte, error) {
	in, out := bytes.NewReader(b), new(bytes.Buffer)
	out.Grow(len(b) + bytes.MinRead)
	var z gzip.Reader
	for { // a gzip file consists of one or more members
		err := z.Reset(in)
		if err == nil {
			z.Multistream(false)
			_, err = io.Copy(out, io.LimitReader(&z, limit+1-int64(out.Len())))
		}
		if err == nil && int64(out.Len()) > limit {
			err = fmt.Errorf("it expands to more than %d bytes", limit)
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimLeft(b[len(b)-in.Len():], "\x00")) == 0 {
			return out.Bytes(), nil
		}
	}
}

// Temporary is the glob pattern for the names of temporary files. A killed process may leave such a file behind.
var Temporary = "." + strings.Repeat("[0-9a-f]", 16) + ".tmp"

// WriteFile writes data to the file with the given name. An existing file must be a regular file that is not
// write-protected, and its mode stays. WriteFile writes a temporary file in the same folder, syncs it, and calls
// place(temporary, name) to rename or link it. With os.Rename as place, WriteFile replaces an existing file. With
// os.Link, it fails if the file exists. After a crash, the file has either the old or the new contents.
func WriteFile(name string, data []byte, place func(temporary, name string) error) error {
	mode := fs.FileMode(0o666) // before the umask is applied
	old, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err != nil:
	case !old.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	case old.Mode()&0o200 == 0:
		err = errors.New("it is write-protected")
	default:
		mode = old.Mode()
	}
	temporary := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%016x.tmp", rand.Uint64()))
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	}
	if err == nil {
		defer os.Remove(temporary) // has no effect after os.Rename
		if old != nil {
			f.Chmod(mode) // not essential; fails on file systems without modes
		}
		_, err = f.Write(data)
		err = cmp.Or(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = place(temporary, name)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}

// Writable returns an error if WriteFile cannot write the file with the given name. Call Writable before long work. It
// writes an empty temporary file and removes it.
func Writable(name string) error {
	return WriteFile(name, nil, func(_, _ string) error { return nil })
}
