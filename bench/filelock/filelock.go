// Package filelock implements locks between processes. A lock is represented by a file. Only one
// process at a time can hold a lock. The operating system releases a lock when the process that holds
// it ends, so a killed process never blocks another one.
//
// Between machines that share a folder, locks work if the file system supports flock. NFS 4
// supports it. NFS 3 needs lockd on client and server, without the mount options nolock and
// local_lock. Lustre needs the mount option flock.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"time"

	"hvae/bench/atomicfile"
)

// ErrInUse is the error that Take returns if another process holds the lock.
var ErrInUse = errors.New("in use by another process")

// A Lock is a lock that this process holds until it calls Release or ends.
type Lock struct{ file *os.File }

// patience is the maximum time for which Take retries. Another process may hold the lock for a moment
// because it calls Held, or because it was killed and has not exited yet.
const patience = 500 * time.Millisecond

// Take acquires the lock on the named file. It creates the file if necessary. If another process still holds
// the lock after half a second, Take returns ErrInUse. The file is never removed, because otherwise one
// process could hold a lock on the removed file, and another process a lock on a new file with the same name.
func Take(name string) (*Lock, error) {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 20) {
		l, err := try(name)
		if err != ErrInUse || time.Now().After(end) {
			return l, err
		}
	}
}

// Held reports whether a process holds the lock on the named file. It does not create the file.
func Held(name string) (bool, error) {
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	l, err := try(name)
	if err == nil {
		l.Release()
	}
	if err == ErrInUse {
		return true, nil
	}
	return false, err
}

// try acquires the lock like Take, but without retries.
func try(name string) (*Lock, error) {
	f, err := open(name)
	if err != nil && err != ErrInUse {
		err = fmt.Errorf("cannot lock %w", atomicfile.Named(name, err))
	}
	return &Lock{f}, err
}

// Moved reports whether the locked file is no longer at the path given to Take, because the file or a
// folder above it was moved, replaced or removed.
func (l *Lock) Moved() bool {
	locked, err := l.file.Stat()
	found, notFound := os.Stat(l.file.Name())
	return err != nil || notFound != nil || !os.SameFile(locked, found)
}

// Release releases the lock. Further calls do nothing.
func (l *Lock) Release() { l.file.Close() }
