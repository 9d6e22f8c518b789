package progress

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// In this test, half of the work was finished earlier, and the rest takes 200 s.
func TestALineAppearsAfterASecondAndThenLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := New(&b, 400, 800, func(rate float64) string { return fmt.Sprint(rate, "/s") })
		time.Sleep(time.Second)
		for range 200 {
			l.Add(2)
			time.Sleep(time.Second)
		}
		want := "50 % 2/s 3m19s left; 50 % 2/s 3m18s left; 51 % 2/s 3m16s left; 52 % 2/s 3m12s left; 54 % 2/s 3m4s left; " +
			"58 % 2/s 2m48s left; 66 % 2/s 2m16s left; 81 % 2/s 1m16s left; 96 % 2/s 16s left"
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		for i, line := range lines {
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		if got := strings.Join(lines, "; "); got != want {
			t.Errorf("the lines are %s, want %s", got, want)
		}
	})
}
