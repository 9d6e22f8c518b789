package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"hvae/linalg"
)

// A Checkpoint holds a trained model. It is stored in model.safetensors. Most machine-learning libraries can read this
// format, which consists of
//
//	8 bytes   little-endian length n of the header
//	n bytes   JSON: {"__metadata__": {"key": "value", …},
//	          "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//	the rest  the elements of the tensors in row-major order, little-endian, at the offsets in the header
type Checkpoint struct {
	*Network[float32]
	Seed       uint64  // seed of the training run, which determines the validation images
	Epoch      int     // number of epochs trained
	ELBO       float64 // ELBO of the validation images, in nats
	Data       string  // name of the dataset; "" in older files
	DataSHA256 string  // SHA-256 of the dataset (data.Set.SHA256); "" in older files
}

// An entry is the header's description of a tensor.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"` // begin and end of the tensor, in bytes after the header
}

const (
	checkpointFormat = "hvae-mnist/1"
	digestKey        = "sha256" // key of the digest in the metadata; older files lack it
)

// digest returns, in hexadecimal, the SHA-256 of the metadata followed by data, the bytes after the header. The
// metadata are hashed as lines "key=value\n", sorted by key, without digestKey.
func digest(meta map[string]string, data []byte) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if key != digestKey {
			fmt.Fprintf(h, "%s=%s\n", key, meta[key])
		}
	}
	h.Write(data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// numbers returns a map from metadata keys to the fields of c that are stored under these keys as JSON. The keys
// include "draws" and "importance" only if draws is true.
func (c *Checkpoint) numbers(draws bool) map[string]any {
	m := map[string]any{
		"K": &c.Config.K, "latent": &c.Config.Latent, "vary_eps": &c.Config.VaryEps,
		"seed": &c.Seed, "epoch": &c.Epoch, "val_elbo": &c.ELBO,
	}
	if draws {
		m["draws"], m["importance"] = &c.Config.Draws, &c.Config.Importance
	}
	return m
}

// Encode returns the contents of model.safetensors. Equal checkpoints have equal encodings.
func (c Checkpoint) Encode() []byte {
	meta := map[string]string{
		"format": checkpointFormat, "model": c.Config.Kind, "tempering": c.Config.Tempering, "max_eps": fmt.Sprint(maxEps),
	}
	for key, value := range c.numbers(c.Config.Draws > 0) {
		b, _ := json.Marshal(value) // cannot fail, because the ELBO is finite
		meta[key] = string(b)
	}
	if c.Data != "" {
		meta["data"], meta["data_sha256"] = c.Data, c.DataSHA256
	}
	var entries, data []byte
	for _, p := range c.params {
		begin := len(data)
		for _, at := range p.order() {
			bits := math.Float32bits(p.Value.Data[at])
			data = binary.LittleEndian.AppendUint32(data, bits)
		}
		e, _ := json.Marshal(entry{"F32", p.shape, [2]int{begin, len(data)}}) // cannot fail for these types
		entries = fmt.Appendf(entries, ",%q:%s", p.Name, e)
	}
	meta[digestKey] = digest(meta, data)
	m, _ := json.Marshal(meta)
	header := fmt.Appendf(nil, `{"__metadata__":%s%s}`, m, entries)
	for len(header)%8 != 0 { // align the elements for readers that map the file into memory
		header = append(header, ' ')
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header, data)
}

// DecodeCheckpoint decodes the contents of model.safetensors. It returns an error if the file is damaged, or if its
// tensors do not fit its metadata. It allocates O(len(b)) bytes, even if damaged metadata describe a huge model.
func DecodeCheckpoint(b []byte) (Checkpoint, error) {
	c := Checkpoint{Network: new(Network[float32])}
	if len(b) <= 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) || b[8] != '{' {
		return c, fmt.Errorf("it is not a valid safetensors file: its %d bytes do not contain a header", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	header, data := b[8:8+n], b[8+n:]
	var file struct {
		Metadata map[string]string `json:"__metadata__"`
	}
	var entries map[string]entry
	err := cmp.Or(json.Unmarshal(header, &file), json.Unmarshal(header, &entries))
	if err != nil {
		return c, fmt.Errorf("it is not a valid safetensors file: %.80v", err)
	}
	if want, ok := file.Metadata[digestKey]; ok && digest(file.Metadata, data) != want {
		return c, fmt.Errorf("it is damaged (the SHA-256 of its contents is not %.64q): copy it or train it again", want)
	}
	if err := c.setMetadata(file.Metadata); err != nil {
		return c, err
	}
	c.Network = describe[float32](c.Config)
	return c, c.setTensors(entries, data)
}

func (c *Checkpoint) setMetadata(meta map[string]string) error {
	if meta["format"] != checkpointFormat || meta["max_eps"] != fmt.Sprint(maxEps) {
		return fmt.Errorf("its format is %.40q with max_eps = %.40q, but this program reads only %q with %v",
			meta["format"], meta["max_eps"], checkpointFormat, maxEps)
	}
	numbers := c.numbers(meta["draws"] != "")
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		err := json.Unmarshal([]byte(meta[key]), numbers[key])
		if err != nil {
			return fmt.Errorf("its metadata contain the invalid value %s = %.40q", key, meta[key])
		}
	}
	c.Config.Kind, c.Config.Tempering = meta["model"], meta["tempering"]
	c.Data, c.DataSHA256 = meta["data"], meta["data_sha256"]
	if err := c.Config.Check(); err != nil {
		return fmt.Errorf("its metadata describe an invalid model: %w", err)
	}
	return nil
}

// setTensors sets the parameters to the tensors of a file. The tensors must follow one another without gaps.
func (c *Checkpoint) setTensors(entries map[string]entry, data []byte) error {
	params := slices.SortedFunc(slices.Values(c.params), func(p, q *param[float32]) int { // in the order of the file
		return cmp.Compare(entries[p.Name].Offsets[0], entries[q.Name].Offsets[0])
	})
	end := 0
	for _, p := range params {
		begin := end
		end += 4 * p.Value.Rows * p.Value.Cols
		want := entry{"F32", p.shape, [2]int{begin, end}}
		if got := entries[p.Name]; end > len(data) || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("the tensor %s is %.80s, want %v (type, shape and place in %d bytes)",
				p.Name, fmt.Sprint(got), want, len(data))
		}
		p.Value = linalg.New[float32](p.Value.Rows, p.Value.Cols) // only after the check that data is large enough
		for i, at := range p.order() {
			bits := binary.LittleEndian.Uint32(data[begin+4*i:])
			p.Value.Data[at] = math.Float32frombits(bits)
		}
		if !linalg.Finite(p.Value) {
			return fmt.Errorf("the tensor %s is not finite", p.Name)
		}
	}
	if end != len(data) || len(entries) != len(params)+1 { // entries include the metadata
		return fmt.Errorf("it has %d tensors in %d bytes, want %d in %d", len(entries)-1, len(data), len(params), end)
	}
	return nil
}
