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
	"errors"
	"fmt"
	"maps"
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
	elements := 0
	for _, t := range f.Tensors {
		elements += len(t.Data)
	}
	var header, entries []byte
	data := make([]byte, 0, 4*elements)
	text := func(v any) []byte { b, _ := json.Marshal(v); return b } // cannot fail for these types
	for _, t := range f.Tensors {
		n := 1
		for _, s := range t.Shape {
			n *= s
		}
		if n != len(t.Data) {
			panic(fmt.Sprintf("safetensors: tensor %q has shape %v but %d elements", t.Name, t.Shape, len(t.Data)))
		}
		begin := len(data)
		data, _ = binary.Append(data, binary.LittleEndian, t.Data) // cannot fail for []float32
		shape := text(append([]int{}, t.Shape...))                 // [] if Shape is nil
		entries = fmt.Appendf(entries, `,%s:{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}`, text(t.Name), shape, begin, len(data))
	}
	meta := maps.Clone(f.Metadata)
	if _, ok := meta[DigestKey]; ok {
		meta[DigestKey] = digest(meta, data)
	}
	if len(meta) > 0 {
		header = fmt.Appendf(nil, ",%q:%s", metadataKey, text(meta))
	}
	header = fmt.Appendf(nil, "{%s}", bytes.TrimPrefix(append(header, entries...), []byte(",")))
	for len(header)%8 != 0 { // align the elements for readers that map the file into memory
		header = append(header, ' ')
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header, data)
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
		return File{}, fmt.Errorf("it is not a safetensors file: it has only %d bytes, but its first 8 bytes should contain the length of the header", len(b))
	}
	n, rest := binary.LittleEndian.Uint64(b), b[8:]
	if n > uint64(len(rest)) {
		return File{}, fmt.Errorf("it is not a safetensors file, or it is truncated: its header should have %d bytes, but only %d bytes follow", n, len(rest))
	}
	if n > uint64(maxHeader) {
		return File{}, fmt.Errorf("it was not written by this program: its header has %d bytes, more than the limit of %d", n, maxHeader)
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
	f := File{Metadata: meta}
	slices.SortStableFunc(entries, func(a, b entry) int { return slices.Compare(a.Offsets, b.Offsets) })
	end := 0
	for _, e := range entries {
		t, err := e.tensor(data, end)
		if err != nil {
			return File{}, fmt.Errorf("tensor %.60q: %w", e.name, err)
		}
		f.Tensors = append(f.Tensors, t)
		end = e.Offsets[1]
	}
	if end != len(data) {
		return File{}, fmt.Errorf("%d unexpected bytes follow the last tensor", len(data)-end)
	}
	return f, nil
}

// An entry is the description of a tensor in a header.
type entry struct {
	name    string
	DType   string
	Shape   []int
	Offsets []int `json:"data_offsets"`
}

// decodeHeader returns the descriptions of the tensors, sorted by name, and the metadata.
func decodeHeader(header []byte) (entries []entry, meta map[string]string, err error) {
	values, err := object(header)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fields, err := object(values[name])
		if name == metadataKey {
			if err == nil {
				err = json.Unmarshal(values[name], &meta)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("its metadata is not a JSON object with string values: %.80v", err)
			}
			continue
		}
		for key := range fields { // json.Unmarshal would ignore other keys and accept "DType"
			if !slices.Contains([]string{"dtype", "shape", "data_offsets"}, key) {
				err = fmt.Errorf("unknown field %.60q", key)
			}
		}
		e := entry{name: name}
		if err == nil {
			err = json.Unmarshal(values[name], &e)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the description of tensor %.60q is invalid: %.80v", name, err)
		}
		if e.DType != "F32" {
			return nil, nil, fmt.Errorf("tensor %.60q has elements of type %.60q, but only F32 can be read", name, e.DType)
		}
		if e.Shape == nil || len(e.Offsets) != 2 {
			return nil, nil, fmt.Errorf("tensor %.60q needs a shape and two data_offsets", name)
		}
		entries = append(entries, e)
	}
	return entries, meta, nil
}

// object returns the values of a JSON object by key. If a key is repeated, it returns the last value.
func object(b []byte) (values map[string]json.RawMessage, err error) {
	if !bytes.HasPrefix(b, []byte("{")) {
		return nil, errors.New("it is not a JSON object")
	}
	if err := json.Unmarshal(b, &values); err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %.80v", err)
	}
	return values, nil
}

// tensor returns the tensor that e describes. The tensor must begin at previousEnd, the end of the previous
// tensor.
func (e entry) tensor(data []byte, previousEnd int) (Tensor, error) {
	begin, end := e.Offsets[0], e.Offsets[1]
	switch {
	case begin != previousEnd:
		return Tensor{}, fmt.Errorf("its offsets [%d, %d] do not begin at %d, the end of the previous tensor", begin, end, previousEnd)
	case end < begin || end > len(data):
		return Tensor{}, fmt.Errorf("its offsets [%d, %d] are outside the %d bytes of data: the file is truncated or damaged", begin, end, len(data))
	}
	size := 4.0 // bytes; a float, because the product may overflow an int
	for _, s := range e.Shape {
		size *= float64(s)
	}
	if size != float64(end-begin) || slices.ContainsFunc(e.Shape, func(s int) bool { return s < 0 }) {
		return Tensor{}, fmt.Errorf("its shape %.80s does not match its offsets [%d, %d], which span %d bytes", fmt.Sprint(e.Shape), begin, end, end-begin)
	}
	t := Tensor{Name: e.name, Shape: e.Shape, Data: make([]float32, (end-begin)/4)}
	binary.Decode(data[begin:end], binary.LittleEndian, t.Data) // cannot fail for []float32
	return t, nil
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
