package ad

import "hvae/linalg"

// A record contains a list of variables and the memory for their values. The memory consists of large chunks that are
// never freed.
type record[T linalg.Float] struct {
	vars []*Var[T] // the first n are in use
	n    int

	chunks [][]T
	next   int // index of the first unused chunk
	free   []T // unused elements of chunk next-1
}

const (
	firstChunk = 1 << 10 // elements in the first chunk
	doublings  = 8       // number of further chunks that are twice as large as the previous chunk
	line       = 64 / 4  // float32 elements in a cache line; each matrix starts on a new cache line
)

// rewind restores r to start, an earlier state of r, and discards the variables added since then.
func (r *record[T]) rewind(start *record[T]) { r.n, r.next, r.free = start.n, start.next, start.free }

// variable returns a new constant that belongs to tape t and is stored in r. The caller must set its Value.
func (r *record[T]) variable(t *Tape[T]) *Var[T] {
	if r.n == len(r.vars) {
		r.vars = append(r.vars, &Var[T]{tape: t, index: r.n})
	}
	v := r.vars[r.n]
	r.n++
	v.resets, v.live, v.rule = t.resets, false, nil
	return v
}

// alloc returns a slice of n elements with unspecified values.
func (r *record[T]) alloc(n int) []T {
	size := (n + line - 1) &^ (line - 1)
	for size > len(r.free) {
		if r.next == len(r.chunks) {
			r.chunks = append(r.chunks, make([]T, max(size, firstChunk<<min(r.next, doublings))))
		}
		r.free = r.chunks[r.next]
		r.next++
	}
	s := r.free[:n:n]
	r.free = r.free[size:]
	return s
}

// A pool allocates the results of operations during Backward and counts the references to each result. A node of the
// sweep holds a reference to its adjoint. A running differentiation rule holds references to the variables that it has
// created. When no references to a result remain, the pool reuses the memory of the result.
type pool[T linalg.Float] struct {
	tape    *Tape[T]
	start   record[T] // copy of the tape's record before the running differentiation rule started
	vars    record[T]
	free    []freeList[T]
	created []*Var[T] // variables that the running rule has created
}

// A freeList holds unused variables that all have the same number of elements.
type freeList[T linalg.Float] struct {
	size int
	vars []*Var[T]
}

// begin empties the pool. Until the sweep ends, the pool allocates the results of operations on t.
func (p *pool[T]) begin(t *Tape[T]) {
	p.tape, p.start = t, t.record
	p.vars.rewind(&record[T]{})
	for i := range p.free {
		p.free[i].vars = p.free[i].vars[:0]
	}
	t.unrecorded = p
}

// endRule releases the variables that the last differentiation rule has created. It also removes
// the constants and views that the rule has put on the tape.
func (p *pool[T]) endRule() {
	for _, v := range p.created {
		p.release(v)
	}
	p.created = p.created[:0]
	p.tape.rewind(&p.start)
}

// alloc returns a rows × cols variable with unspecified values and a reference count of one.
func (p *pool[T]) alloc(rows, cols int) (v *Var[T]) {
	f := p.freeList(rows * cols)
	if n := len(f.vars); n > 0 {
		v, f.vars = f.vars[n-1], f.vars[:n-1]
		v.set(rows, cols, v.Value.Data)
	} else {
		v = p.vars.variable(p.tape)
		v.set(rows, cols, p.vars.alloc(rows*cols))
	}
	v.refs = 1
	return v
}

// wrap returns a variable with value m and a reference count of one.
func (p *pool[T]) wrap(m linalg.Matrix[T]) *Var[T] {
	v := p.vars.variable(p.tape)
	v.Value, v.refs = m, 1
	return v
}

// retain adds a reference to g and returns g. If g does not belong to the pool, because it is a constant, a view
// or an operand, retain returns a copy in the pool.
func (p *pool[T]) retain(g *Var[T]) *Var[T] {
	if g.refs > 0 {
		g.refs++
		return g
	}
	v := p.alloc(g.Rows(), g.Cols())
	linalg.Copy(v.Value, g.Value)
	return v
}

// release removes a reference to v. If no references remain, v returns to its free list.
func (p *pool[T]) release(v *Var[T]) {
	if v.refs--; v.refs == 0 {
		f := p.freeList(len(v.Value.Data))
		f.vars = append(f.vars, v)
	}
}

func (p *pool[T]) freeList(size int) *freeList[T] {
	for i := range p.free {
		if p.free[i].size == size {
			return &p.free[i]
		}
	}
	p.free = append(p.free, freeList[T]{size: size})
	return &p.free[len(p.free)-1]
}
