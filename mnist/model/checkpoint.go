package model

import (
	"encoding/json"
	"fmt"

	"hvae/bench/atomicfile"
	"hvae/mnist/safetensors"
)

const checkpointFormat = "hvae-mnist/1"

// A Checkpoint is a trained model, the contents of model.safetensors.
type Checkpoint struct {
	Config Config
	Params []Param[float32]
	Seed   uint64  // seed of the training run, which determines the validation images
	Epoch  int     // number of epochs trained, at least 1
	ELBO   float64 // ELBO of the validation images, in nats

	// Older files may lack the following values, which are then empty.
	Data       string // name of the dataset
	DataSHA256 string // SHA-256 of the dataset (data.Set.SHA256)
	Digest     string // verified SHA-256 of the contents of the file (safetensors.DigestKey)
}

// File returns the checkpoint as a safetensors file.
func (c Checkpoint) File() safetensors.File {
	f := safetensors.File{Metadata: map[string]string{
		"format":    checkpointFormat,
		"model":     c.Config.Kind,
		"K":         fmt.Sprint(c.Config.K),
		"tempering": c.Config.Tempering,
		"vary_eps":  fmt.Sprint(c.Config.VaryEps),
		"latent":    fmt.Sprint(c.Config.Latent),
		"max_eps":   fmt.Sprint(maxEps),
		"seed":      fmt.Sprint(c.Seed),
		"epoch":     fmt.Sprint(c.Epoch),
		"val_elbo":  fmt.Sprint(c.ELBO),

		safetensors.DigestKey: "", // Encode sets the digest
	}}
	if c.Config.Draws > 0 {
		f.Metadata["draws"], f.Metadata["importance"] = fmt.Sprint(c.Config.Draws), fmt.Sprint(c.Config.Importance)
	}
	if c.Data != "" {
		f.Metadata["data"], f.Metadata["data_sha256"] = c.Data, c.DataSHA256
	}
	for _, p := range c.Params {
		f.Tensors = append(f.Tensors, p.tensor("", p.Value.Data))
	}
	return f
}

// WithoutFlow returns the same encoder and decoder without the flow. Its estimate of the evidence is
// p̂_θ(x) = p_θ(x, z₀)/q(z₀|x).
func (c Checkpoint) WithoutFlow() Checkpoint {
	c.Config = Config{Kind: c.Config.Kind, Tempering: "none", Latent: c.Config.Latent}
	c.Params = c.Params[:len(new(Network[float32]).specs(c.Config))] // the flow's parameters are the last
	return c
}

// ReadCheckpoint reads a checkpoint from a file, as DecodeCheckpoint does.
func ReadCheckpoint(name string) (Checkpoint, error) {
	b, err := atomicfile.Read(name, 1<<30)
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := DecodeCheckpoint(b)
	if err != nil {
		return c, fmt.Errorf("%s is not a model file for this program: %w", name, err)
	}
	return c, nil
}

// DecodeCheckpoint decodes the contents of model.safetensors. It returns an error if the format or the digest
// is wrong, or if a tensor is missing, unknown, of the wrong shape or not finite.
func DecodeCheckpoint(b []byte) (Checkpoint, error) {
	const maxHeader = 1 << 16 // bytes, over twenty times the size of the largest header
	f, err := safetensors.Decode(b, maxHeader)
	if err != nil {
		return Checkpoint{}, err
	}
	return checkpointOf(f)
}

// checkpointOf returns the checkpoint that f contains.
func checkpointOf(f safetensors.File) (c Checkpoint, err error) {
	meta := f.Metadata
	if meta["format"] != checkpointFormat {
		return c, fmt.Errorf("its format is %.40q, but this program reads only %q", meta["format"], checkpointFormat)
	}
	c.Config.Kind, c.Config.Tempering = meta["model"], meta["tempering"]
	c.Data, c.DataSHA256, c.Digest = meta["data"], meta["data_sha256"], meta[safetensors.DigestKey]
	for _, field := range []struct {
		key  string
		to   any
		want string
	}{
		{"K", &c.Config.K, "a whole number"},
		{"latent", &c.Config.Latent, "a whole number"},
		{"vary_eps", &c.Config.VaryEps, "true or false"},
		{"seed", &c.Seed, "a whole number"},
		{"epoch", &c.Epoch, "a whole number"},
		{"val_elbo", &c.ELBO, "a finite number"},
	} {
		if json.Unmarshal([]byte(meta[field.key]), field.to) != nil {
			return c, fmt.Errorf("its metadata contains %s = %.40q, but this value must be %s", field.key, meta[field.key], field.want)
		}
	}
	if draws := meta["draws"]; draws != "" {
		if json.Unmarshal([]byte(draws), &c.Config.Draws) != nil || json.Unmarshal([]byte(meta["importance"]), &c.Config.Importance) != nil {
			return c, fmt.Errorf("its metadata contains draws = %.40q and importance = %.40q, but they must be a whole number and true or false", draws, meta["importance"])
		}
	}
	if meta["max_eps"] != fmt.Sprint(maxEps) {
		return c, fmt.Errorf("its metadata contains max_eps = %.40q, but this program supports only %v", meta["max_eps"], maxEps)
	}
	if c.Epoch < 1 {
		return c, fmt.Errorf("its metadata contains epoch = %.40q, but the epoch must be at least 1", meta["epoch"])
	}
	if err := c.Config.Check(); err != nil {
		return c, fmt.Errorf("its metadata describes an invalid model: %w", err)
	}
	// Damaged metadata may describe a huge model, so check that the file contains the parameters
	// before allocating memory for them.
	specs := new(Network[float32]).specs(c.Config)
	var want []safetensors.Tensor
	for _, s := range specs {
		want = append(want, safetensors.Tensor{Name: s.Name, Shape: s.Shape})
	}
	if err := safetensors.Check(f, want); err != nil {
		return c, err
	}
	for _, s := range specs {
		s.allocate()
		s.restore(f, "", s.Value.Data)
		c.Params = append(c.Params, s.Param)
	}
	return c, nil
}

// tensor returns data, which is in the order of p.Value.Data, as the tensor with the name prefix + p.Name.
func (p Param[T]) tensor(prefix string, data []T) safetensors.Tensor {
	t := safetensors.Tensor{Name: prefix + p.Name, Shape: p.Shape, Data: make([]float32, len(data))}
	for i, at := range p.Order() {
		t.Data[i] = float32(data[at])
	}
	return t
}

// restore is the inverse of tensor. It sets data to the elements of the tensor prefix + p.Name of f.
func (p Param[T]) restore(f safetensors.File, prefix string, data []T) {
	t, _ := f.Tensor(prefix + p.Name)
	for i, at := range p.Order() {
		data[at] = T(t.Data[i])
	}
}
