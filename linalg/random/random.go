// Package random provides random streams. Each stream is determined by a key, which consists of a seed,
// a purpose (such as "mnist shuffle") and indices. If each task of a parallel program uses a separate stream,
// the results do not depend on the order in which tasks run.
package random

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"hvae/linalg"
)

// Stream returns the random stream for a key. Streams for different keys are independent.
func Stream(seed uint64, purpose string, index ...int) *rand.Rand {
	return new(Keyed).Reset(seed, purpose, index...)
}

// Keyed is a random stream that Reset restarts with another key, without allocating memory. Rand is nil
// before the first Reset. A Keyed is not safe for concurrent use.
type Keyed struct {
	*rand.Rand
	pcg rand.PCG
	key []byte
}

// Reset sets k to the start of the stream that Stream returns for the same key. It returns k.Rand.
func (k *Keyed) Reset(seed uint64, purpose string, index ...int) *rand.Rand {
	k.key = binary.LittleEndian.AppendUint64(k.key[:0], seed)
	k.key = binary.LittleEndian.AppendUint64(k.key, uint64(len(index)))
	for _, i := range index {
		k.key = binary.LittleEndian.AppendUint64(k.key, uint64(i))
	}
	k.key = append(k.key, purpose...)
	if record := recorder.Load(); record != nil {
		(*record)(Key{seed, purpose, slices.Clone(index)}) // because of the copy, index itself does not escape to the heap
	}
	h := sha256.Sum256(k.key)
	k.pcg.Seed(binary.LittleEndian.Uint64(h[:8]), binary.LittleEndian.Uint64(h[8:16]))
	if k.Rand == nil {
		k.Rand = rand.New(&k.pcg)
	}
	return k.Rand
}

// A Key identifies a random stream.
type Key struct {
	Seed    uint64
	Purpose string
	Index   []int
}

// recorder points to the function that Reset calls with each key, or is nil.
var recorder atomic.Pointer[func(Key)]

// Record calls f and returns the keys of all streams that any goroutine starts during this call. If
// several goroutines start streams, the order of the keys varies. Record is for tests. It panics if
// another call to Record is in progress.
func Record(f func()) (keys []Key) {
	var mu sync.Mutex
	record := func(k Key) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, k)
	}
	if !recorder.CompareAndSwap(nil, &record) {
		panic("random: another Record is running")
	}
	defer recorder.Store(nil)
	f()
	return keys
}

// FillNormal fills m with independent draws from N(0, 1).
func FillNormal[T linalg.Float](rng *rand.Rand, m linalg.Matrix[T]) {
	for i := range m.Data {
		m.Data[i] = T(rng.NormFloat64())
	}
}

// FillNormalColumn fills column j of m with independent draws from N(0, 1).
func FillNormalColumn[T linalg.Float](rng *rand.Rand, m linalg.Matrix[T], j int) {
	for i := range m.Rows {
		m.Data[i*m.Cols+j] = T(rng.NormFloat64())
	}
}
