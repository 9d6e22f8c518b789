package hvaetest

import (
	"fmt"
	"strings"
	"sync"

	"hvae/hvae/internal/streams"
)

// A StreamKey is the key of a random stream. See hvae.Stream.
type StreamKey struct {
	Seed    uint64
	Purpose string
	Index   []int
}

// String returns a description such as "purpose 1 2, seed 3".
func (k StreamKey) String() string {
	return fmt.Sprintf("%s, seed %d", strings.TrimSpace(k.Purpose+" "+strings.Trim(fmt.Sprint(k.Index), "[]")), k.Seed)
}

// RecordStreams calls work and returns the keys of all streams that are created until it
// returns, by any goroutine. A key that is used twice appears twice. If work uses several
// goroutines, the order varies. RecordStreams panics if another call is running.
func RecordStreams(work func()) (keys []StreamKey) {
	var mu sync.Mutex
	record := func(seed uint64, purpose string, index []int) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, StreamKey{seed, purpose, index})
	}
	if !streams.Recorder.CompareAndSwap(nil, &record) {
		panic("hvaetest: another RecordStreams is running")
	}
	defer streams.Recorder.Store(nil)
	work()
	return keys
}
