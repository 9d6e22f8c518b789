package ad

import (
	"math/bits"

	"hvae/linalg"
)

// A tape is a stack of variables, whose values are stored in chunks of memory. A top describes which variables and
// which memory are in use. To remove the variables that were added after a top was saved, the tape restores that top.
type top[T linalg.Float] struct {
	n    int // number of variables in use
	next int // index of the first unused chunk
	free []T // unused elements of chunk next-1
}

const (
	firstChunk = 1 << 10 // elements in the first chunk
	doublings  = 8       // number of later chunks that are twice as large as the previous chunk
	line       = 64 / 4  // float32 elements in a cache line; each matrix starts on a new cache line
)

// variable returns a new constant Var at the top of the tape. The caller must set its Value.
func (t *Tape[T]) variable() *Var[T] {
	if t.n == len(t.vars) {
		t.vars = append(t.vars, &Var[T]{tape: t, index: t.n})
	}
	v := t.vars[t.n]
	t.n++
	v.resets, v.live, v.rule = t.resets, false, nil
	return v
}

// alloc returns a slice of n elements with unspecified values.
func (t *Tape[T]) alloc(n int) []T {
	size := (n + line - 1) &^ (line - 1)
	for size > len(t.free) {
		if t.next == len(t.chunks) {
			t.chunks = append(t.chunks, make([]T, max(size, firstChunk<<min(t.next, doublings))))
		}
		t.free = t.chunks[t.next]
		t.next++
	}
	s := t.free[:n:n]
	t.free = t.free[size:]
	return s
}

// A pool holds adjoints that Backward is not using. List i of the pool contains adjoints with memory for 2ⁱ elements.
type pool[T linalg.Float] [bits.UintSize][]*Var[T]

// class returns the pool index for adjoints with n elements: the smallest i with 2ⁱ ≥ n.
func class(n int) int { return bits.Len(uint(max(n, 1) - 1)) }

// get returns a rows × cols variable with unspecified values. No other variable uses its memory.
func (p *pool[T]) get(t *Tape[T], rows, cols int) *Var[T] {
	n := rows * cols
	unused := &p[class(n)]
	if len(*unused) == 0 {
		p.put(&Var[T]{tape: t, Value: linalg.Matrix[T]{Data: make([]T, n, 1<<class(n))}})
	}
	last := len(*unused) - 1
	v := (*unused)[last]
	*unused = (*unused)[:last]
	v.resets = t.resets
	v.set(rows, cols, v.Value.Data[:n])
	return v
}

func (p *pool[T]) put(v *Var[T]) {
	unused := &p[class(len(v.Value.Data))]
	*unused = append(*unused, v)
}
