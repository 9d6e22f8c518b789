// Package safetensors reads and writes files of named float32 arrays in the safetensors
// format, which most machine-learning libraries read:
//
//	8 bytes   little-endian length n of the header
//	n bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
//	          "__metadata__": {"key": "value"}}
//	the rest  the arrays' elements, little-endian, at the offsets given
//
// Start with File. Decode checks every length and offset in a file, so files from anywhere are
// safe to read. Errors quote at most the beginning of a text from the file.
//
// The package imports bench/atomicfile.
package safetensors

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"hvae/bench/atomicfile"
)

// A File is the contents of a safetensors file.
type File struct {
	Metadata map[string]string
	Tensors  []Tensor // in the order of their data
}

// A Tensor is a named array. Data has the elements in row-major order. The Shape of a
// scalar is empty.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// Tensor returns the tensor with the given name and reports whether there is one.
func (f File) Tensor(name string) (t Tensor, ok bool) {
	i := slices.IndexFunc(f.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

const metadataKey = "__metadata__"

// DigestKey is the key of the digest in the metadata. The digest is the SHA-256, in hexadecimal
// digits, of a line "key=value\n" for each other key of the metadata, in sorted order, followed
// by the bytes after the header.
const DigestKey = "sha256"

// digest returns a hash to which the metadata have been written. The caller adds the bytes after
// the header.
func digest(meta map[string]string) hash.Hash {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if key != DigestKey {
			fmt.Fprintf(h, "%s=%s\n", key, meta[key])
		}
	}
	return h
}

// appendTo appends the elements' bytes to b.
func (t Tensor) appendTo(b []byte) []byte {
	for _, v := range t.Data {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// Encode returns the file's bytes, which depend on the contents only. If the metadata have the
// key DigestKey, Encode writes the digest as its value. Encode panics if the shape and the
// number of elements of a tensor do not match.
func (f File) Encode() []byte {
	if _, ok := f.Metadata[DigestKey]; ok {
		h := digest(f.Metadata)
		var b []byte
		for _, t := range f.Tensors {
			b = t.appendTo(b[:0])
			h.Write(b)
		}
		f.Metadata = maps.Clone(f.Metadata)
		f.Metadata[DigestKey] = hex.EncodeToString(h.Sum(nil))
	}
	var header bytes.Buffer
	text := func(v any) []byte { b, _ := json.Marshal(v); return b } // these types always marshal
	header.WriteByte('{')
	if len(f.Metadata) > 0 {
		fmt.Fprintf(&header, "%q:%s", metadataKey, text(f.Metadata)) // with sorted keys
	}
	end := 0 // of the tensors so far
	for _, t := range f.Tensors {
		n := 1
		for _, s := range t.Shape {
			n *= s
		}
		if n != len(t.Data) {
			panic(fmt.Sprintf("safetensors: tensor %q has shape %v and %d elements", t.Name, t.Shape, len(t.Data)))
		}
		if header.Len() > 1 {
			header.WriteByte(',')
		}
		shape := text(append([]int{}, t.Shape...)) // [] if it is nil
		fmt.Fprintf(&header, `%s:{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}`, text(t.Name), shape, end, end+4*n)
		end += 4 * n
	}
	header.WriteByte('}')
	for header.Len()%8 != 0 { // align the elements for readers that map the file
		header.WriteByte(' ')
	}
	out := make([]byte, 0, 8+header.Len()+end)
	out = binary.LittleEndian.AppendUint64(out, uint64(header.Len()))
	out = append(out, header.Bytes()...)
	for _, t := range f.Tensors {
		out = t.appendTo(out)
	}
	return out
}

// headerLength returns the length of the header from the first 8 bytes of a file of the given
// size.
func headerLength(first []byte, size int64) (int64, error) {
	if len(first) < 8 {
		return 0, fmt.Errorf("it is not a safetensors file: it has %d bytes, fewer than the 8 of the header's length", size)
	}
	n := binary.LittleEndian.Uint64(first)
	if n > maxFile {
		return 0, errors.New("it is not a safetensors file")
	}
	if int64(n) > size-8 {
		return 0, fmt.Errorf("it is cut off, or not a safetensors file: its header should have %d bytes, but only %d follow", n, size-8)
	}
	return int64(n), nil
}

// Decode returns the file that is encoded as b. It returns an error unless all tensors are float32
// and cover the data without gaps or overlaps, and the digest, if there is one, is right. It
// allocates at most a small multiple of len(b).
func Decode(b []byte) (File, error) {
	n, err := headerLength(b, int64(len(b)))
	if err != nil {
		return File{}, err
	}
	header, data := b[8:8+n], b[8+n:]
	entries, meta, err := decodeHeader(header)
	if err != nil {
		return File{}, err
	}
	if want, ok := meta[DigestKey]; ok {
		h := digest(meta)
		h.Write(data)
		if got := hex.EncodeToString(h.Sum(nil)); got != want {
			return File{}, fmt.Errorf("it is damaged: the SHA-256 of its contents is %s, but its metadata have %.64q", got, want)
		}
	}
	f := File{Metadata: meta}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(slices.Compare(a.offsets, b.offsets), cmp.Compare(a.name, b.name))
	})
	end := int64(0)
	for _, e := range entries {
		t, err := e.tensor(data, end)
		if err != nil {
			return File{}, fmt.Errorf("tensor %.60q: %w", e.name, err)
		}
		f.Tensors = append(f.Tensors, t)
		end = e.offsets[1]
	}
	if end != int64(len(data)) {
		return File{}, fmt.Errorf("%d bytes follow the last tensor", int64(len(data))-end)
	}
	return f, nil
}

// An entry describes a tensor in the header.
type entry struct {
	name, dtype    string
	shape, offsets []int64
}

// decodeHeader reads the header token by token, because json.Unmarshal would accept repeated
// keys and keys that differ in case.
func decodeHeader(header []byte) (entries []entry, meta map[string]string, err error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("its header is not a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	err = object(dec, func(name string) error {
		if name == metadataKey {
			meta = map[string]string{}
			err := object(dec, func(key string) error {
				value, err := dec.Token()
				text, ok := value.(string)
				if err == nil && !ok {
					err = fmt.Errorf("%.60q is not a string", key)
				}
				meta[key] = text
				return err
			})
			if err != nil {
				return fmt.Errorf("its metadata is not an object of strings: %w", err)
			}
			return nil
		}
		e := entry{name: name}
		err := object(dec, func(key string) error {
			switch key {
			case "dtype":
				return dec.Decode(&e.dtype)
			case "shape":
				return dec.Decode(&e.shape)
			case "data_offsets":
				return dec.Decode(&e.offsets)
			}
			return fmt.Errorf("%.60q is not a field of a tensor", key)
		})
		if err != nil {
			return fmt.Errorf("its header does not describe tensor %.60q: %.80v", name, err)
		}
		if e.dtype != "F32" {
			return fmt.Errorf("tensor %.60q has elements of type %.60q: only F32 can be read", name, e.dtype)
		}
		if e.shape == nil || len(e.offsets) != 2 {
			return fmt.Errorf("its header does not give the shape and two data_offsets of tensor %.60q", name)
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("its header is wrong: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, nil, errors.New("its header continues after the JSON object")
	}
	return entries, meta, nil
}

// object reads a JSON object without repeated keys. It calls field to read the value of a key.
func object(dec *json.Decoder, field func(key string) error) error {
	notJSON := func(err error) error { return fmt.Errorf("it is not JSON: %.80v", err) }
	token, err := dec.Token()
	if err != nil {
		return notJSON(err)
	}
	if token != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return notJSON(err)
		}
		key := token.(string)
		if seen[key] {
			return fmt.Errorf("it has %.60q twice", key)
		}
		seen[key] = true
		if err := field(key); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return notJSON(err)
	}
	return nil
}

// tensor returns the entry's tensor. The tensor must begin at offset last of data, where the
// previous tensor ends.
func (e entry) tensor(data []byte, last int64) (Tensor, error) {
	begin, end := e.offsets[0], e.offsets[1]
	switch {
	case begin < last:
		return Tensor{}, fmt.Errorf("its offsets [%d, %d] overlap the previous tensor, which ends at %d", begin, end, last)
	case begin > last:
		return Tensor{}, fmt.Errorf("its offsets [%d, %d] leave a gap after %d", begin, end, last)
	case end < begin || end > int64(len(data)):
		return Tensor{}, fmt.Errorf("its offsets [%d, %d] are outside the %d bytes of data: the file is cut off or damaged", begin, end, len(data))
	}
	t := Tensor{Name: e.name, Shape: make([]int, len(e.shape))}
	elements := int64(1)
	for i, s := range e.shape {
		// A tensor cannot have more elements than data has bytes. Checking this here also
		// keeps the product from overflowing.
		if s < 0 || s > int64(len(data)) || elements > int64(len(data)) {
			return Tensor{}, fmt.Errorf("shape %.80s does not fit %d bytes of data", fmt.Sprint(e.shape), len(data))
		}
		t.Shape[i] = int(s)
		elements *= s
	}
	if (end-begin)%4 != 0 || elements != (end-begin)/4 {
		return Tensor{}, fmt.Errorf("shape %.80s needs %d bytes, but its offsets [%d, %d] have %d", fmt.Sprint(e.shape), 4*elements, begin, end, end-begin)
	}
	t.Data = make([]float32, elements)
	for i := range t.Data {
		t.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[begin+4*int64(i):]))
	}
	return t, nil
}

