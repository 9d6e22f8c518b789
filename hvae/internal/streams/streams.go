// Package streams records the random streams that hvae creates, for package hvaetest.
package streams

import "sync/atomic"

// Recorder, if not nil, points to a function that hvae calls with the key of every new stream.
// The function must be safe for concurrent use, and may keep index.
var Recorder atomic.Pointer[func(seed uint64, purpose string, index []int)]
