//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package filelock

import "os"

// lock opens a file. Here there are no locks that end with their process, and one that
// stays behind would be worse than none: it is up to the user that only one runs.
func lock(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
}
