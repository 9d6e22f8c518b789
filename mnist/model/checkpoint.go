package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hvae/bench/atomicfile"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/safetensors"
)

const checkpointFormat = "hvae-mnist/1"

// A Checkpoint holds a trained model, which is stored in model.safetensors.
type Checkpoint struct {
	Config Config
	Params []Param[float32]
	Seed   uint64  // seed of the training run, which determines the validation images
	Epoch  int     // number of epochs trained, at least 1
	ELBO   float64 // ELBO of the validation images, in nats

	// Older files may lack the following values, which are then empty.
	Data       string // name of the dataset
	DataSHA256 string // SHA-256 of the dataset (data.Set.SHA256)
}

// numbers returns pointers to the fields that are stored as JSON, keyed by their names in the metadata. The map
// contains Draws and Importance only if draws is true, as for models that were trained with Draws > 0.
func (c *Checkpoint) numbers(draws bool) map[string]any {
	all := map[string]any{
		"K": &c.Config.K, "latent": &c.Config.Latent, "vary_eps": &c.Config.VaryEps,
		"seed": &c.Seed, "epoch": &c.Epoch, "val_elbo": &c.ELBO,
	}
	if draws {
		all["draws"], all["importance"] = &c.Config.Draws, &c.Config.Importance
	}
	return all
}

// File returns the checkpoint as a safetensors file.
func (c Checkpoint) File() safetensors.File {
	f := safetensors.File{Metadata: map[string]string{
		"format": checkpointFormat, "model": c.Config.Kind, "tempering": c.Config.Tempering, "max_eps": fmt.Sprint(maxEps),
	}}
	for key, value := range c.numbers(c.Config.Draws > 0) {
		b, _ := json.Marshal(value) // cannot fail, because the ELBO is finite
		f.Metadata[key] = string(b)
	}
	if c.Data != "" {
		f.Metadata["data"], f.Metadata["data_sha256"] = c.Data, c.DataSHA256
	}
	for _, p := range c.Params {
		f.Tensors = append(f.Tensors, p.tensor("", p.Value.Data))
	}
	return f
}

// WithoutFlow returns a model with the same encoder and decoder, but without the flow. Its estimate of the evidence is
// p̂_θ(x) = p_θ(x, z₀)/q(z₀|x).
func (c Checkpoint) WithoutFlow() Checkpoint {
	c.Config = Config{Kind: c.Config.Kind, Tempering: "none", Latent: c.Config.Latent}
	c.Params = c.Params[:len(specs(c.Config))] // the flow's parameters come last
	return c
}

// ReadCheckpoint reads a checkpoint from a file (see DecodeCheckpoint).
func ReadCheckpoint(name string) (Checkpoint, error) {
	b, err := atomicfile.Read(name)
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := DecodeCheckpoint(b)
	if err != nil {
		return c, fmt.Errorf("%s is not a model file for this program: %w", name, err)
	}
	return c, nil
}

// DecodeCheckpoint decodes the contents of model.safetensors. It returns an error if the format or the digest is wrong,
// or if a tensor is missing or unknown, has a wrong shape, or is not finite.
func DecodeCheckpoint(b []byte) (Checkpoint, error) {
	f, err := safetensors.Decode(b)
	if err != nil {
		return Checkpoint{}, err
	}
	return checkpointOf(f)
}

// checkpointOf decodes the checkpoint in the safetensors file f.
func checkpointOf(f safetensors.File) (c Checkpoint, err error) {
	meta := f.Metadata
	if meta["format"] != checkpointFormat || meta["max_eps"] != fmt.Sprint(maxEps) {
		return c, fmt.Errorf("its format is %.40q with max_eps = %.40q, but this program reads only %q with %v", meta["format"], meta["max_eps"], checkpointFormat, maxEps)
	}
	c.Config.Kind, c.Config.Tempering = meta["model"], meta["tempering"]
	c.Data, c.DataSHA256 = meta["data"], meta["data_sha256"]
	numbers := c.numbers(meta["draws"] != "")
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		if json.Unmarshal([]byte(meta[key]), numbers[key]) != nil || meta[key] == "null" || key == "epoch" && c.Epoch < 1 {
			return c, fmt.Errorf("its metadata contains the invalid value %s = %.40q", key, meta[key])
		}
	}
	if err := c.Config.Check(); err != nil {
		return c, fmt.Errorf("its metadata describes an invalid model: %w", err)
	}
	// Damaged metadata may describe a huge model, so check that the file contains the parameters
	// before allocating memory for them.
	var want []safetensors.Tensor
	for _, s := range specs(c.Config) {
		want = append(want, safetensors.Tensor{Name: s.name, Shape: s.shape})
	}
	if err := safetensors.Check(f, want); err != nil {
		return c, err
	}
	for _, s := range specs(c.Config) {
		p := newParam[float32](s)
		p.restore(f, "", p.Value.Data)
		c.Params = append(c.Params, p)
	}
	return c, nil
}

