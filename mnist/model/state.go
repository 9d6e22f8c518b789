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

// stateFormat is the value of "format" in the metadata of state.safetensors.
const stateFormat = "hvae-mnist-state/2"

// Prefixes of names in a state file. The tensors of the current parameters have no prefix.
const (
	meanPrefix    = "optimiser.mean." // running means of gradients, the first averages of Adamax
	normPrefix    = "optimiser.norm." // running norms of gradients, the second averages of Adamax
	bestPrefix    = "best."           // parameters of the best epoch
	settingPrefix = "setting."        // settings in the metadata
)

// A State is the contents of state.safetensors, from which a training run can be resumed. It contains the
// current parameters, the averages of the optimiser, the parameters of the best epoch, the settings, and
// the progress of the run. It does not contain the dataset.
type State struct {
	Settings map[string]string
	Progress string // progress of the run, as the caller of Trainer.State encoded it
	Steps    int    // number of optimiser steps taken
	Digest   string // verified SHA-256 of the contents; empty if an older file lacks it

	file safetensors.File
}

// State returns a safetensors file with the state of the trainer, the settings, a description of the
// progress, and the parameters of the best epoch. best may be nil.
func (t *Trainer[T]) State(settings map[string]string, progress string, best []Param[T]) safetensors.File {
	f := safetensors.File{Metadata: map[string]string{
		"format": stateFormat, "progress": progress, "optimiser.step": strconv.Itoa(t.algorithm.State().Steps),
		safetensors.DigestKey: "", // Encode sets the digest
	}}
	for k, v := range settings {
		f.Metadata[settingPrefix+k] = v
	}
	for _, p := range t.Params {
		f.Tensors = append(f.Tensors, p.tensor("", p.Value.Data), p.tensor(meanPrefix, p.Averages[0]), p.tensor(normPrefix, p.Averages[1]))
	}
	for _, p := range best {
		f.Tensors = append(f.Tensors, p.tensor(bestPrefix, p.Value.Data))
	}
	return f
}

// ReadState reads a state file and verifies its digest. It does not check the tensors, because their
// shapes depend on the settings. Restore checks them.
func ReadState(name string) (s State, err error) {
	const maxHeader = 1 << 24 // bytes, enough for the metrics of 100,000 epochs
	if s.file, err = safetensors.ReadFile(name, maxHeader); err != nil {
		return s, err
	}
	meta := s.file.Metadata
	if f := meta["format"]; f != stateFormat {
		return s, fmt.Errorf("%s is not a state file for this program: its format is %.40q, but this program reads only %q", name, f, stateFormat)
	}
	if s.Steps, err = strconv.Atoi(meta["optimiser.step"]); err != nil || s.Steps < 0 {
		return s, fmt.Errorf("%s is damaged: its metadata contains optimiser.step = %.40q, but the number of steps must be a whole number ≥ 0", name, meta["optimiser.step"])
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

// Restore sets the parameters, the averages of the optimiser and the number of steps of the trainer to
// the values in the state. It returns the parameters of the best epoch, or nil if the state contains
// none. If a tensor is missing or unknown, or has a wrong shape or an invalid element, Restore returns an
// error and changes nothing.
func (t *Trainer[T]) Restore(s State) (best []Param[T], err error) {
	if _, ok := s.file.Tensor(bestPrefix + t.Params[0].Name); ok {
		best = CloneParams(t.Params)
	}
	if err := safetensors.Check(s.file, t.State(nil, "", best).Tensors); err != nil {
		return nil, err
	}
	for _, p := range t.Params {
		if norm, _ := s.file.Tensor(normPrefix + p.Name); slices.ContainsFunc(norm.Data, func(v float32) bool { return v < 0 }) {
			return nil, fmt.Errorf("tensor %q contains a negative element, but a running gradient norm cannot be negative", norm.Name)
		}
	}
	counted := t.algorithm.State() // the current state, except for the number of steps
	counted.Steps = s.Steps
	if err := t.algorithm.Restore(counted); err != nil {
		return nil, err
	}
	for _, p := range t.Params {
		p.restore(s.file, "", p.Value.Data)
		p.restore(s.file, meanPrefix, p.Averages[0])
		p.restore(s.file, normPrefix, p.Averages[1])
	}
	for _, p := range best {
		p.restore(s.file, bestPrefix, p.Value.Data)
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
