// Package streams lets hvaetest see which random streams hvae is asked for.
//
// The package imports the standard library only.
package streams

import "sync/atomic"

// Recorder, if it is not nil, is told the key of every stream. It is called from several
// goroutines at once, and index is its own.
var Recorder atomic.Pointer[func(seed uint64, purpose string, index []int)]
