// Package filelock implements locks between processes. A lock is represented by a file. Only one process at a time can
// hold it. The operating system releases the lock when this process ends, so a killed process never blocks another one.
//
// Between machines that share a folder, locks work if the file system supports flock. NFS 4 does. NFS 3 needs lockd on
// client and server, without the mount options nolock and local_lock, and Lustre needs the mount option flock. On
// systems without flock, such as Windows, there are no locks.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hvae/bench/atomicfile"
)

// ErrInUse is the error that Take returns if another process holds the lock.
var ErrInUse = errors.New("in use by another process")

// Take locks the named file in a folder, until the returned file is closed or the process ends. It creates the file if
// necessary. The file is never removed, because otherwise one process could lock the removed file while another process
// locks a new file with the same name.
func Take(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644) // on NFS, an exclusive lock requires a writable file
	if err != nil {
		return nil, fmt.Errorf("cannot lock %w", atomicfile.Named(filepath.Join(root.Name(), name), err))
	}
	if err = lock(f, true); err == ErrInUse { // a call of Held may hold the lock for a moment
		time.Sleep(20 * time.Millisecond)
		err = lock(f, true)
	}
	if err != nil {
		f.Close()
	}
	return f, err
}

// Held reports whether a process holds the lock. It writes nothing.
func Held(root *os.Root, name string) bool {
	f, err := root.Open(name)
	if err == nil {
		err = lock(f, false)
	}
	f.Close()
	return err == ErrInUse
}
