//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filelock

import (
	"os"
	"syscall"
)

// lock locks a file, or returns ErrInUse if the file is already locked. Closing the file releases the lock.
func lock(f *os.File) error {
	err := error(syscall.EINTR)
	for err == syscall.EINTR {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == syscall.EWOULDBLOCK {
		return ErrInUse
	}
	return os.NewSyscallError("flock", err)
}
