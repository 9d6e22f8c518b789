//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filelock

import (
	"os"
	"syscall"
)

// lock locks a file until it is closed, or returns ErrInUse. Only shared locks can exist at the same time.
func lock(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH | syscall.LOCK_NB
	if exclusive {
		how = syscall.LOCK_EX | syscall.LOCK_NB
	}
	err := error(syscall.EINTR)
	for err == syscall.EINTR {
		err = syscall.Flock(int(f.Fd()), how)
	}
	if err == syscall.EWOULDBLOCK {
		return ErrInUse
	}
	return os.NewSyscallError("flock "+f.Name(), err)
}
