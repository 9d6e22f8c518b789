// Package atomicfile writes files that a crash cannot leave half-written.
//
// The package imports the standard library only.
package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
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
	return os.Rename(f.Name(), name)
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
