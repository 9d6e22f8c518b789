package ad

import "hvae/linalg"

// An arena allocates slices from large chunks and frees all of them at once.
type arena[T linalg.Float] struct {
	chunks [][]T
	next   int // index of the first unused chunk
	free   []T // unused elements of the chunk before it
}

const (
	firstChunk = 1 << 10 // elements; each further chunk is twice as large,
	lastChunk  = 1 << 18 // but at most this large
	line       = 64 / 4  // elements in a cache line, so that no two slices share a line
)

// reset frees all slices.
func (a *arena[T]) reset() { a.next, a.free = 0, nil }

// alloc returns n arbitrary elements.
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
