// Package filelock implements locks that one process at a time can hold. A file represents the
// lock. The operating system releases a lock when its process ends, so the lock of a killed process
// never blocks another one.
//
// Between machines that share a folder, a lock works if the file system supports flock: NFS
// supports it since version 4, and in version 3 if lockd runs on client and server, unless
// mounted with nolock or local_lock; Lustre needs the mount option flock.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"time"

	"hvae/bench/atomicfile"
)

// ErrInUse is returned by Take if another process holds the lock.
var ErrInUse = errors.New("in use by another process")

// A Lock is held until Release is called or the process ends.
type Lock struct{ file *os.File }

// patience is the time for which Take retries. The lock may be held briefly by a call of the
// function Held in another process, or by a killed process that has not exited yet.
const patience = 500 * time.Millisecond

// Take acquires the lock that the file represents, creating the file if necessary. If another
// process holds the lock, Take returns ErrInUse and changes nothing. The file is never removed,
// because a process that has opened it could then hold a lock on a file that others cannot find.
func Take(name string) (*Lock, error) {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 20) {
		l, err := try(name)
		if err != ErrInUse || time.Now().After(end) {
			return l, err
		}
	}
}

// Held reports whether a process holds the lock. It does not create the file.
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

// try acquires the lock, or returns ErrInUse at once.
func try(name string) (*Lock, error) {
	switch f, err := open(name); err {
	case nil:
		return &Lock{f}, nil
	case ErrInUse:
		return nil, ErrInUse
	default:
		return nil, fmt.Errorf("cannot lock %w", atomicfile.Named(name, err))
	}
}

// Moved reports whether the lock's path no longer names the locked file, because the file or a
// folder above it was moved, replaced or removed. It also returns the current path of the
// file, if the file still exists and the operating system reports its path (Linux does).
func (l *Lock) Moved() (now string, moved bool) {
	locked, _ := l.file.Stat()
	isAt := func(path string) bool {
		found, err := os.Stat(path)
		return err == nil && os.SameFile(locked, found)
	}
	if isAt(l.file.Name()) {
		return "", false
	}
	now, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", l.file.Fd()))
	if !isAt(now) {
		now = ""
	}
	return now, true
}

// Release releases the lock. A second call does nothing.
func (l *Lock) Release() { l.file.Close() }
