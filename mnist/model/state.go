package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/safetensors"
)

// stateFormat is the format of state.safetensors, in its metadata.
const stateFormat = "hvae-mnist-state/2"

// Prefixes of names in a state. The tensors of the current parameters have no prefix.
const (
	meanPrefix    = "optimiser.mean." // tensors of Adamax's first average
	normPrefix    = "optimiser.norm." // and of its second
	bestPrefix    = "best."           // tensors of the best epoch's parameters
	settingPrefix = "setting."        // settings in the metadata
)

// A State is the contents of state.safetensors, everything that a resume needs except the
// data: the parameters, the optimiser's averages, the parameters of the best epoch, the
// settings, and the progress of the run.
type State struct {
	Settings map[string]string
	Progress string // the argument of Trainer.State
	Steps    int    // optimiser steps taken
	Digest   string // verified by ReadState; empty in files that lack it

	file safetensors.File
}

// State returns the trainer's state as a file, with the caller's settings and description
// of the progress. best, the parameters of the best epoch, is nil before the first.
func (t *Trainer[T]) State(settings map[string]string, progress string, best []Param[T]) safetensors.File {
	s := t.algorithm.State()
	f := safetensors.File{Metadata: map[string]string{
		"format": stateFormat, "progress": progress, "optimiser.step": strconv.Itoa(s.Steps),
		safetensors.DigestKey: "", // computed by Encode
	}}
	for k, v := range settings {
		f.Metadata[settingPrefix+k] = v
	}
	for _, p := range t.Params {
		f.Tensors = append(f.Tensors,
			p.tensor(p.Name, p.Value.Data),
			p.tensor(meanPrefix+p.Name, p.Averages[0]),
			p.tensor(normPrefix+p.Name, p.Averages[1]))
	}
	for _, p := range best {
		f.Tensors = append(f.Tensors, p.tensor(bestPrefix+p.Name, p.Value.Data))
	}
	return f
}

// ReadState reads a state file and verifies its digest. Restore checks the tensors, because
// the settings determine which there must be.
func ReadState(name string) (s State, err error) {
	const header = 1 << 24 // bytes, enough for the metrics of 100,000 epochs
	if s.file, err = safetensors.ReadFile(name, header); err != nil {
		return s, err
	}
	meta := s.file.Metadata
	if f := meta["format"]; f != stateFormat {
		return s, fmt.Errorf("%s is not the state of a run: its format is %.40q, but this program reads only %q", name, f, stateFormat)
	}
	if s.Steps, err = strconv.Atoi(meta["optimiser.step"]); err != nil || s.Steps < 0 {
		return s, fmt.Errorf("%s is damaged: its metadata has optimiser.step = %.40q, not a number", name, meta["optimiser.step"])
	}
	s.Progress, s.Digest = meta["progress"], meta[safetensors.DigestKey]
	s.Settings = map[string]string{}
	for k, v := range meta {
		if k, ok := strings.CutPrefix(k, settingPrefix); ok {
			s.Settings[k] = v
		}
	}
	return s, nil
}

// Restore sets the trainer's parameters and the optimiser's averages and steps from a state.
// It returns the parameters of the best epoch, nil if the state has none. If tensors are
// missing, unknown, of the wrong shape or not finite, it returns an error and changes nothing.
func (t *Trainer[T]) Restore(s State) (best []Param[T], err error) {
	var want []safetensors.Spec
	prefixes := []string{"", meanPrefix, normPrefix}
	_, hasBest := s.file.Tensor(bestPrefix + t.Params[0].Name)
	if hasBest {
		prefixes = append(prefixes, bestPrefix)
	}
	for _, p := range t.Params {
		for _, prefix := range prefixes {
			want = append(want, safetensors.Spec{Name: prefix + p.Name, Shape: p.Shape})
		}
	}
	if err := safetensors.Check(s.file, want); err != nil {
		return nil, err
	}
	for _, p := range t.Params {
		if norm, _ := s.file.Tensor(normPrefix + p.Name); slices.ContainsFunc(norm.Data, func(v float32) bool { return v < 0 }) {
			return nil, fmt.Errorf("tensor %q has a negative element, but is an average of absolute values", norm.Name)
		}
	}
	to := t.algorithm.State()
	to.Steps = s.Steps
	for i, p := range t.Params {
		p.restore(s.file, p.Name, to.Params[i].Value.Data)
		p.restore(s.file, meanPrefix+p.Name, to.Params[i].Averages[0])
		p.restore(s.file, normPrefix+p.Name, to.Params[i].Averages[1])
	}
	if err := t.algorithm.Restore(to); err != nil {
		return nil, err
	}
	if hasBest {
		best = CloneParams(t.Params)
		for _, p := range best {
			p.restore(s.file, bestPrefix+p.Name, p.Value.Data)
		}
	}
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
