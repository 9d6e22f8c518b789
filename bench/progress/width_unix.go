//go:build darwin || freebsd || linux

package progress

import (
	"os"
	"syscall"
	"unsafe"
)

// size is the struct winsize described in ioctl_tty(2).
type size struct{ rows, columns, width, height uint16 }

// widthOf returns the width of a terminal in columns, or 0 if the width is unknown.
func widthOf(terminal *os.File) int {
	var s size
	syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&s)))
	return int(s.columns)
}
