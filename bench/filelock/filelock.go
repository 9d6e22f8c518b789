// Package filelock lets one process at a time own what a file stands for, such as a
// folder. The operating system drops the lock when the process ends, however it ends, so
// a lock that a killed process left never blocks.
//
// Between machines that share a folder the lock holds where the file system passes flock
// on: NFS does from version 4, and with version 3 if lockd runs on both sides; it must
// not be mounted with nolock or local_lock. Lustre needs the mount option flock.
//
// The package imports the standard library only.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrInUse is the error of Take if another process has the lock.
var ErrInUse = errors.New("in use by another process")

// A Lock is held until Release, or until the process ends.
type Lock struct{ file *os.File }

// patience is for how long Take tries: a process that asks who Holds the lock has it for
// a moment, one that is being killed a little longer.
const patience = 500 * time.Millisecond

// Take takes the lock that a file stands for. It makes the file, which stays: if it were
// removed, somebody who has opened it would hold a lock that the next could not see. If
// another process has the lock, Take returns ErrInUse and has changed nothing.
func Take(name string) (*Lock, error) {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 20) {
		f, err := lock(name)
		if err == nil {
			return &Lock{f}, nil
		}
		if !errors.Is(err, ErrInUse) {
			return nil, cannotLock(name, err)
		}
		if time.Now().After(end) {
			return nil, err
		}
	}
}

// Held says whether a process has the lock that a file stands for, and makes no file.
func Held(name string) (bool, error) {
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	f, err := lock(name)
	if errors.Is(err, ErrInUse) {
		return true, nil
	}
	if err != nil {
		return false, cannotLock(name, err)
	}
	return false, f.Close()
}

func cannotLock(name string, err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("cannot lock %s: %w", name, err)
}

// Moved reports whether the file at the lock's path is another one or missing, because it
// or a folder above it was moved, replaced or removed. now is the path of the lock's file,
// if the operating system reports it (as Linux does) and the file still exists.
func (l *Lock) Moved() (now string, moved bool) {
	held, err := l.file.Stat()
	if err == nil {
		there, err := os.Stat(l.file.Name())
		if err == nil && os.SameFile(held, there) {
			return "", false
		}
	}
	now, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", l.file.Fd()))
	if there, err := os.Stat(now); err != nil || !os.SameFile(held, there) {
		now = ""
	}
	return now, true
}

// Release gives the lock back. A second call does nothing.
func (l *Lock) Release() { l.file.Close() }
