package ad

import (
	"fmt"

	"hvae/linalg"
)

// Backward computes the gradient of the sum of y's elements with respect to each of
// xs, for their method Adjoint to return: the bits that Grad gives, which cannot be
// differentiated again. It is the last sweep of a training step: it records nothing and
// reuses the memory of adjoints that have been passed on, so that what it takes does not
// grow with the program's length. It panics as Grad does; a tape on which it panicked, or
// a rule did, works on.
func Backward[T linalg.Float](y *Var[T], xs ...*Var[T]) {
	t := y.tape
	s, b := &t.sweep, &t.backward
	s.begin(t, y, xs...)
	b.begin(t)
	s.backward = b
	t.record, b.other = b.other, t.record // what rules record is not on record
	s.program = &b.other
	defer func() {
		t.record, b.other = b.other, t.record
		s.end()
	}()
	for i, p := range b.places {
		if n := s.node(p.of); n != nil && n.asked {
			n.place = int32(i + 1)
		}
		if p.updates != nil && !p.shared {
			p.updates.Forget() // of a sweep that panicked
		}
	}
	for _, x := range xs {
		if n := s.node(x); n.place > 0 && b.places[n.place-1].add {
			b.place(n)
		}
	}
	s.run(y)
	for _, x := range xs {
		n := s.node(x)
		if n.reached = n.bar != nil; !n.reached {
			s.hold(n, t.Fill(x.Rows(), x.Cols(), 0))
		}
	}
	for _, p := range b.places {
		if n := s.node(p.of); n != nil && n.place > 0 && p.updates != nil && !p.shared {
			p.updates.Flush(p.matrix)
		}
	}
	s.complete = true
}

// GradientInto makes every further Backward that is asked for the gradient of v leave it
// in g, of v's shape, which v's method Adjoint then returns; or add it to what g holds.
// What makes up the gradient of a leaf is then added in fewer passes over g: in another
// order, so that bits differ from Grad's. It panics if the shapes differ.
func (v *Var[T]) GradientInto(g linalg.Matrix[T], add bool) {
	v.tape.mustHave(v)
	if g.Shape() != v.shape() {
		panic(fmt.Sprintf("ad: GradientInto: %v cannot hold the gradient of a %v variable", g.Shape(), v.shape()))
	}
	b := &v.tape.backward
	for len(b.updates) <= len(b.places) {
		b.updates = append(b.updates, new(linalg.Updates[T]))
	}
	p := place[T]{of: v, matrix: g, add: add}
	if v.rule == nil { // else the sweep needs the whole adjoint while it runs
		p.updates = b.updates[len(b.places)]
	}
	b.places = append(b.places, p)
}

// Adjoint returns the gradient that the last Backward left for v, which is valid until
// the next sweep or Reset. It panics if that Backward was not asked for v's gradient, or
// did not reach its end.
func (v *Var[T]) Adjoint() linalg.Matrix[T] {
	v.tape.mustHave(v)
	s := &v.tape.sweep
	if n := s.node(v); s.complete && n != nil && n.asked {
		return n.bar.Value
	}
	panic("ad: Adjoint of a variable that the last Backward was not asked for")
}

// Reached reports whether the last Backward, of some y, found that y depends on v; if not, the
// gradient of v is zero because v is not used. It panics as Adjoint does. Without
// GradientInto's add it is exact.
func (v *Var[T]) Reached() bool {
	v.Adjoint()
	return v.tape.sweep.node(v).reached
}

// backward is what a sweep needs for its memory to be used again.
type backward[T linalg.Float] struct {
	tape    *Tape[T]
	other   record[T] // the program, while the tape records constants and views that rules make
	pool    record[T] // results of rules, used again and again
	owners  []owners  // of the variables in the pool
	spare   []stock[T]
	made    []*Var[T] // by the rule that runs
	rules   int       // have run, with the one that runs
	places  []place[T]
	updates []*linalg.Updates[T] // for places, kept from program to program
}

// owners says who needs a variable of the pool.
type owners struct {
	count int // variables whose adjoint it is: a sum hands its own to both operands
	rule  int // that made it, and may still use it
}

