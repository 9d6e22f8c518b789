package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// In this test, half of the work was finished earlier, and the rest takes 200 s.
func TestALineAppearsAfterASecondAndThenLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := New(&b, 0.5, func(elapsed time.Duration) string { return elapsed.String() })
		time.Sleep(time.Second)
		l.Set(0.5) // prints nothing, because the remaining time is unknown
		for seconds := 1; seconds <= 200; seconds++ {
			l.Set(0.5 + float64(seconds)/400)
			time.Sleep(time.Second)
		}
		want := "50 % 1s 3m19s left; 50 % 2s 3m18s left; 51 % 4s 3m16s left; 52 % 8s 3m12s left; 54 % 16s 3m4s left; " +
			"58 % 32s 2m48s left; 66 % 1m4s 2m16s left; 81 % 2m4s 1m16s left; 96 % 3m4s 16s left"
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		for i, line := range lines {
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		if got := strings.Join(lines, "; "); got != want {
			t.Errorf("the lines are %s, want %s", got, want)
		}
	})
}
