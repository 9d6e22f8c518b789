package model

import (
	"fmt"
	"strconv"

	"hvae/mnist/safetensors"
)

const checkpointFormat = "hvae-mnist/1"

// A Checkpoint is a trained model, the contents of model.safetensors.
type Checkpoint struct {
	Config Config
	Params []Param[float32]
	Seed   uint64  // of the training, which drew the validation images
	Epoch  int     // the epoch after which the parameters were saved, from 1
	ELBO   float64 // on the validation images, in nats

	// The name of the training data and the SHA-256 of the images in hexadecimal digits,
	// both empty in files that lack them.
	Data, DataSHA256 string

	// Digest is the SHA-256 that ReadCheckpoint has verified (safetensors.DigestKey). It is
	// empty in files that lack it, whose damage may go unnoticed.
	Digest string
}

// metadata returns the metadata that describe a configuration.
func (c Config) metadata() map[string]string {
	return map[string]string{
		"format":    checkpointFormat,
		"model":     c.Kind,
		"K":         strconv.Itoa(c.K),
		"tempering": c.Tempering,
		"vary_eps":  strconv.FormatBool(c.VaryEps),
		"latent":    strconv.Itoa(c.Latent),
		"max_eps":   strconv.FormatFloat(maxEps, 'g', -1, 64),
	}
}

// configOf returns the configuration that metadata describe.
func configOf(meta map[string]string) (c Config, err error) {
	if meta["format"] != checkpointFormat {
		return c, fmt.Errorf("its format is %.40q, but this program reads only %q", meta["format"], checkpointFormat)
	}
	if c.K, err = strconv.Atoi(meta["K"]); err != nil {
		return c, fmt.Errorf("its metadata has K = %.40q, not a number", meta["K"])
	}
	if c.Latent, err = strconv.Atoi(meta["latent"]); err != nil {
		return c, fmt.Errorf("its metadata has latent = %.40q, not a number", meta["latent"])
	}
	if c.VaryEps, err = strconv.ParseBool(meta["vary_eps"]); err != nil {
		return c, fmt.Errorf("its metadata has vary_eps = %.40q, not true or false", meta["vary_eps"])
	}
	if x, err := strconv.ParseFloat(meta["max_eps"], 64); err != nil || x != maxEps {
		return c, fmt.Errorf("its metadata has max_eps = %.40q, and this program supports only %v", meta["max_eps"], maxEps)
	}
	c.Kind, c.Tempering = meta["model"], meta["tempering"]
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("its metadata describes an impossible model: %w", err)
	}
	return c, nil
}

// File returns the checkpoint as a safetensors file.
func (c Checkpoint) File() safetensors.File {
	meta := c.Config.metadata()
	meta["seed"] = strconv.FormatUint(c.Seed, 10)
	meta["epoch"] = strconv.Itoa(c.Epoch)
	meta["val_elbo"] = strconv.FormatFloat(c.ELBO, 'g', -1, 64)
	if c.Data != "" {
		meta["data"], meta["data_sha256"] = c.Data, c.DataSHA256
	}
	meta[safetensors.DigestKey] = "" // computed by Encode
	f := safetensors.File{Metadata: meta}
	for _, p := range c.Params {
		f.Tensors = append(f.Tensors, p.tensor(p.Name, p.Value.Data))
	}
	return f
}

// ReadCheckpoint reads a model. It returns an error if the format is not the checkpoint's, if
// the digest is wrong, or if tensors are missing, unknown, of the wrong shape or not finite.
func ReadCheckpoint(name string) (Checkpoint, error) {
	const header = 1 << 16 // bytes, ten times the header of the largest model
	f, err := safetensors.ReadFile(name, header)
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := checkpointOf(f)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%s is not a model of this program: %w", name, err)
	}
	return c, nil
}

func checkpointOf(f safetensors.File) (c Checkpoint, err error) {
	if c.Config, err = configOf(f.Metadata); err != nil {
		return c, err
	}
	if c.Seed, err = strconv.ParseUint(f.Metadata["seed"], 10, 64); err != nil {
		return c, fmt.Errorf("its metadata has seed = %.40q, not a number", f.Metadata["seed"])
	}
	if c.Epoch, err = strconv.Atoi(f.Metadata["epoch"]); err != nil || c.Epoch < 1 {
		return c, fmt.Errorf("its metadata has epoch = %.40q, not a number of at least 1", f.Metadata["epoch"])
	}
	if c.ELBO, err = strconv.ParseFloat(f.Metadata["val_elbo"], 64); err != nil || c.ELBO-c.ELBO != 0 {
		return c, fmt.Errorf("its metadata has val_elbo = %.40q, not a finite number", f.Metadata["val_elbo"])
	}
	c.Data, c.DataSHA256, c.Digest = f.Metadata["data"], f.Metadata["data_sha256"], f.Metadata[safetensors.DigestKey]
	// Damaged metadata may describe a huge model. So allocate its parameters only after
	// checking that the file has them.
	var want []safetensors.Spec
	for _, s := range new(Network[float32]).specs(c.Config) {
		want = append(want, safetensors.Spec{Name: s.name, Shape: s.shape})
	}
	if err := safetensors.Check(f, want); err != nil {
		return c, err
	}
	c.Params = zeroParams[float32](c.Config)
	for _, p := range c.Params {
		p.restore(f, p.Name, p.Value.Data)
	}
	return c, nil
}

// Checkpoint returns the parameter's elements in the order of its tensor in a checkpoint.
func (p Param[T]) Checkpoint() []T {
	out := make([]T, len(p.Value.Data))
	for i, at := range p.order() {
		out[i] = p.Value.Data[at]
	}
	return out
}

// tensor returns data, which has the layout of the parameter's matrix, as a tensor.
func (p Param[T]) tensor(name string, data []T) safetensors.Tensor {
	t := safetensors.Tensor{Name: name, Shape: p.Shape, Data: make([]float32, len(data))}
	for i, at := range p.order() {
		t.Data[i] = float32(data[at])
	}
	return t
}

// restore copies a tensor of the file, whose shape has been checked, to data, which has the
// layout of the parameter's matrix.
func (p Param[T]) restore(f safetensors.File, name string, data []T) {
	t, _ := f.Tensor(name)
	for i, at := range p.order() {
		data[at] = T(t.Data[i])
	}
}