// A stock is variables of one size that nobody needs.
type stock[T linalg.Float] struct {
	size int
	vars []*Var[T]
}

// A place is where the gradient of a variable goes.
type place[T linalg.Float] struct {
	of      *Var[T]
	matrix  linalg.Matrix[T]
	add     bool               // to what is there
	updates *linalg.Updates[T] // products that wait to be added to matrix; nil where the order of sums must stay
	shared  bool               // with the sweep that runs this one, which ends the waiting
}

// begin forgets the last sweep.
func (b *backward[T]) begin(t *Tape[T]) {
	b.tape = t
	b.other.reset()
	b.pool.reset()
	b.owners = b.owners[:0]
	for i := range b.spare {
		b.spare[i].vars = b.spare[i].vars[:0]
	}
	b.made, b.rules = b.made[:0], 1
}

// stock returns the stock of a size.
func (b *backward[T]) stock(size int) *stock[T] {
	for i := range b.spare {
		if b.spare[i].size == size {
			return &b.spare[i]
		}
	}
	b.spare = append(b.spare, stock[T]{size: size})
	return &b.spare[len(b.spare)-1]
}

// result is Tape.Result for a rule.
func (b *backward[T]) result(rows, cols int) (v *Var[T]) {
	s := b.stock(rows * cols)
	if n := len(s.vars); n > 0 {
		v, s.vars = s.vars[n-1], s.vars[:n-1]
		v.set(rows, cols, v.Value.Data)
	} else {
		v = b.pool.variable(b.tape, pooled)
		v.set(rows, cols, b.pool.values.alloc(rows*cols))
		b.owners = append(b.owners, owners{})
	}
	b.owners[v.index] = owners{rule: b.rules}
	b.made = append(b.made, v)
	return v
}

// release puts a variable into its stock.
func (b *backward[T]) release(v *Var[T]) {
	s := b.stock(len(v.Value.Data))
	s.vars = append(s.vars, v)
}

// place makes a variable of the place of n's gradient n's adjoint.
func (b *backward[T]) place(n *node[T]) {
	n.bar = b.pool.variable(b.tape, pooled)
	n.bar.Value = b.places[n.place-1].matrix
	b.owners = append(b.owners, owners{count: 1})
}

// hold makes g the adjoint of n, or a copy of it: where the gradient has a place, and where
// g is not for this sweep to overwrite one day, as an operand or a view.
func (b *backward[T]) hold(n *node[T], g *Var[T]) {
	switch {
	case n.place > 0:
		b.place(n)
		linalg.Copy(n.bar.Value, g.Value)
	case g.memory == pooled && g.tape == b.tape:
		n.bar = g
		b.owners[g.index].count++
	default:
		n.bar = b.copy(g)
	}
}

// copy returns a copy of g as an adjoint.
func (b *backward[T]) copy(g *Var[T]) *Var[T] {
	v := b.result(g.Rows(), g.Cols())
	b.owners[v.index] = owners{count: 1}
	linalg.Copy(v.Value, g.Value)
	return v
}

// owns reports whether r is the adjoint of one variable only, and not the rule's that runs.
func (b *backward[T]) owns(r *Var[T]) bool {
	o := b.owners[r.index]
	return o.count == 1 && o.rule != b.rules
}

// own makes sure that the adjoint of n may be overwritten, and returns it.
func (b *backward[T]) own(n *node[T]) linalg.Matrix[T] {
	if g := n.bar; !b.owns(g) {
		b.drop(n)
		n.bar = b.copy(g)
	}
	return n.bar.Value
}

// drop takes its adjoint from n.
func (b *backward[T]) drop(n *node[T]) {
	o := &b.owners[n.bar.index]
	if o.count--; o.count == 0 && o.rule != b.rules {
		b.release(n.bar)
	}
	n.bar = nil
}

// passed ends the rule of n's variable, and releases what nobody needs any more.
func (b *backward[T]) passed(n *node[T]) {
	if !n.asked {
		b.drop(n)
	}
	for _, v := range b.made {
		if b.owners[v.index].count == 0 {
			b.release(v)
		}
	}
	b.made = b.made[:0]
	b.tape.n = 0 // constants and views of the rule
	b.rules++
}