// tensor converts data from the layout of p.Value.Data to a tensor with the name prefix + p.Name.
func (p Param[T]) tensor(prefix string, data []T) safetensors.Tensor {
	t := safetensors.Tensor{Name: prefix + p.Name, Shape: p.Shape, Data: make([]float32, len(data))}
	for i, at := range p.Order() {
		t.Data[i] = float32(data[at])
	}
	return t
}

// restore is the inverse of the method tensor. It copies the tensor with the name prefix + p.Name from f to data.
func (p Param[T]) restore(f safetensors.File, prefix string, data []T) {
	t, _ := f.Tensor(prefix + p.Name)
	for i, at := range p.Order() {
		data[at] = T(t.Data[i])
	}
}

// stateFormat is the value of "format" in the metadata of state.safetensors.
const stateFormat = "hvae-mnist-state/3"

// Prefixes of the names of tensors in a state file. The current parameters have no prefix.
const (
	meanPrefix = "optimiser.mean." // running means of gradients, the first averages of Adamax
	normPrefix = "optimiser.norm." // running norms of gradients, the second averages of Adamax
	bestPrefix = "best."           // parameters of the best epoch
)

// stored calls f for each tensor of a state, with its parameter, the prefix of its name, and its elements.
func stored[T linalg.Float](params, best []Param[T], f func(p Param[T], prefix string, data []T)) {
	for _, p := range params {
		f(p, "", p.Value.Data)
		f(p, meanPrefix, p.Averages[0])
		f(p, normPrefix, p.Averages[1])
	}
	for _, p := range best {
		f(p, bestPrefix, p.Value.Data)
	}
}

// State returns the contents of state.safetensors, from which a training run can be resumed: the current parameters,
// the averages of the optimiser, the parameters of the best epoch, which may be nil, and the progress of the run, as
// text from the caller.
func State[T linalg.Float](progress string, params, best []Param[T]) safetensors.File {
	f := safetensors.File{Metadata: map[string]string{"format": stateFormat, "progress": progress}}
	stored(params, best, func(p Param[T], prefix string, data []T) { f.Tensors = append(f.Tensors, p.tensor(prefix, data)) })
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

// Restore sets the parameters and the averages of the optimiser to the values in a state. It also sets the number of
// finished steps. It returns the parameters of the best epoch, or nil if the state contains none. If a tensor is
// missing or unknown, or has a wrong shape or an invalid element, Restore returns an error and changes nothing.
func Restore[T linalg.Float](t *hvae.Trainer[T], params []Param[T], state safetensors.File, steps int) (best []Param[T], err error) {
	if _, ok := state.Tensor(bestPrefix + params[0].Name); ok {
		best = CloneParams(params)
	}
	if err := safetensors.Check(state, State("", params, best).Tensors); err != nil {
		return nil, err
	}
	counted := t.State() // the current state, except for the number of steps
	counted.Steps = steps
	if err := t.Restore(counted); err != nil {
		return nil, err
	}
	stored(params, best, func(p Param[T], prefix string, data []T) { p.restore(state, prefix, data) })
	return best, nil
}

// CloneParams returns a deep copy of the parameters, but without the averages of the optimiser.
func CloneParams[T linalg.Float](params []Param[T]) []Param[T] {
	out := slices.Clone(params)
	for i, p := range params {
		out[i].Param = &hvae.Param[T]{Name: p.Name, Value: p.Value.Clone()}
	}
	return out
}
