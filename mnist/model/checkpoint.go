package model

import (
	"fmt"
	"strconv"

	"hvae/mnist/safetensors"
)

// Format is the checkpoint's format, in its metadata.
const Format = "hvae-mnist/1"

// A Checkpoint is a trained model: what model.safetensors holds.
type Checkpoint struct {
	Config Config
	Params []Param[float32]
	Seed   uint64 // of the training, which drew the validation images
	Epoch  int    // after which epoch
	ELBO   float64

	// Data and DataSHA256 are the name of the data that it was trained on and the SHA-256 of
	// the images in hexadecimal digits; empty in files that lack them.
	Data, DataSHA256 string

	// Digest is the SHA-256 that ReadCheckpoint has verified (safetensors.DigestKey); empty
	// in files that lack it, whose damage may go unnoticed.
	Digest string
}

// metadata describes a model as the contract has it.
func (c Config) metadata() map[string]string {
	return map[string]string{
		"format":    Format,
		"model":     c.Kind,
		"K":         strconv.Itoa(c.K),
		"tempering": c.Tempering,
		"vary_eps":  strconv.FormatBool(c.VaryEps),
		"latent":    strconv.Itoa(c.Latent),
		"max_eps":   strconv.FormatFloat(maxEps, 'g', -1, 64),
	}
}

// configOf reads a configuration from metadata.
func configOf(meta map[string]string) (c Config, err error) {
	if meta["format"] != Format {
		return c, fmt.Errorf("its format is %.40q, this program reads %q", meta["format"], Format)
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
		return c, fmt.Errorf("its metadata has max_eps = %.40q, this program's step sizes stay below %v", meta["max_eps"], maxEps)
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
	meta[safetensors.DigestKey] = "" // for Encode
	f := safetensors.File{Metadata: meta}
	for _, p := range c.Params {
		f.Tensors = append(f.Tensors, p.tensor(p.Name, p.Value.Data))
	}
	return f
}

// ReadCheckpoint reads a model. It returns an error for a file of another format, with another
// digest than its metadata have, or with tensors missing, too many, of other shapes or not
// finite.
func ReadCheckpoint(name string) (Checkpoint, error) {
	const header = 1 << 16 // ten times what the largest model needs
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
		return c, fmt.Errorf("its metadata has epoch = %.40q, not a number from 1", f.Metadata["epoch"])
	}
	if c.ELBO, err = strconv.ParseFloat(f.Metadata["val_elbo"], 64); err != nil || c.ELBO-c.ELBO != 0 {
		return c, fmt.Errorf("its metadata has val_elbo = %.40q, not a finite number", f.Metadata["val_elbo"])
	}
	c.Data, c.DataSHA256, c.Digest = f.Metadata["data"], f.Metadata["data_sha256"], f.Metadata[safetensors.DigestKey]
	// The metadata could describe a model of any size: it is made once the tensors have
	// been found to be those of one.
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
	p.lines(func(i, n, at, step int) {
		for j := range n {
			out[i+j] = p.Value.Data[at+j*step]
		}
	})
	return out
}

// tensor returns data, which is laid out like the parameter, as a checkpoint's tensor.
func (p Param[T]) tensor(name string, data []T) safetensors.Tensor {
	t := safetensors.Tensor{Name: name, Shape: p.Shape, Data: make([]float32, len(data))}
	p.lines(func(i, n, at, step int) {
		for j := range n {
			t.Data[i+j] = float32(data[at+j*step])
		}
	})
	return t
}

// restore copies a tensor, whose shape has been checked, to data.
func (p Param[T]) restore(f safetensors.File, name string, data []T) {
	t, _ := f.Tensor(name)
	p.lines(func(i, n, at, step int) {
		for j := range n {
			data[at+j*step] = T(t.Data[i+j])
		}
	})
}
