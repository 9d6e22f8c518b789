package progress

import (
	"bytes"
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

func TestOnATerminalTheLineReplacesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := New(&b, 0, status)
		l.terminal = true
		for range 3 {
			time.Sleep(10 * time.Second)
			l.Set(0.5)
		}
		l.Clear()
		if s := b.String(); strings.Contains(s, "\n") || strings.Count(s, "\r\x1b[K") != 4 || !strings.HasSuffix(s, "\r\x1b[K") {
			t.Errorf("printed %q, want three updates of one line, then its erasure", s)
		}
	})
}
