//go:build unix

package command

import "syscall"

const nonblock = syscall.O_NONBLOCK // to open a FIFO without waiting for its writer
