package command

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Temporary is the glob pattern of the names of temporary files. A process that was killed may leave such a file.
const Temporary = ".*.tmp"

// WriteFile writes a regular file. It writes the data to a temporary file in the same folder, syncs this file, and calls
// place, which is os.Rename to replace an existing file, or os.Link to fail if the file exists. After a crash, the file
// has either the old or the new contents.
func WriteFile(name string, data []byte, place func(temporary, name string) error) error {
	if s, err := os.Lstat(name); err == nil && !s.Mode().IsRegular() {
		return fmt.Errorf("cannot write %s: it is not a regular file", name)
	}
	temporary := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%016x.tmp", rand.Uint64()))
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		defer os.Remove(temporary) // os.Rename has removed the name
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
