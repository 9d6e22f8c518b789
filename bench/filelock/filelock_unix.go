//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filelock

import (
	"os"
	"syscall"
)

// open opens the file and locks it, or returns ErrInUse. Closing the file releases the lock. NFS
// requires write access for an exclusive lock.
func open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if err == syscall.EWOULDBLOCK {
		return nil, ErrInUse
	}
	return nil, os.NewSyscallError("flock", err)
}
