package ad

import "hvae/linalg"

// An arena allocates slices from large chunks of memory and frees all slices together.
type arena[T linalg.Float] struct {
	chunks [][]T
	next   int // index of the first unused chunk
	free   []T // unused elements of chunk next-1
}

const (
	firstChunk = 1 << 10 // elements in the first chunk; each further chunk is twice as large
	lastChunk  = 1 << 18 // upper limit of this growth, in elements
	line       = 64 / 4  // float32 elements in a cache line; no two slices share a cache line
)

// reset frees all slices and keeps the chunks.
func (a *arena[T]) reset() { a.next, a.free = 0, nil }

// alloc returns a slice of n unspecified elements.
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
