package ad

import "hvae/linalg"

// A pool supplies the results of operations that are not recorded, and reuses their memory.
// It counts references: each adjoint has a reference to its variable, which several
// adjoints may share, and the running rule has one to each variable that it creates.
type pool[T linalg.Float] struct {
	tape    *Tape[T]
	program record[T] // the tape's variables and memory at begin
	vars    record[T]
	free    []freeList[T]
	created []*Var[T] // by the running rule
}

// A freeList contains the unused variables with size elements.
type freeList[T linalg.Float] struct {
	size int
	vars []*Var[T]
}

// begin makes an empty pool the source of t's results.
func (p *pool[T]) begin(t *Tape[T]) {
	p.tape, p.program = t, t.record
	p.vars.reset()
	for i := range p.free {
		p.free[i].vars = p.free[i].vars[:0]
	}
	p.created = p.created[:0]
	t.unrecorded = p
}

func (p *pool[T]) end() {
	p.tape.unrecorded = nil
	p.discard()
}

// discard removes the constants and views of rules from the tape.
func (p *pool[T]) discard() {
	t, was := p.tape, &p.program
	t.n, t.values.next, t.values.free = was.n, was.values.next, was.values.free
}

// endRule ends the references of the rule that ran.
func (p *pool[T]) endRule() {
	for _, v := range p.created {
		p.release(v)
	}
	p.created = p.created[:0]
	p.discard()
}

// result returns a rows × cols variable with arbitrary elements for the running rule.
func (p *pool[T]) result(rows, cols int) *Var[T] {
	v := p.alloc(rows, cols)
	p.created = append(p.created, v)
	return v
}

// alloc returns a variable with one reference.
func (p *pool[T]) alloc(rows, cols int) (v *Var[T]) {
	f := p.freeList(rows * cols)
	if n := len(f.vars); n > 0 {
		v, f.vars = f.vars[n-1], f.vars[:n-1]
		v.set(rows, cols, v.Value.Data)
	} else {
		v = p.vars.variable(p.tape, pooled)
		v.set(rows, cols, p.vars.values.alloc(rows*cols))
	}
	v.refs = 1
	return v
}

// wrap returns a variable with one reference and the value m.
func (p *pool[T]) wrap(m linalg.Matrix[T]) *Var[T] {
	v := p.vars.variable(p.tape, pooled)
	v.Value, v.refs = m, 1
	return v
}

// retain adds a reference to g and returns it, or a copy if g is not in the pool.
func (p *pool[T]) retain(g *Var[T]) *Var[T] {
	if g.storage == pooled && g.tape == p.tape {
		g.refs++
		return g
	}
	v := p.alloc(g.Rows(), g.Cols())
	linalg.Copy(v.Value, g.Value)
	return v
}

// release ends a reference to v.
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
