package safetensors

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
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
	data := "\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f"
	sum := sha256.Sum256([]byte("a=one \"quoted\"\nb=2\n" + data))
	header := fmt.Sprintf(`{"__metadata__":{"a":"one \"quoted\"","b":"2","sha256":"%x"},`, sum) +
		`"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},` +
		`"scalar":{"dtype":"F32","shape":[],"data_offsets":[8,12]},` +
		`"none":{"dtype":"F32","shape":[0,3],"data_offsets":[12,12]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	want := file(header, data)
	if diff := cmp.Diff(string(want), string(f.Encode())); diff != "" {
		t.Errorf("the encoded bytes differ (-want +got):\n%s", diff)
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	one := func(shape, offsets string) string {
		return fmt.Sprintf(`{"w":{"dtype":"F32","shape":%s,"data_offsets":%s}}`, shape, offsets)
	}
	two := func(a, b string) string {
		return fmt.Sprintf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":%s},"b":{"dtype":"F32","shape":[1],"data_offsets":%s}}`, a, b)
	}
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "do not contain a header"},
		{"header beyond the end", file("{}", "")[:9], "its 9 bytes do not"},
		{"negative header length", []byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "do not contain a header"},
		{"no object", file("[1]", ""), "not a JSON object"},
		{"two objects", file("{} {}", ""), "not a JSON object"},
		{"a number in the metadata", file(`{"__metadata__":{"a":1}}`, ""), "string values"},
		{"another type", file(`{"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}`, "12"), "tensor \"w\" must"},
		{"no shape", file(`{"w":{"dtype":"F32","data_offsets":[0,4]}}`, "1234"), "tensor \"w\" must"},
		{"one offset", file(one("[1]", "[0]"), "1234"), "the offsets [0 0]"},
		{"truncated data", file(one("[2]", "[0,8]"), "1234"), "ends at 0 of 4"},
		{"negative offset", file(one("[1]", "[-4,0]"), "1234"), "[-4 0] does not follow"},
		{"shape and offsets disagree", file(one("[3]", "[0,8]"), "12345678"), "the shape [3]"},
		{"negative shape", file(one("[-1,-1]", "[0,4]"), "1234"), "the shape [-1 -1]"},
		{"overflowing shape", file(one("[4294967296,4294967296]", "[0,0]"), ""), "does not follow"},
		{"odd length", file(one("[1]", "[0,5]"), "12345"), "[0 5] does not follow"},
		{"overlap", file(two("[0,4]", "[0,4]"), "1234"), "ends at 4 of 4"},
		{"gap", file(two("[0,4]", "[8,12]"), "123412341234"), "ends at 4 of 12"},
		{"trailing bytes", file(one("[1]", "[0,4]"), "12345"), "1 unexpected bytes follow"},
		{"long name", file(fmt.Sprintf(`{"%s":{}}`, long), ""), "tensor \"xxx"},
		{"long shape", file(one("[1"+strings.Repeat(",1", 1<<19)+"]", "[0,0]"), ""), "does not follow"},
		{"long metadata", file(fmt.Sprintf(`{"__metadata__":{"%s":1}}`, long), ""), "string values"},
	} {
		_, err := Decode(c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 300 {
			t.Errorf("%s: error %.400v, want an error of at most 300 bytes with %q", c.name, err, c.want)
		}
	}
}

// If one bit of a file is flipped, except in DigestKey or in the name of a tensor, Decode must fail or return the same
// values.
func TestDigestCoversTensorsAndMetadata(t *testing.T) {
	b := File{Metadata: map[string]string{"b": "2", "a": "1"}, Tensors: []Tensor{{"w", []int{2}, []float32{1, -2}}}}.Encode()
	f, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(b) {
		damaged := slices.Clone(b)
		damaged[bit/8] ^= 1 << (bit % 8)
		got, err := Decode(damaged)
		if err != nil || got.Metadata[DigestKey] == "" {
			continue
		}
		if got.Tensors[0].Name = "w"; !cmp.Equal(f, got) {
			t.Errorf("Decode accepts %q, in which bit %d of byte %d is flipped", damaged, bit%8, bit/8)
		}
	}
}

// FuzzDecode checks that Decode never panics, and that Encode and Decode preserve every file that Decode accepts.
func FuzzDecode(f *testing.F) {
	f.Add(File{
		Metadata: map[string]string{"format": "x", "empty": ""},
		Tensors: []Tensor{
			{"a/ünïcode \n", []int{2, 2}, []float32{1, math.Float32frombits(0x7fc12345), float32(math.Inf(-1)), math.SmallestNonzeroFloat32}},
			{"empty", []int{0}, []float32{}}, {"s", []int{}, []float32{7}},
		},
	}.Encode())
	f.Add(file(`{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, ""))
	f.Add(file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, "12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(first.Encode())
		if err != nil {
			t.Fatalf("for the result of Encode, Decode returns the error %v, want nil", err)
		}
		equal := cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
		sameMap := cmp.Transformer("map", func(m map[string]string) string { // without the digest, which Encode adds
			m = maps.Clone(m)
			delete(m, DigestKey)
			return fmt.Sprint(len(m), m)
		})
		if diff := cmp.Diff(first, again, equal, sameMap); diff != "" {
			t.Fatalf("Encode and Decode change the file (-want +got):\n%s", diff)
		}
	})
}
