package progress

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// pseudoterminal returns the two ends of a pseudoterminal.
func pseudoterminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this system has no pseudoterminals: ", err)
	}
	t.Cleanup(func() { user.Close() })
	control := func(request uintptr, p unsafe.Pointer) {
		t.Helper()
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, user.Fd(), request, uintptr(p)); errno != 0 {
			t.Skip("this system has no pseudoterminals: ", errno)
		}
	}
	var lock, number int32
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&lock))
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system has no pseudoterminals: ", err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

func TestATerminalCutsTheLineUnlessItIsDumb(t *testing.T) {
	status := strings.Repeat("ε", 300)
	cut := "\r\x1b[K\x1b[?7l 50 %  10s left  " + status + "\x1b[?7h" // ESC [?7l disables line wrapping, and ESC [?7h enables it
	for terminal, want := range map[string]string{"xterm": cut, "dumb": " 50 %  " + status + "  10s left\r\n"} {
		t.Setenv("TERM", terminal)
		user, program := pseudoterminal(t)
		l := New(program, 0, func(time.Duration) string { return status })
		l.last = l.last.Add(-time.Minute)
		l.start = l.start.Add(-10 * time.Second)
		l.Set(0.5)
		program.Close()
		if b, _ := io.ReadAll(user); string(b) != want { // the error reports that program is closed
			t.Errorf("TERM is %q: printed %q, want %q", terminal, b, want)
		}
	}
}
