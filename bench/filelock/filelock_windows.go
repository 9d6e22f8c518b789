package filelock

import (
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// lock locks a file, or returns ErrInUse if the file is already locked. Closing the file releases the lock.
func lock(f *os.File) error {
	const exclusive, failImmediately, violation = 2, 1, syscall.Errno(33)
	locked, _, err := lockFileEx.Call(f.Fd(), exclusive|failImmediately, 0, 1, 0, uintptr(unsafe.Pointer(new(syscall.Overlapped))))
	switch {
	case locked != 0:
		return nil
	case err == violation:
		return ErrInUse
	}
	return os.NewSyscallError("LockFileEx", err)
}
