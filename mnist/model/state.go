package model

import (
	"fmt"
	"maps"
	"strconv"

	"hvae/linalg"
	"hvae/mnist/safetensors"
)

// stateFormat is the format of state.safetensors.
const stateFormat = "hvae-mnist-state/1"

// settingPrefix marks settings in the state's metadata.
const settingPrefix = "setting."

// StateFile returns what state.safetensors holds, all that a resume needs but the data:
// parameters and their averages, settings, which a resumed run must share, and how far
// the run is.
func (t *Trainer[T]) StateFile(settings, progress map[string]string) safetensors.File {
	f := safetensors.File{Metadata: map[string]string{"format": stateFormat}}
	for k, v := range settings {
		f.Metadata[settingPrefix+k] = v
	}
	maps.Copy(f.Metadata, progress)
	step, mean, norm := t.optimiserState()
	f.Metadata["optimiser.step"] = strconv.Itoa(step)
	lo := 0
	for _, p := range t.Params {
		hi := lo + len(p.Value.Data)
		f.Tensors = append(f.Tensors,
			p.tensor(p.Name, p.Value.Data),
			p.tensor("optimiser.mean."+p.Name, mean[lo:hi]),
			p.tensor("optimiser.norm."+p.Name, norm[lo:hi]))
		lo = hi
	}
	return f
}

// Restore sets the trainer's parameters and averages to those of a state file, whose
// settings must be the given ones, and returns how far the run was.
func (t *Trainer[T]) Restore(f safetensors.File, settings map[string]string) (progress map[string]string, err error) {
	if f.Metadata["format"] != stateFormat {
		return nil, fmt.Errorf("its format is %q, this program resumes %q", f.Metadata["format"], stateFormat)
	}
	for k, v := range settings {
		if was := f.Metadata[settingPrefix+k]; was != v {
			return nil, fmt.Errorf("the run was started with %s = %s, not %s: resume with the same settings, or start another run with another -out", k, was, v)
		}
	}
	step, err := strconv.Atoi(f.Metadata["optimiser.step"])
	if err != nil || step < 0 {
		return nil, fmt.Errorf("its metadata has optimiser.step = %q, not a number", f.Metadata["optimiser.step"])
	}
	var want []safetensors.Spec
	for _, p := range t.Params {
		for _, prefix := range []string{"", "optimiser.mean.", "optimiser.norm."} {
			want = append(want, safetensors.Spec{Name: prefix + p.Name, Shape: p.Shape})
		}
	}
	if err := safetensors.Check(f, want); err != nil {
		return nil, err
	}
	_, mean, norm := t.optimiserState()
	lo := 0
	for _, p := range t.Params {
		hi := lo + len(p.Value.Data)
		p.restore(f, p.Name, p.Value.Data)
		p.restore(f, "optimiser.mean."+p.Name, mean[lo:hi])
		p.restore(f, "optimiser.norm."+p.Name, norm[lo:hi])
		lo = hi
	}
	t.Optimiser.SetStep(step)
	return f.Metadata, nil
}

// optimiserState returns the optimiser's steps and averages, the latter as θ.
func (t *Trainer[T]) optimiserState() (step int, mean, norm []T) {
	step, means, norms := t.Optimiser.State([]linalg.Matrix[T]{t.algorithm.Theta()})
	return step, means[0], norms[0]
}
