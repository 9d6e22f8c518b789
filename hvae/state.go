package hvae

import (
	"fmt"

	"hvae/linalg"
)

// A State is the state of a training run, in a form that encoding/json and encoding/gob can
// encode. After Restore, a run continues bit-identically if the new trainer has the same parameters,
// optimiser, bound and BlockSize, and Step gets the same batches.
type State[T linalg.Float] struct {
	Seed   uint64
	Steps  int        // number of steps taken
	Params []Param[T] // in the order of NewTrainer
}

// State returns a copy of the trainer's state.
func (t *Trainer[T]) State() State[T] {
	s := State[T]{Seed: t.Seed, Steps: t.steps}
	for _, p := range t.Params {
		s.Params = append(s.Params, Param[T]{p.Name, p.Value.Clone(), p.Averages.Clone()})
	}
	return s
}

// Restore sets the trainer's state to a copy of s. It returns an error and changes nothing if s.Steps is negative, if
// an element of s is not finite, or if s and the trainer differ in the number, order, names or shapes of the parameters
// or of their running averages, for example because the optimisers differ.
func (t *Trainer[T]) Restore(s State[T]) error {
	if got, want := s.layout(), t.State().layout(); got != want || s.Steps < 0 {
		return fmt.Errorf("cannot restore a state with %d steps and %s into a trainer with %s", s.Steps, got, want)
	}
	for _, p := range s.Params {
		if !linalg.Finite(p.Value) || !linalg.Finite(p.Averages) {
			return fmt.Errorf("cannot restore a state whose parameter %q, or an average of its gradients, is not finite", p.Name)
		}
	}
	t.Seed, t.steps = s.Seed, s.Steps
	for i, p := range t.Params {
		linalg.Copy(p.Value, s.Params[i].Value)
		linalg.Copy(p.Averages, s.Params[i].Averages)
	}
	return nil
}

// layout returns a description of the names and sizes of all parameters and averages.
func (s State[T]) layout() string {
	d := fmt.Sprintf("%d parameters", len(s.Params))
	for _, p := range s.Params {
		d += fmt.Sprintf(", %q %v of %d elements", p.Name, p.Value.Shape(), len(p.Value.Data))
		d += fmt.Sprintf(" with averages %v of %d elements", p.Averages.Shape(), len(p.Averages.Data))
	}
	return d
}
