//go:build darwin || freebsd || linux

package progress

import (
	"os"
	"syscall"
	"unsafe"
)

// size is the struct winsize of ioctl_tty(2).
type size struct{ rows, columns, width, height uint16 }

// widthOf returns the width of a terminal in columns.
func widthOf(terminal *os.File) int {
	var s size
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&s)))
	if errno != 0 || s.columns == 0 {
		return columns()
	}
	return int(s.columns)
}
