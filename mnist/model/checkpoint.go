package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"hvae/linalg"
	"hvae/mnist/safetensors"
)

const checkpointFormat = "hvae-mnist/1"

// A Checkpoint holds a trained model, which is stored in model.safetensors.
type Checkpoint struct {
	*Network[float32]
	Seed       uint64  // seed of the training run, which determines the validation images
	Epoch      int     // number of epochs trained, at least 1
	ELBO       float64 // ELBO of the validation images, in nats
	Data       string  // name of the dataset; "" in older files
	DataSHA256 string  // SHA-256 of the dataset (data.Set.SHA256); "" in older files
}

// numbers returns pointers to the fields that are stored as JSON, by their names. The last two are optional.
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

// Encode returns the checkpoint as the bytes of a safetensors file.
func (c Checkpoint) Encode() []byte {
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
	for _, p := range c.params() {
		t := safetensors.Tensor{Name: p.Name, Shape: p.shape}
		for _, at := range p.order() {
			t.Data = append(t.Data, p.Value.Data[at])
		}
		f.Tensors = append(f.Tensors, t)
	}
	return f.Encode()
}

// DecodeCheckpoint decodes the bytes of model.safetensors. It returns an error if the format or the digest is wrong, or
// if a tensor is missing, unknown or not finite, or has a wrong shape. Before that, it allocates O(len(b)) bytes.
func DecodeCheckpoint(b []byte) (Checkpoint, error) {
	c := Checkpoint{Network: new(Network[float32])}
	f, err := safetensors.Decode(b)
	if err != nil {
		return c, err
	}
	meta := f.Metadata
	if meta["format"] != checkpointFormat || meta["max_eps"] != fmt.Sprint(maxEps) {
		return c, fmt.Errorf("its format is %.40q with max_eps = %.40q, but this program reads only %q with %v",
			meta["format"], meta["max_eps"], checkpointFormat, maxEps)
	}
	c.Config.Kind, c.Config.Tempering = meta["model"], meta["tempering"]
	c.Data, c.DataSHA256 = meta["data"], meta["data_sha256"]
	numbers := c.numbers(meta["draws"] != "")
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		err := json.Unmarshal([]byte(meta[key]), numbers[key])
		if err != nil || meta[key] == "null" || key == "epoch" && c.Epoch < 1 {
			return c, fmt.Errorf("its metadata contains the invalid value %s = %.40q", key, meta[key])
		}
	}
	if err := c.Config.Check(); err != nil {
		return c, fmt.Errorf("its metadata describes an invalid model: %w", err)
	}
	c.Network = describe[float32](c.Config)
	tensors := map[string]safetensors.Tensor{}
	for _, t := range f.Tensors {
		tensors[t.Name] = t
	}
	params := c.params()
	for _, p := range params {
		t, ok := tensors[p.Name]
		if !ok || !slices.Equal(t.Shape, p.shape) {
			return c, fmt.Errorf("tensor %q is missing, or its shape is not %v", p.Name, p.shape)
		}
		if !linalg.Finite(linalg.Column(t.Data...)) {
			return c, fmt.Errorf("tensor %q is not finite", p.Name)
		}
	}
	if len(tensors) != len(params) {
		return c, fmt.Errorf("there are %d tensors, but this model has %d", len(tensors), len(params))
	}
	for _, p := range params {
		p.Value = linalg.New[float32](p.Value.Rows, p.Value.Cols) // only now: damaged metadata may describe a huge model
		for i, at := range p.order() {
			p.Value.Data[at] = tensors[p.Name].Data[i]
		}
	}
	return c, nil
}
