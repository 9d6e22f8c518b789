package hvaetest

import (
	"fmt"
	"strings"
	"sync"

	"hvae/hvae/internal/streams"
)

// A StreamKey is what names a random stream (hvae.Stream).
type StreamKey struct {
	Seed    uint64
	Purpose string
	Index   []int
}

// String returns the key as "purpose 1 2, seed 3".
func (k StreamKey) String() string {
	return fmt.Sprintf("%s, seed %d", strings.TrimSpace(k.Purpose+" "+strings.Trim(fmt.Sprint(k.Index), "[]")), k.Seed)
}

// RecordStreams does work and returns the keys of all streams that it began, a key for each
// time. Their order is that of the goroutines, which is not always the same. There can be one
// recording at a time, and it hears whatever goes on beside work, too.
func RecordStreams(work func()) (keys []StreamKey) {
	var mu sync.Mutex
	record := func(seed uint64, purpose string, index []int) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, StreamKey{seed, purpose, index})
	}
	if !streams.Recorder.CompareAndSwap(nil, &record) {
		panic("hvaetest: streams are being recorded already")
	}
	defer streams.Recorder.Store(nil)
	work()
	return keys
}
