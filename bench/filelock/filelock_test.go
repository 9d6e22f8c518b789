package filelock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// If the environment variable FILELOCK_TEST_HOLD contains the name of a file, TestMain holds the lock
// on this file instead of running the tests.
func TestMain(m *testing.M) {
	if name := os.Getenv("FILELOCK_TEST_HOLD"); name != "" {
		l, err := Take(name)
		fmt.Println(err)
		time.Sleep(time.Hour)
		l.Release()
	}
	os.Exit(m.Run())
}

// hold starts a process that calls Take for the named file. It returns a function that kills the
// process, and a line of text with the error that Take returned.
func hold(t *testing.T, name string) (kill func(), takeErr string) {
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
	takeErr, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return kill, takeErr
}

func TestOneProcessHoldsALockUntilItEnds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	held := func(want bool) {
		t.Helper()
		if got, err := Held(name); got != want || err != nil {
			t.Errorf("Held returns %v (error %v), want %v", got, err, want)
		}
	}
	held(false)
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Held created the file (error %v)", err)
	}

	kill, takeErr := hold(t, name)
	if takeErr != "<nil>\n" {
		t.Fatalf("the first process could not take the lock: %s", takeErr)
	}
	held(true)
	if _, err := Take(name); !errors.Is(err, ErrInUse) {
		t.Errorf("while another process holds the lock, Take returns the error %v, want ErrInUse", err)
	}
	kill()

	held(false)
	l, err := Take(name)
	if err != nil {
		t.Fatalf("after the process with the lock was killed, Take returns the error %v, want nil", err)
	}
	held(true)
	if _, takeErr := hold(t, name); takeErr != ErrInUse.Error()+"\n" {
		t.Errorf("in a second process, Take returns the error %s, want ErrInUse", takeErr)
	}
	l.Release()
	l.Release()
	held(false)
}

// Held takes the lock for a moment. If another process calls Take at that moment, Take must wait instead
// of returning ErrInUse.
func TestTakeWaitsForALockThatIsHeldForAMoment(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, err := Take(name)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(patience / 5)
		first.Release()
	}()
	second, err := Take(name)
	if err != nil {
		t.Fatalf("Take returns %v although the lock was released within its patience", err)
	}
	second.Release()
}

func TestTakeInAMissingFolderReturnsItsError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing", "lock")
	if _, err := Take(name); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrInUse) {
		t.Errorf("in a missing folder, Take returns the error %v, want os.ErrNotExist", err)
	}
}

func TestMovedReportsWhetherTheFileIsStillAtItsPath(t *testing.T) {
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
	want := func(l *Lock, want bool) {
		t.Helper()
		if moved := l.Moved(); moved != want {
			t.Errorf("Moved returns %v, want %v", moved, want)
		}
	}
	want(first, false)
	if err := os.Rename(dir, old); err != nil {
		t.Skip("this system cannot move a folder with an open file: ", err)
	}
	want(first, true)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	second, err := Take(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	want(first, true)
	want(second, false)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	want(second, true)
	if err := os.Rename(old, dir); err != nil {
		t.Fatal(err)
	}
	want(first, false)
}
