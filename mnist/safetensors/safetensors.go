// Package safetensors reads and writes files of named float32 arrays in the safetensors
// format, which most machine-learning libraries read:
//
//	8 bytes   little-endian length n of the header
//	n bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
//	          "__metadata__": {"key": "value"}}
//	the rest  the elements of the arrays, little-endian, at the offsets in the header
//
// Start with File. Decode checks all lengths and offsets, so it is safe for files from untrusted
// sources. Each quotation of a file in an error message has at most 80 characters.
package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// A File is the contents of a safetensors file.
type File struct {
	Metadata map[string]string
	Tensors  []Tensor // in the order of their data
}

// A Tensor is a named array. Data holds the elements in row-major order. The Shape of a scalar is empty.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// Tensor returns the tensor with the given name and reports whether the file contains it.
func (f File) Tensor(name string) (t Tensor, ok bool) {
	i := slices.IndexFunc(f.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

const metadataKey = "__metadata__"

// DigestKey is the metadata key of the digest, a SHA-256 hash in hexadecimal. The digest covers the lines
// "key=value\n" of all other metadata, sorted by key, followed by the bytes after the header.
const DigestKey = "sha256"

// digest returns the digest of a file with the given metadata and the given bytes after the header.
func digest(meta map[string]string, data []byte) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if key != DigestKey {
			fmt.Fprintf(h, "%s=%s\n", key, meta[key])
		}
	}
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// Encode returns the bytes of the file, which are the same for equal Files. If the metadata contain
// DigestKey, Encode replaces its value with the digest. Encode panics if the shape and the number of
// elements of a tensor do not match.
func (f File) Encode() []byte {
	var data []byte
	var entries []entry
	for _, t := range f.Tensors {
		n := 1
		for _, s := range t.Shape {
			n *= s
		}
		if n != len(t.Data) {
			panic(fmt.Sprintf("safetensors: tensor %q has shape %v but %d elements", t.Name, t.Shape, len(t.Data)))
		}
		begin := len(data)
		data, _ = binary.Append(data, binary.LittleEndian, t.Data)                                            // cannot fail for []float32
		entries = append(entries, entry{t.Name, "F32", append([]int{}, t.Shape...), []int{begin, len(data)}}) // [] if Shape is nil
	}
	var header []byte
	add := func(key string, value any) {
		k, _ := json.Marshal(key) // cannot fail for these types
		v, _ := json.Marshal(value)
		header = fmt.Appendf(header, ",%s:%s", k, v)
	}
	if meta := maps.Clone(f.Metadata); len(meta) > 0 {
		if _, ok := meta[DigestKey]; ok {
			meta[DigestKey] = digest(meta, data)
		}
		add(metadataKey, meta)
	}
	for _, e := range entries {
		add(e.name, e)
	}
	header = fmt.Appendf(nil, "{%s}", bytes.TrimPrefix(header, []byte(",")))
	for len(header)%8 != 0 { // align the elements for readers that map the file into memory
		header = append(header, ' ')
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header, data)
}

// An entry is the description of a tensor in a header.
type entry struct {
	name    string
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets []int  `json:"data_offsets"` // the first byte of the tensor in the data, and the byte after the last
}

// Decode decodes the bytes of a file. It returns an error unless
//
//   - the header has at most maxHeader bytes,
//   - all tensors are float32 and cover the data without gaps or overlaps, and
//   - the digest is correct, if the metadata contain a digest.
//
// It allocates at most a small multiple of len(b) bytes.
func Decode(b []byte, maxHeader int) (File, error) {
	if len(b) < 8 {
		return File{}, fmt.Errorf("it is not a safetensors file: it has only %d bytes", len(b))
	}
	n, rest := binary.LittleEndian.Uint64(b), b[8:]
	if n > uint64(min(len(rest), maxHeader)) {
		return File{}, fmt.Errorf("it is not a safetensors file, or it is truncated: its header should have %d bytes, but %d bytes follow, and the limit is %d", n, len(rest), maxHeader)
	}
	data := rest[n:]
	entries, meta, err := decodeHeader(rest[:n])
	if err != nil {
		return File{}, fmt.Errorf("its header is invalid: %w", err)
	}
	if want, ok := meta[DigestKey]; ok {
		if got := digest(meta, data); got != want {
			return File{}, fmt.Errorf("it is damaged: the SHA-256 of its contents is %s, but should be %.64q", got, want)
		}
	}
	f, end := File{Metadata: meta}, 0
	slices.SortStableFunc(entries, func(a, b entry) int { return slices.Compare(a.Offsets, b.Offsets) })
	for _, e := range entries {
		size := 4.0 // bytes; a float, because the product may overflow an int
		for _, s := range e.Shape {
			if size *= float64(s); s < 0 {
				size = math.NaN()
			}
		}
		begin := end
		if end = e.Offsets[1]; e.Offsets[0] != begin || end > len(data) || size != float64(end-begin) {
			return File{}, fmt.Errorf("tensor %.60q with the shape %.80s and the offsets %v does not follow the previous tensor, which ends at %d of %d bytes",
				e.name, fmt.Sprint(e.Shape), e.Offsets, begin, len(data))
		}
		t := Tensor{Name: e.name, Shape: e.Shape, Data: make([]float32, (end-begin)/4)}
		binary.Decode(data[begin:end], binary.LittleEndian, t.Data) // cannot fail for []float32
		f.Tensors = append(f.Tensors, t)
	}
	if end != len(data) {
		return File{}, fmt.Errorf("%d unexpected bytes follow the last tensor", len(data)-end)
	}
	return f, nil
}

// decodeHeader returns the descriptions of the tensors, sorted by name, and the metadata.
func decodeHeader(header []byte) (entries []entry, meta map[string]string, err error) {
	var values map[string]json.RawMessage // if a key is repeated, the last value
	if err := json.Unmarshal(header, &values); err != nil {
		return nil, nil, fmt.Errorf("it is not a JSON object: %.80v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == metadataKey {
			if err := json.Unmarshal(values[name], &meta); err != nil {
				return nil, nil, fmt.Errorf("its metadata is not a JSON object with string values: %.80v", err)
			}
			continue
		}
		e, d := entry{name: name}, json.NewDecoder(bytes.NewReader(values[name]))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil || e.DType != "F32" || e.Shape == nil || len(e.Offsets) != 2 {
			return nil, nil, fmt.Errorf("tensor %.60q must have the dtype F32, a shape and two data_offsets, but it is %.80s", name, values[name])
		}
		entries = append(entries, e)
	}
	return entries, meta, nil
}

// Check returns an error unless the tensors of f are finite and have the same names and shapes as
// the tensors in want. The Data in want may be nil.
func Check(f File, want []Tensor) error {
	for _, w := range want {
		t, ok := f.Tensor(w.Name)
		if !ok {
			return fmt.Errorf("tensor %q is missing", w.Name)
		}
		if !slices.Equal(t.Shape, w.Shape) {
			return fmt.Errorf("tensor %q has shape %.80s, but this model needs %v", w.Name, fmt.Sprint(t.Shape), w.Shape)
		}
		if i := slices.IndexFunc(t.Data, func(v float32) bool { return v-v != 0 }); i >= 0 {
			return fmt.Errorf("tensor %q is not finite: element %d is %v", w.Name, i, t.Data[i])
		}
	}
	for _, t := range f.Tensors {
		if _, ok := (File{Tensors: want}).Tensor(t.Name); !ok {
			return fmt.Errorf("tensor %.60q does not belong to this model", t.Name)
		}
	}
	return nil
}
