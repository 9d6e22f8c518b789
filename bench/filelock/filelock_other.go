//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package filelock

import "os"

// lock does nothing, because package syscall does not define Flock for this system.
func lock(*os.File, bool) error { return nil }
