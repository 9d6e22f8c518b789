package ad

import "hvae/linalg"

// An arena hands out slices of large chunks and takes all of them back at once.
type arena[T linalg.Float] struct {
	chunks [][]T
	next   int // the first that is not in use
	free   []T // what is left of the one before
}

const (
	firstChunk = 1 << 10 // elements; each further chunk is twice as large
	lastChunk  = 1 << 18 // up to this size
	line       = 64 / 4  // elements in a cache line, so that no two slices share one
)

// reset takes everything back.
func (a *arena[T]) reset() { a.next, a.free = 0, nil }

// alloc returns n elements, arbitrary ones.
func (a *arena[T]) alloc(n int) []T {
	size := (n + line - 1) &^ (line - 1)
	for size > len(a.free) {
		if a.next == len(a.chunks) {
			a.chunks = append(a.chunks, make([]T, max(size, min(firstChunk<<len(a.chunks), lastChunk))))
		}
		a.free = a.chunks[a.next]
		a.next++
	}
	s := a.free[:n:n]
	a.free = a.free[size:]
	return s
}
