package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

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
		f.Tensors = append(f.Tensors, p.tensor())
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

// ReadCheckpoint reads a model from a file (see DecodeCheckpoint).
func ReadCheckpoint(name string) (c Checkpoint, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return c, err
	}
	if c, err = DecodeCheckpoint(b); err != nil {
		err = fmt.Errorf("%s is not a model file for this program: %w", name, err)
	}
	return c, err
}

// DecodeCheckpoint decodes the contents of model.safetensors. It returns an error if the format or the digest is wrong,
// or if a tensor is missing or unknown, has a wrong shape, or is not finite.
func DecodeCheckpoint(b []byte) (c Checkpoint, err error) {
	f, err := safetensors.Decode(b)
	meta := f.Metadata
	switch {
	case err != nil:
		return c, err
	case meta["format"] != checkpointFormat || meta["max_eps"] != fmt.Sprint(maxEps):
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
	c.Params, err = decodeParams(f, c.Config)
	return c, err
}

// decodeParams returns the parameters of a model. It returns an error if a tensor is missing or unknown, has a wrong
// shape, or is not finite.
func decodeParams(f safetensors.File, c Config) (params []Param[float32], err error) {
	tensors, specs := map[string]safetensors.Tensor{}, specs(c)
	for _, t := range f.Tensors {
		tensors[t.Name] = t
	}
	// Damaged metadata may describe a huge model, so check all tensors before allocating memory for parameters.
	for _, s := range specs {
		t, ok := tensors[s.name]
		if !ok || !slices.Equal(t.Shape, s.shape) {
			return nil, fmt.Errorf("tensor %q is missing, or its shape is not %v", s.name, s.shape)
		}
		if !linalg.Finite(linalg.Column(t.Data...)) {
			return nil, fmt.Errorf("tensor %q is not finite", s.name)
		}
	}
	if len(f.Tensors) != len(specs) {
		return nil, fmt.Errorf("there are %d tensors, but this model has %d", len(f.Tensors), len(specs))
	}
	for _, s := range specs {
		p, data := newParam[float32](s), tensors[s.name].Data
		for i, at := range p.Order() {
			p.Value.Data[at] = data[i]
		}
		params = append(params, p)
	}
	return params, nil
}

// tensor returns the parameter as a tensor of a checkpoint.
func (p Param[T]) tensor() safetensors.Tensor {
	t := safetensors.Tensor{Name: p.Name, Shape: p.Shape, Data: make([]float32, 0, len(p.Value.Data))}
	for _, at := range p.Order() {
		t.Data = append(t.Data, float32(p.Value.Data[at]))
	}
	return t
}
