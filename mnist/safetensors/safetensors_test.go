package safetensors

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// file returns a file with the given header and the given bytes after the header.
func file(header, data string) []byte {
	return []byte(string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + data)
}

func TestEncodeWritesTheFormatByteForByte(t *testing.T) {
	f := File{
		Metadata: map[string]string{"b": "2", "a": "one \"quoted\""},
		Tensors:  []Tensor{{"w", []int{2, 1}, []float32{1, -2}}, {"scalar", nil, []float32{0.5}}, {"none", []int{0, 3}, nil}},
	}
	header := `{"__metadata__":{"a":"one \"quoted\"","b":"2"},` +
		`"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},` +
		`"scalar":{"dtype":"F32","shape":[],"data_offsets":[8,12]},` +
		`"none":{"dtype":"F32","shape":[0,3],"data_offsets":[12,12]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	want := file(header, "\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f")
	if diff := cmp.Diff(string(want), string(f.Encode())); diff != "" {
		t.Errorf("the encoded bytes differ (-want +got):\n%s", diff)
	}
}

func TestFileIsUnchangedAfterWritingAndReading(t *testing.T) {
	nan := math.Float32frombits(0x7fc12345)
	f := File{
		Metadata: map[string]string{"format": "x", "empty": ""},
		Tensors: []Tensor{
			{"a/ünïcode \n", []int{2, 2}, []float32{1, nan, float32(math.Inf(-1)), math.SmallestNonzeroFloat32}},
			{"empty", []int{0}, []float32{}}, {"s", []int{}, []float32{7}},
		},
	}
	got, err := Decode(f.Encode(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	bits := cmp.Transformer("bits", math.Float32bits)
	if diff := cmp.Diff(f, got, bits); diff != "" {
		t.Errorf("writing and reading change the file (-want +got):\n%s", diff)
	}
	if s, ok := got.Tensor("s"); !ok || s.Data[0] != 7 {
		t.Error(`Tensor("s") does not return the tensor`)
	}
	if _, ok := got.Tensor("t"); ok {
		t.Error(`Tensor("t") reports that the file contains the tensor, but it does not`)
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	one := func(shape, offsets string) string {
		return fmt.Sprintf(`{"w":{"dtype":"F32","shape":%s,"data_offsets":%s}}`, shape, offsets)
	}
	two := func(a, b string) string {
		return fmt.Sprintf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":%s},"b":{"dtype":"F32","shape":[1],"data_offsets":%s}}`, a, b)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "not a safetensors file"},
		{"short", []byte("1234567"), "not a safetensors file"},
		{"header beyond the end", file("{}", "")[:9], "its header should have 2 bytes, but only 1 bytes follow"},
		{"text", []byte("# Hamiltonian VAE\n"), "not a safetensors file"},
		{"absurd header length", []byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "not a safetensors file"},
		{"no JSON", file("hello", ""), "not a JSON object"},
		{"no object", file("[1]", ""), "not a JSON object"},
		{"truncated JSON", file(`{"w":`, ""), "not valid JSON"},
		{"JSON without the last brace", file(`{"__metadata__":{}`, ""), "not valid JSON"},
		{"two objects", file("{} {}", ""), "not valid JSON"},
		{"nested metadata", file(`{"__metadata__":{"a":{"b":"c"}}}`, ""), "not a JSON object with string values"},
		{"a field in capitals", file(`{"w":{"DType":"F32","shape":[],"data_offsets":[0,4]}}`, "1234"), `unknown field "DType"`},
		{"a null tensor", file(`{"w":null}`, ""), `description of tensor "w" is invalid`},
		{"a number in the metadata", file(`{"__metadata__":{"a":1}}`, ""), "not a JSON object with string values"},
		{"another type", file(`{"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}`, "12"), `type "BF16"`},
		{"an unknown field", file(`{"w":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}}`, "1234"), `description of tensor "w" is invalid`},
		{"no shape", file(`{"w":{"dtype":"F32","data_offsets":[0,4]}}`, "1234"), `tensor "w" needs a shape and two data_offsets`},
		{"one offset", file(one("[1]", "[0]"), "1234"), `tensor "w" needs a shape and two data_offsets`},
		{"a fraction", file(one("[1.5]", "[0,4]"), "1234"), `description of tensor "w" is invalid`},
		{"truncated data", file(one("[2]", "[0,8]"), "1234"), "outside the 4 bytes"},
		{"offsets backwards", file(one("[0]", "[0,-4]"), ""), "outside"},
		{"negative offset", file(one("[1]", "[-4,0]"), "1234"), "its offsets [-4, 0] do not begin at 0"},
		{"shape and offsets disagree", file(one("[3]", "[0,8]"), "12345678"), "shape [3] does not match its offsets [0, 8], which span 8 bytes"},
		{"negative shape", file(one("[-1,-1]", "[0,4]"), "1234"), "shape [-1 -1] does not match"},
		{"overflowing shape", file(one("[4294967296,4294967296]", "[0,0]"), ""), "does not match"},
		{"overflowing product", file(one("[8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8]", "[0,8]"), "12345678"), "does not match"},
		{"odd length", file(one("[1]", "[0,5]"), "12345"), "shape [1] does not match its offsets [0, 5]"},
		{"overlap", file(two("[0,4]", "[0,4]"), "1234"), "do not begin at 4, the end of the previous tensor"},
		{"gap", file(two("[0,4]", "[8,12]"), "123412341234"), "do not begin at 4, the end of the previous tensor"},
		{"trailing bytes", file(one("[1]", "[0,4]"), "12345"), "1 unexpected bytes follow"},
	} {
		_, err := Decode(c.b, 1000)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	scalar := Tensor{long, []int{}, []float32{1}}
	for name, err := range map[string]error{
		"name":     decodeError(file(fmt.Sprintf(`{"%s":{}}`, long), "")),
		"field":    decodeError(file(fmt.Sprintf(`{"w":{"%s":1}}`, long), "")),
		"type":     decodeError(file(fmt.Sprintf(`{"w":{"dtype":"%s"}}`, long), "")),
		"number":   decodeError(file(fmt.Sprintf(`{"w":{"shape":[%s]}}`, strings.Repeat("7", 1<<20)), "")),
		"metadata": decodeError(file(fmt.Sprintf(`{"__metadata__":{"%s":1}}`, long), "")),
		"shape":    decodeError(file(fmt.Sprintf(`{"w":{"dtype":"F32","shape":[1%s],"data_offsets":[0,0]}}`, strings.Repeat(",1", 1<<19)), "")),
		"tensor":   Check(File{Tensors: []Tensor{scalar}}, nil),
		"shapes":   Check(File{Tensors: []Tensor{{"w", make([]int, 1<<20), nil}}}, []Tensor{{"w", nil, nil}}),
	} {
		if err == nil || len(err.Error()) > 300 {
			t.Errorf("%s: error %.500v, want an error of at most 300 bytes", name, err)
		}
	}
}

