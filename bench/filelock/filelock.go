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
			return nil, fmt.Errorf("cannot lock %s: %w", name, err)
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
		return false, fmt.Errorf("cannot lock %s: %w", name, err)
	}
	return false, f.Close()
}

// Release gives the lock back. A second call does nothing.
func (l *Lock) Release() { l.file.Close() }
