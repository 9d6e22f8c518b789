package progress

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"
)

// terminal returns the two ends of a pseudoterminal with the given width in columns.
func terminal(t *testing.T, columns uint16) (user, program *os.File) {
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
	control(syscall.TIOCSWINSZ, unsafe.Pointer(&size{columns: columns}))
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system has no pseudoterminals: ", err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

func TestTheLineFitsTheTerminal(t *testing.T) {
	for _, c := range []struct {
		columns                 uint16
		variable, term, noColor string
		most                    int // length of the line; 0 for a line without control characters
	}{
		{40, "200", "xterm", "", 39},
		{10, "200", "xterm", "", 9},
		{500, "40", "xterm", "", 499},
		{0, "50", "xterm", "", 49}, // the terminal reports no width
		{0, "wide", "xterm", "", 79},
		{0, "-5", "xterm", "", 79},
		{40, "", "dumb", "", 0},
		{40, "", "xterm", "1", 0},
	} {
		t.Setenv("COLUMNS", c.variable)
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColor)
		user, program := terminal(t, c.columns)
		l := New(program, func(time.Duration) string { return strings.Repeat("ε", 600) })
		l.last = l.last.Add(-time.Minute)
		l.start = l.start.Add(-10 * time.Second)
		l.Set(0.5)
		program.Close()
		b, _ := io.ReadAll(user) // the error reports that program is closed
		line, live := strings.CutPrefix(string(b), "\r\x1b[K")
		if c.most == 0 {
			if strings.Contains(line, "\x1b") || !strings.HasSuffix(line, "10s left\r\n") {
				t.Errorf("%+v: printed %q, want a line without control characters", c, line)
			}
			continue
		}
		if !live || strings.Contains(line, "\n") || utf8.RuneCountInString(line) != c.most || c.most > 20 && !strings.HasSuffix(line, "  10s left") {
			t.Errorf("%+v: printed a line of %d characters: %q", c, utf8.RuneCountInString(line), line)
		}
	}
}
