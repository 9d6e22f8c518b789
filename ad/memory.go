package ad

import "hvae/linalg"

// An arena hands out slices of large chunks and takes all of them back at once.
type arena[T linalg.Float] struct {
	chunks [][]T
	chunk  int // the one in use
	used   int // elements of it
}

const (
	firstChunk = 1 << 10 // elements; each further chunk is twice as large
	lastChunk  = 1 << 18 // up to this size
	lane       = 64 / 4  // elements in a cache line, so that no two slices share one
)

// reset takes everything back.
func (a *arena[T]) reset() {
	a.chunk, a.used = 0, 0
}

// alloc returns n elements, arbitrary ones.
func (a *arena[T]) alloc(n int) []T {
	size := (n + lane - 1) / lane * lane
	for ; a.chunk < len(a.chunks); a.chunk, a.used = a.chunk+1, 0 {
		if c := a.chunks[a.chunk]; a.used+size <= len(c) {
			s := c[a.used : a.used+n : a.used+n]
			a.used += size
			return s
		}
	}
	a.chunks = append(a.chunks, make([]T, max(size, min(firstChunk<<len(a.chunks), lastChunk))))
	a.used = size
	return a.chunks[a.chunk][:n:n]
}
