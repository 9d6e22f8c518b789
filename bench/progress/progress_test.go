package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func status(elapsed time.Duration) string { return "status after " + elapsed.String() }

func TestALineAppearsAfterASecondAndThenLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := New(&b, 0, status)
		for half := 1; half <= 400; half++ {
			time.Sleep(time.Second / 2)
			l.Set(float64(half) / 400)
		}
		var times []string
		for line := range strings.Lines(b.String()) {
			_, text, _ := strings.Cut(line, "after ")
			times = append(times, strings.TrimSuffix(text, " left\n"))
		}
		want := "1s  3m19s; 2s  3m18s; 4s  3m16s; 8s  3m12s; 16s  3m4s; 32s  2m48s; 1m4s  2m16s; 2m4s  1m16s; 3m4s  16s"
		if got := strings.Join(times, "; "); got != want {
			t.Errorf("the lines show the elapsed and remaining times %s, want %s", got, want)
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
		if want := " 60 %  status after 10s  40s left\n"; b.String() != want {
			t.Errorf("printed %q, want %q", b.String(), want)
		}
	})
}
