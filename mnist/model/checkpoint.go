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

const (
	checkpointFormat = "hvae-mnist/1"
	stateFormat      = "hvae-mnist-state/3"

	// Prefixes of the names of tensors in a state. The parameters after the last epoch have no prefix.
	meanPrefix = "optimiser.mean." // running means of gradients, the first averages of Adamax
	normPrefix = "optimiser.norm." // running norms of gradients, the second averages of Adamax
	bestPrefix = "best."           // parameters after the best epoch
)

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

// ReadCheckpoint reads a model from a file (see DecodeCheckpoint).
func ReadCheckpoint(name string) (c Checkpoint, err error) {
	b, err := atomicfile.Read(name)
	if err != nil {
		return c, err
	}
	if c, err = DecodeCheckpoint(b); err != nil {
		err = fmt.Errorf("%s is not a model file for this program: %w", name, err)
	}
	return c, err
}

// DecodeCheckpoint decodes the contents of model.safetensors or of state.safetensors, which contains the weights after
// the last epoch. It returns an error if the format or the digest is wrong, or if a tensor is missing or unknown, has a
// wrong shape, or is not finite.
func DecodeCheckpoint(b []byte) (c Checkpoint, err error) {
	f, err := safetensors.Decode(b)
	meta := f.Metadata
	switch {
	case err != nil:
		return c, err
	case meta["format"] == stateFormat:
		s, err := DecodeState(b)
		return Checkpoint{Config: s.Settings.Config, Params: s.Params, Seed: s.Settings.Seed, Epoch: len(s.Metrics), Data: s.Data, DataSHA256: s.DataSHA256}, err
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
	params, err := decodeParams(f, c.Config, "")
	c.Params = params[""]
	return c, err
}

// decodeParams returns a map from each prefix to parameters of a model, whose tensors have names with this prefix. It
// returns an error if a tensor is missing or unknown, has a wrong shape, or is not finite.
func decodeParams(f safetensors.File, c Config, prefixes ...string) (map[string][]Param[float32], error) {
	tensors, specs := map[string]safetensors.Tensor{}, specs(c)
	for _, t := range f.Tensors {
		tensors[t.Name] = t
	}
	// Damaged metadata may describe a huge model, so check all tensors before allocating memory for parameters.
	for _, prefix := range prefixes {
		for _, s := range specs {
			name := prefix + s.name
			t, ok := tensors[name]
			if !ok || !slices.Equal(t.Shape, s.shape) {
				return nil, fmt.Errorf("tensor %q is missing, or its shape is not %v", name, s.shape)
			}
			if !linalg.Finite(linalg.Column(t.Data...)) {
				return nil, fmt.Errorf("tensor %q is not finite", name)
			}
		}
	}
	if want := len(prefixes) * len(specs); len(f.Tensors) != want {
		return nil, fmt.Errorf("there are %d tensors, but this model has %d", len(f.Tensors), want)
	}
	all := map[string][]Param[float32]{}
	for _, prefix := range prefixes {
		for _, s := range specs {
			p, data := newParam[float32](s), tensors[prefix+s.name].Data
			for i, at := range p.Order() {
				p.Value.Data[at] = data[i]
			}
			all[prefix] = append(all[prefix], p)
		}
	}
	return all, nil
}

// tensor converts data from the layout of p.Value.Data to a tensor with the name prefix + p.Name.
func (p Param[T]) tensor(prefix string, data []T) safetensors.Tensor {
	t := safetensors.Tensor{Name: prefix + p.Name, Shape: p.Shape, Data: make([]float32, 0, len(data))}
	for _, at := range p.Order() {
		t.Data = append(t.Data, float32(data[at]))
	}
	return t
}

// A State holds all data for resuming a training run except the images. It is stored in state.safetensors, in which the
// value of "progress" in the metadata is the JSON encoding of a State.
type State struct {
	Settings    Settings  `json:"settings"`
	Data        string    `json:"data"` // name of the dataset
	DataSHA256  string    `json:"data_sha256"`
	RateChanged bool      `json:"lr_changed"` // whether a resumed run has changed the learning rate
	Metrics     []Metrics `json:"metrics"`    // of all finished epochs

	Params []Param[float32] `json:"-"` // current parameters
	// Averages are the running averages of Adamax for each of Params (hvae.ParamState).
	Averages []linalg.Matrix[float32] `json:"-"`
	Best     []Param[float32]         `json:"-"` // parameters after the best epoch; nil until the first epoch has ended
}

// Encode returns the contents of state.safetensors.
func (s *State) Encode() []byte {
	progress, _ := json.Marshal(s) // cannot fail, because all numbers are finite
	f := safetensors.File{Metadata: map[string]string{"format": stateFormat, "progress": string(progress)}}
	for i, p := range s.Params {
		averages := s.Averages[i]
		f.Tensors = append(f.Tensors, p.tensor("", p.Value.Data), p.tensor(meanPrefix, averages.Row(0)), p.tensor(normPrefix, averages.Row(1)))
	}
	for _, p := range s.Best {
		f.Tensors = append(f.Tensors, p.tensor(bestPrefix, p.Value.Data))
	}
	return f.Encode()
}

// DecodeState decodes the contents of state.safetensors. It returns an error and a partial state if the file is
// damaged, or if no run can have this state.
func DecodeState(b []byte) (*State, error) {
	s := new(State)
	f, err := safetensors.Decode(b)
	if err != nil {
		return s, err
	}
	if format, digest := f.Metadata["format"], f.Metadata[safetensors.DigestKey]; format != stateFormat || digest == "" {
		return s, fmt.Errorf("its format is %.40q with the SHA-256 %.64q, but this program reads only %q with a SHA-256", format, digest, stateFormat)
	}
	if err := s.parse(f.Metadata["progress"]); err != nil {
		return s, err
	}
	prefixes := []string{"", meanPrefix, normPrefix}
	if len(s.Metrics) > 0 {
		prefixes = append(prefixes, bestPrefix)
	}
	params, err := decodeParams(f, s.Settings.Config, prefixes...)
	s.Params, s.Best = params[""], params[bestPrefix]
	for i := range s.Params {
		mean, norm := params[meanPrefix][i].Value.Data, params[normPrefix][i].Value.Data
		s.Averages = append(s.Averages, linalg.Of(2, len(mean), slices.Concat(mean, norm)))
	}
	return s, err
}

// parse sets s to the JSON value in text. It returns an error if no run can have this state.
func (s *State) parse(text string) error {
	json.Unmarshal([]byte(text), s)
	for i := range s.Metrics {
		s.Metrics[i].Epoch = i + 1
	}
	// Package json ignores missing and unknown fields and decodes null as 0, so compare text with the encoding of s.
	if again, _ := json.Marshal(s); string(again) != text {
		return errors.New("the value of progress in its metadata is damaged")
	}
	return s.Settings.Check()
}

// CloneParams returns a deep copy of the parameters.
func CloneParams[T linalg.Float](params []Param[T]) (copies []Param[T]) {
	for _, p := range params {
		p.Param = &hvae.Param[T]{Name: p.Name, Value: p.Value.Clone()}
		copies = append(copies, p)
	}
	return copies
}
