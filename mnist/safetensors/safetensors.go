// Package safetensors reads and writes files of named float32 arrays in the safetensors
// format, which most machine-learning libraries read:
//
//	8 bytes   little-endian length n of the header
//	n bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
//	          "__metadata__": {"key": "value"}}
//	the rest  the elements of the arrays, little-endian, at the offsets in the header
//
// Decode is safe for untrusted files, and its errors quote at most 80 characters of a file at a time.
package safetensors

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// A File is the contents of a safetensors file.
type File struct {
	Metadata map[string]string
	Tensors  []Tensor // in the order of their data in the file
}

// A Tensor is a named array. Data holds the elements in row-major order. The Shape of a scalar is empty.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

const metadataKey = "__metadata__"

// DigestKey is the metadata key of the digest, a SHA-256 hash in hexadecimal. The digest covers the lines
// "key=value\n" of all other metadata, sorted by key, followed by the bytes after the header.
const DigestKey = "sha256"

func digest(meta map[string]string, data []byte) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if key != DigestKey {
			fmt.Fprintf(h, "%s=%s\n", key, meta[key])
		}
	}
	h.Write(data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// An entry is the description of a tensor in a header.
type entry struct {
	name    string
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"` // begin and end of the tensor, in bytes after the header
}

// size returns the number of bytes of a tensor with e.Shape, or NaN if it is negative along an axis. The result is a
// float, because the product may overflow an int.
func (e entry) size() float64 {
	size := 4.0
	for _, n := range e.Shape {
		if n < 0 {
			return math.NaN()
		}
		size *= float64(n)
	}
	return size
}

// Encode returns the encoded file, whose metadata contain the digest. Equal Files have equal encodings. The number of
// elements of each tensor must match its shape.
func (f File) Encode() []byte {
	var data, entries []byte
	for _, t := range f.Tensors {
		begin := len(data)
		data, _ = binary.Append(data, binary.LittleEndian, t.Data) // cannot fail for []float32
		name, _ := json.Marshal(t.Name)                            // cannot fail for these types
		shape := append([]int{}, t.Shape...)                       // [] instead of null for a scalar
		e, _ := json.Marshal(entry{DType: "F32", Shape: shape, Offsets: [2]int{begin, len(data)}})
		entries = fmt.Appendf(entries, ",%s:%s", name, e)
	}
	meta := map[string]string{}
	maps.Copy(meta, f.Metadata)
	meta[DigestKey] = digest(meta, data)
	m, _ := json.Marshal(meta)
	header := fmt.Appendf(nil, "{%q:%s%s}", metadataKey, m, entries)
	for len(header)%8 != 0 { // align the elements for readers that map the file into memory
		header = append(header, ' ')
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header, data)
}

// Decode decodes the bytes of a file. It returns an error if a tensor is not float32, if the tensors do not cover the
// data without gaps or overlaps, or if the digest is wrong. It allocates at most a small multiple of len(b) bytes.
func Decode(b []byte) (File, error) {
	fail := func(format string, args ...any) (File, error) {
		return File{}, fmt.Errorf("it is not a valid safetensors file: "+format, args...)
	}
	if len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
		return fail("its %d bytes do not contain a header", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	header, data := b[8:8+n], b[8+n:]
	var values map[string]json.RawMessage // for a repeated key, the last value
	if err := json.Unmarshal(header, &values); err != nil {
		return fail("its header is not a JSON object: %.80v", err)
	}
	var f File
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == metadataKey {
			err := json.Unmarshal(values[name], &f.Metadata)
			if err != nil {
				return fail("its metadata is not a JSON object with string values: %.80v", err)
			}
			continue
		}
		e := entry{name: name}
		err := json.Unmarshal(values[name], &e)
		if err != nil || e.DType != "F32" || e.Shape == nil {
			return fail("tensor %.60q must have the dtype F32, a shape and two data_offsets, but it is %.80s",
				name, values[name])
		}
		entries = append(entries, e)
	}
	if want, ok := f.Metadata[DigestKey]; ok && digest(f.Metadata, data) != want {
		return fail("it is damaged, because the SHA-256 of its contents is not %.64q", want)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return slices.Compare(a.Offsets[:], b.Offsets[:]) })
	end := 0
	for _, e := range entries {
		begin := end
		end = e.Offsets[1]
		if e.Offsets[0] != begin || end > len(data) || e.size() != float64(end-begin) {
			return fail("tensor %.60q with the shape %.80s and the offsets %v does not follow the previous tensor, "+
				"which ends at %d of %d bytes", e.name, fmt.Sprint(e.Shape), e.Offsets, begin, len(data))
		}
		t := Tensor{Name: e.name, Shape: e.Shape, Data: make([]float32, (end-begin)/4)}
		binary.Decode(data[begin:end], binary.LittleEndian, t.Data) // cannot fail for []float32
		f.Tensors = append(f.Tensors, t)
	}
	if end != len(data) {
		return fail("%d unexpected bytes follow the last tensor", len(data)-end)
	}
	return f, nil
}