// The digest must follow its definition in the comment on DigestKey. Decode must detect every flipped bit
// of a file, except in the name of a tensor and in DigestKey.
func TestDigestCoversTensorsAndMetadata(t *testing.T) {
	f := File{Metadata: map[string]string{"b": "2", "d": "4", DigestKey: "", "a": "1", "c": "3"}, Tensors: []Tensor{{"w", []int{2}, []float32{1, -2}}}}
	b := f.Encode()
	want := fmt.Sprintf("%x", sha256.Sum256([]byte("a=1\nb=2\nc=3\nd=4\n\x00\x00\x80\x3f\x00\x00\x00\xc0")))
	if got, err := Decode(b, len(b)); err != nil || got.Metadata[DigestKey] != want {
		t.Fatalf("the digest is %s, want %s (error %v)", got.Metadata[DigestKey], want, err)
	}
	for bit := range 8 * len(b) {
		damaged := slices.Clone(b)
		damaged[bit/8] ^= 1 << (bit % 8)
		if got, err := Decode(damaged, len(b)); err == nil && got.Metadata[DigestKey] == want && got.Tensors[0].Name == "w" {
			t.Errorf("Decode accepts %q, in which bit %d of byte %d is flipped", damaged, bit%8, bit/8)
		}
	}
}

func decodeError(b []byte) error {
	_, err := Decode(b, len(b))
	return err
}

func TestDecodeLimitsTheHeader(t *testing.T) {
	if _, err := Decode(file(strings.Repeat(" ", 1001)+"{}", ""), 1000); err == nil || !strings.Contains(err.Error(), "header has 1003 bytes, more than the limit of 1000") {
		t.Errorf("a long header gives the error %v", err)
	}
}

func TestCheckErrorsNameTheTensor(t *testing.T) {
	want := []Tensor{{Name: "w", Shape: []int{2}}, {Name: "b", Shape: []int{}}}
	w, b := Tensor{"w", []int{2}, []float32{1, 2}}, Tensor{"b", []int{}, []float32{3}}
	if err := Check(File{Tensors: []Tensor{b, w}}, want); err != nil {
		t.Errorf("for tensors in another order, Check returns the error %v, want nil", err)
	}
	for _, c := range []struct {
		tensors []Tensor
		want    string
	}{
		{[]Tensor{w}, `"b" is missing`},
		{[]Tensor{w, b, {"x", []int{}, []float32{0}}}, `"x" does not belong`},
		{[]Tensor{{"w", []int{1, 2}, w.Data}, b}, `"w" has shape [1 2], but this model needs [2]`},
		{[]Tensor{{"w", []int{2}, []float32{1, float32(math.NaN())}}, b}, "element 1 is NaN"},
		{[]Tensor{w, {"b", []int{}, []float32{float32(math.Inf(1))}}}, "element 0 is +Inf"},
	} {
		if err := Check(File{Tensors: c.tensors}, want); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want an error with %q", err, c.want)
		}
	}
}

// FuzzDecode checks that Decode never panics, and that Encode and Decode preserve every file that
// Decode accepts.
func FuzzDecode(f *testing.F) {
	f.Add(File{Metadata: map[string]string{"a": "b"}, Tensors: []Tensor{{"w", []int{2}, []float32{1, 2}}}}.Encode())
	f.Add(File{Metadata: map[string]string{DigestKey: ""}, Tensors: []Tensor{{"w", []int{1}, []float32{1}}}}.Encode())
	f.Add(file(`{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, ""))
	f.Add(file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, "12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := Decode(b, len(b))
		if err != nil {
			return
		}
		elements := 0
		for _, x := range first.Tensors {
			elements += len(x.Data)
		}
		if 4*elements > len(b) {
			t.Fatalf("Decode returned %d elements of 4 bytes for a file of %d bytes", elements, len(b))
		}
		encoded := first.Encode()
		again, err := Decode(encoded, len(encoded))
		if err != nil {
			t.Fatalf("for the result of Encode, Decode returns the error %v, want nil", err)
		}
		equal := cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
		sameMap := cmp.Transformer("map", func(m map[string]string) string { return fmt.Sprint(len(m), m) })
		if diff := cmp.Diff(first, again, equal, sameMap); diff != "" {
			t.Fatalf("Encode and Decode change the file (-want +got):\n%s", diff)
		}
	})
}
