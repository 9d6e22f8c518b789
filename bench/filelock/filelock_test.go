package filelock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestMain lets the test binary be another process that takes a lock and keeps it.
func TestMain(m *testing.M) {
	if name := os.Getenv("FILELOCK_TEST_HOLD"); name != "" {
		l, err := Take(name)
		fmt.Println(err)
		time.Sleep(time.Hour)
		l.Release()
	}
	os.Exit(m.Run())
}

// hold starts a process that takes the lock, and returns what Take said there.
func hold(t *testing.T, name string) (kill func(), said string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "FILELOCK_TEST_HOLD="+name)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() { c.Process.Kill(); c.Wait() }
	t.Cleanup(kill)
	said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return kill, said
}

func TestALockBelongsToOneProcessAndEndsWithIt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	held := func(want bool) {
		t.Helper()
		if got, err := Held(name); got != want || err != nil {
			t.Errorf("Held is %v (%v), want %v", got, err, want)
		}
	}
	held(false)
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("asking made the file: %v", err)
	}

	kill, said := hold(t, name)
	if said != "<nil>\n" {
		t.Fatalf("the first process could not take the lock: %s", said)
	}
	held(true)
	if _, err := Take(name); !errors.Is(err, ErrInUse) {
		t.Errorf("Take beside another process returns %v, want ErrInUse", err)
	}
	kill()

	held(false)
	l, err := Take(name)
	if err != nil {
		t.Fatalf("a killed process keeps its lock: %v", err)
	}
	held(true)
	if _, said := hold(t, name); said != ErrInUse.Error()+"\n" {
		t.Errorf("another process takes the lock, too: %s", said)
	}
	l.Release()
	l.Release()
	held(false)
}

func TestALockThatCannotBeMadeSaysWhich(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing", "lock")
	if _, err := Take(name); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrInUse) {
		t.Errorf("Take in a folder that is not there returns %v", err)
	}
}

func TestAMovedLockIsNoticed(t *testing.T) {
	parent := t.TempDir()
	dir, old := filepath.Join(parent, "dir"), filepath.Join(parent, "old")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	first, err := Take(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()
	want := func(l *Lock, want bool, where string) {
		t.Helper()
		if now, moved := l.Moved(); moved != want || now != where && runtime.GOOS == "linux" {
			t.Errorf("Moved returns %q, %v; want %q, %v", now, moved, where, want)
		}
	}
	want(first, false, "")
	if err := os.Rename(dir, old); err != nil {
		t.Skip("a folder with an open file cannot be moved here: ", err)
	}
	want(first, true, filepath.Join(old, "lock"))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	second, err := Take(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	want(first, true, filepath.Join(old, "lock"))
	want(second, false, "")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	want(second, true, "")
	if err := os.Rename(old, dir); err != nil {
		t.Fatal(err)
	}
	want(first, false, "")
}
