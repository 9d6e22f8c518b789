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

// If the environment variable FILELOCK_TEST_HOLD contains the name of a folder, TestMain holds a lock in this folder
// instead of running the tests.
func TestMain(m *testing.M) {
	if folder := os.Getenv("FILELOCK_TEST_HOLD"); folder != "" {
		root, err := os.OpenRoot(folder)
		if err == nil {
			_, err = Take(root, "lock")
		}
		fmt.Println(err)
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

// hold starts a process that holds a lock in the folder root. It returns a function that kills the process.
func hold(t *testing.T, root *os.Root) (kill func()) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "FILELOCK_TEST_HOLD="+root.Name())
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() { c.Process.Kill(); c.Wait() }
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "<nil>\n" || err != nil {
		t.Fatalf("in another process, Take returns the error %s (%v)", line, err)
	}
	return kill
}

func TestOneProcessHoldsALockUntilItEnds(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if Held(root, "lock") {
		t.Error("a lock is held before the first call of Take")
	}
	if _, err := root.Stat("lock"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Held created the file (error %v)", err)
	}
	kill := hold(t, root)
	if !Held(root, "lock") {
		t.Error("Held returns false, although another process holds the lock")
	}
	if f, err := Take(root, "lock"); err != ErrInUse || f.Close() == nil {
		t.Errorf("while another process holds the lock, Take returns the error %v, want ErrInUse, and a closed file", err)
	}
	kill()
	for range 2 {
		f, err := Take(root, "lock")
		if err != nil || !Held(root, "lock") {
			t.Fatalf("after the lock was released, Take returns the error %v and Held %v", err, Held(root, "lock"))
		}
		f.Close()
		if Held(root, "lock") {
			t.Error("the lock is held after its file was closed")
		}
	}
	missing := filepath.Join("missing", "lock")
	if _, err := Take(root, missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a missing folder, Take returns the error %v, want os.ErrNotExist", err)
	}
}
