package model

import (
	"errors"
	"fmt"
	"slices"

	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/safetensors"
)

// stateFormat is the value of "format" in the metadata of state.safetensors.
const stateFormat = "hvae-mnist-state/3"

// Prefixes of names in a state file. The tensors of the current parameters have no prefix.
const (
	meanPrefix = "optimiser.mean." // running means of gradients, the first averages of Adamax
	normPrefix = "optimiser.norm." // running norms of gradients, the second averages of Adamax
	bestPrefix = "best."           // parameters of the best epoch
)

// stored calls f for each tensor of a state: with a parameter, the prefix of the tensor's name, and the elements.
func (t *Trainer[T]) stored(best []Param[T], f func(p Param[T], prefix string, data []T)) {
	for _, p := range t.Params {
		f(p, "", p.Value.Data)
		f(p, meanPrefix, p.Averages[0])
		f(p, normPrefix, p.Averages[1])
	}
	for _, p := range best {
		f(p, bestPrefix, p.Value.Data)
	}
}

// State returns the contents of state.safetensors, from which a training run can be resumed: the current parameters,
// the averages of the optimiser, the parameters of the best epoch, which may be nil, and the progress of the run in
// the encoding of the caller.
func (t *Trainer[T]) State(progress string, best []Param[T]) safetensors.File {
	f := safetensors.File{Metadata: map[string]string{"format": stateFormat, "progress": progress}}
	t.stored(best, func(p Param[T], prefix string, data []T) { f.Tensors = append(f.Tensors, p.tensor(prefix, data)) })
	return f
}

// DecodeState decodes the contents of a state file and verifies its digest. It does not check the tensors,
// because their shapes depend on the settings. Restore checks them.
func DecodeState(b []byte) (safetensors.File, error) {
	f, err := safetensors.Decode(b)
	switch meta := f.Metadata; {
	case err != nil:
		return f, err
	case meta["format"] != stateFormat:
		return f, fmt.Errorf("it is not a state file for this program: its format is %.40q, but this program reads only %q", meta["format"], stateFormat)
	case meta[safetensors.DigestKey] == "":
		return f, errors.New("it has no SHA-256, so damage to it cannot be detected")
	}
	return f, nil
}

// Restore sets the parameters and the averages of the optimiser to the values in a state, and the number of
// steps to steps. It returns the parameters of the best epoch, or nil if the state contains none. If a tensor is
// missing or unknown, or has a wrong shape or an invalid element, Restore returns an error and changes nothing.
func (t *Trainer[T]) Restore(state safetensors.File, steps int) (best []Param[T], err error) {
	if _, ok := state.Tensor(bestPrefix + t.Params[0].Name); ok {
		best = CloneParams(t.Params)
	}
	if err := safetensors.Check(state, t.State("", best).Tensors); err != nil {
		return nil, err
	}
	for _, p := range t.Params {
		if norm, _ := state.Tensor(normPrefix + p.Name); slices.ContainsFunc(norm.Data, func(v float32) bool { return v < 0 }) {
			return nil, fmt.Errorf("tensor %q contains a negative element, but a running gradient norm cannot be negative", norm.Name)
		}
	}
	counted := t.algorithm.State() // the current state, except for the number of steps
	counted.Steps = steps
	if err := t.algorithm.Restore(counted); err != nil {
		return nil, err
	}
	t.stored(best, func(p Param[T], prefix string, data []T) { p.restore(state, prefix, data) })
	return best, nil
}

// CloneParams returns a deep copy of the parameters.
func CloneParams[T linalg.Float](params []Param[T]) []Param[T] {
	out := slices.Clone(params)
	for i, p := range params {
		out[i].Param = &hvae.Param[T]{Name: p.Name, Value: p.Value.Clone()}
	}
	return out
}
