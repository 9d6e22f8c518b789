package progress

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func status(time.Duration) string { return "3 of 7 runs" }

func TestALineAppearsEveryTenSecondsWithTheRemainingTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := New(&b, 0, status)
		for second := 1; second <= 25; second++ {
			time.Sleep(time.Second)
			l.Set(float64(second) / 100)
		}
		l.Clear()
		want := " 10 %  3 of 7 runs  1m30s left\n 20 %  3 of 7 runs  1m20s left\n"
		if b.String() != want {
			t.Errorf("printed %q, want %q", b.String(), want)
		}
	})
}

func TestTheRemainingTimeExcludesEarlierWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := New(&b, 0.5, status)
		time.Sleep(10 * time.Second)
		if l.Set(0.5); b.Len() > 0 {
			t.Errorf("printed %q although no work was done after New", b.String())
		}
		l.Set(0.6) // 0.1 of the work took 10 s, so 0.4 will take 40 s
		if !strings.HasSuffix(b.String(), "40s left\n") {
			t.Errorf("printed %q, want 40s left", b.String())
		}
	})
}

func TestOnATerminalTheLineReplacesItselfAndIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := New(&b, 0, status)
		l.terminal = true
		for range 2 {
			time.Sleep(10 * time.Second)
			l.Set(0.5)
		}
		l.Clear()
		// ESC [K erases the line, ESC [?7l disables line wrapping, and ESC [?7h enables it.
		want := "\r\x1b[K\x1b[?7l 50 %  10s left  3 of 7 runs\x1b[?7h\r\x1b[K\x1b[?7l 50 %  20s left  3 of 7 runs\x1b[?7h\r\x1b[K"
		if b.String() != want {
			t.Errorf("printed %q, want %q", b.String(), want)
		}
	})
}

func TestATerminalIsACharacterDevice(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	file, errFile := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil || errFile != nil {
		t.Fatal(err, errFile)
	}
	for _, c := range []struct {
		w    *os.File
		term string
		want bool
	}{{device, "xterm", true}, {device, "dumb", false}, {file, "xterm", false}} {
		t.Setenv("TERM", c.term)
		if got := New(c.w, 0, status).terminal; got != c.want {
			t.Errorf("%s with TERM=%s is a terminal: %v, want %v", c.w.Name(), c.term, got, c.want)
		}
	}
}