// A Spec describes a tensor that a file should have.
type Spec struct {
	Name  string
	Shape []int
}

// Check returns an error if a tensor is missing, unknown, of the wrong shape or not finite.
func Check(f File, want []Spec) error {
	wanted := map[string]bool{}
	for _, w := range want {
		wanted[w.Name] = true
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
		if !wanted[t.Name] {
			return fmt.Errorf("tensor %.60q does not belong to this model", t.Name)
		}
	}
	return nil
}

// maxFile is the size in bytes of the largest file that ReadFile reads.
const maxFile = 1 << 30

// ReadFile reads a regular file of at most 1 GiB whose header has at most maxHeader bytes. It
// checks both sizes before it reads the file. Its errors name the file.
func ReadFile(name string, maxHeader int) (File, error) {
	in, err := atomicfile.Open(name)
	if err != nil {
		return File{}, err
	}
	defer in.Close()
	f, err := read(in, maxHeader)
	if err != nil {
		return File{}, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	return f, nil
}

func read(in *os.File, maxHeader int) (File, error) {
	s, err := in.Stat()
	if err != nil {
		return File{}, err
	}
	if s.Size() > maxFile {
		return File{}, fmt.Errorf("it has %d bytes, more than the limit of %d", s.Size(), maxFile)
	}
	first := make([]byte, min(8, s.Size()))
	if _, err := in.ReadAt(first, 0); err != nil {
		return File{}, err
	}
	n, err := headerLength(first, s.Size())
	if err != nil {
		return File{}, err
	}
	if n > int64(maxHeader) {
		return File{}, fmt.Errorf("it is not a file of this program: its header has %d bytes, more than the limit of %d", n, maxHeader)
	}
	b := make([]byte, s.Size())
	if _, err := io.ReadFull(in, b); err != nil {
		return File{}, err
	}
	return Decode(b)
}
