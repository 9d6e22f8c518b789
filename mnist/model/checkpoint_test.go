package model

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func testCheckpoint() Checkpoint {
	return Checkpoint{Network: New[float32](free, -1, 5), Seed: 5, Epoch: 3, ELBO: -101.25, Data: "mnist", DataSHA256: "12"}
}

// split returns the header of a safetensors file and the bytes after it.
func split(b []byte) (header string, data []byte) {
	n := binary.LittleEndian.Uint64(b)
	return string(b[8 : 8+n]), b[8+n:]
}

func join(header string, data []byte) []byte {
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), []byte(header), data)
}

// withoutDigest returns the parts of a checkpoint whose digest has a wrong key, so DecodeCheckpoint does not check it.
func withoutDigest() (header string, data []byte) {
	header, data = split(testCheckpoint().Encode())
	return strings.Replace(header, `"sha256"`, `"digest"`, 1), data
}

// Besides a new checkpoint, the test reads two models in mnist/results, which have the documented format, with digests.
func TestCheckpointsAreUnchangedAfterReadingAndWriting(t *testing.T) {
	c := testCheckpoint()
	c.Config.Draws, c.Config.Importance = 5, true
	files := [][]byte{c.Encode()}
	for _, name := range []string{"../results/vae.safetensors", "../results/hvae.safetensors"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	for i, want := range files {
		c, err := DecodeCheckpoint(want)
		if err != nil || !bytes.Equal(c.Encode(), want) {
			t.Errorf("reading and writing changes file %d (error %v)", i, err)
		}
	}
}

// Other programs may write the tensors in a different order. In this test, the first two tensors are swapped.
func TestTensorsMayHaveAnotherOrder(t *testing.T) {
	header, data := withoutDigest()
	header = strings.NewReplacer("[0,1600]", "[64,1664]", "[1600,1664]", "[0,64]").Replace(header)
	c, err := DecodeCheckpoint(join(header, slices.Concat(data[1600:1664], data[:1600], data[1664:])))
	if err != nil || !bytes.Equal(c.Encode(), testCheckpoint().Encode()) {
		t.Errorf("a checkpoint with tensors in another order gives another model (error %v)", err)
	}
}

func TestInvalidCheckpointsAreRefused(t *testing.T) {
	header, data := withoutDigest()
	nan, inf := slices.Clone(data), slices.Clone(data)
	binary.LittleEndian.PutUint32(nan[28:], math.Float32bits(float32(math.NaN())))
	binary.LittleEndian.PutUint32(inf[1612:], math.Float32bits(float32(math.Inf(1))))
	long := strings.Repeat("x", 1<<16)
	files := map[string][]byte{ // by a part of the error
		"its 0 bytes do not":                  {},
		"its 8 bytes do not":                  join("", nil),
		"its 10 bytes do not":                 []byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"), // a negative length
		"its 11 bytes do not":                 join(" {}", nil),                             // other readers refuse the space
		"in 1000 bytes)":                      join(header, data[:1000]),
		"it has 24 tensors in":                join(header, append(slices.Clone(data), 0)),
		"encoder.conv1.weight is not finite":  join(header, nan),
		"encoder.conv1.bias is not finite":    join(header, inf),
		"not a valid safetensors file: json":  join(`{"x":1}`, nil),
		"not a valid safetensors file: inval": join(header+"{}", data),
	}
	for want, change := range map[string][2]string{ // replacements in the header
		"copy it or train it again": {`"digest":"`, `"sha256":"x`},
		"cannot unmarshal number":   {`"K":"2"`, `"K":2`},
		`format is "hvae-mnist/2"`:  {"hvae-mnist/1", "hvae-mnist/2"},
		`max_eps = "0.9"`:           {"0.5", "0.9"},
		`K = "many"`:                {`"K":"2"`, `"K":"many"`},
		`val_elbo = "NaN"`:          {"-101.25", "NaN"},
		`unknown tempering "hot"`:   {"free", "hot"},
		`model "xxx`:                {`"hvae"`, `"` + long + `"`},
		"5000 latent dimensions":    {`"latent":"3"`, `"latent":"5000"`},
		`importance = ""`:           {`"seed"`, `"draws":"5","seed"`},
		`seed = ""`:                 {`"seed":"5",`, ""},
		"want {F32 [9999 3] [":      {`"K":"2"`, `"K":"9999"`},
		"want {F32 [4096 450] [":    {`"latent":"3"`, `"latent":"4096"`},
		"conv1.bias is { [] [0 0]}": {"encoder.conv1.bias", long},
		"is {F16 [16 1 5 5] [0":     {"F32", "F16"},
		"it has 25 tensors in":      {"}}", `},"extra":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`},
		"[2 3] [":                   {"[2,3]", "[3,2]"},
		"[16] [1600 1668]}, want":   {"[1600,1664]", "[1600,1668]"},
		"[16] [1596 1660]}, want":   {"[1600,1664]", "[1596,1660]"},
		"[16] [-64 0]}, want":       {"[1600,1664]", "[-64,0]"},
		"is {F32 [1 1 1 1 1 1 1 1 ": {"[16,1,5,5]", "[1" + strings.Repeat(",1", 1<<16) + "]"},
	} {
		files[want] = join(strings.Replace(header, change[0], change[1], 1), data)
	}
	for want, b := range files {
		_, err := decode(t, b)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("error %.1000v, want an error of at most 300 bytes with %q", err, want)
		}
	}
}

// decode decodes a checkpoint. The test fails if this allocates much more memory than the size of the file.
func decode(t *testing.T, b []byte) (Checkpoint, error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, err := DecodeCheckpoint(b)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 20*uint64(len(b))+10_000 {
		t.Errorf("DecodeCheckpoint allocates %d bytes for a file of %d bytes (error %v)", n, len(b), err)
	}
	return c, err
}

func TestFlippedBitsAreNoticed(t *testing.T) {
	b := testCheckpoint().Encode()
	header, _ := split(b)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		end := 8 + len(header)
		if i%8 == 0 {
			end = len(b)
		}
		at, bit := rng.IntN(end), rng.IntN(8)
		b[at] ^= 1 << bit
		c, err := DecodeCheckpoint(b)
		b[at] ^= 1 << bit
		if err == nil && !bytes.Equal(c.Encode(), b) { // the JSON decoder ignores the case of keys
			t.Errorf("DecodeCheckpoint accepts a file in which bit %d of byte %d is flipped", bit, at)
		}
	}
}

// FuzzCheckpoint decodes checkpoints with changed headers. DecodeCheckpoint must not panic or allocate much memory, and
// must accept only valid configurations.
func FuzzCheckpoint(f *testing.F) {
	header, data := withoutDigest()
	f.Add(header)
	f.Add(strings.Replace(header, `"K":"2"`, `"K":"9999"`, 1))
	f.Add(strings.Replace(header, `"latent":"3"`, `"latent":"4096"`, 1))
	f.Fuzz(func(t *testing.T, header string) {
		c, err := decode(t, join(header, data))
		if err == nil && c.Config.Check() != nil {
			t.Errorf("DecodeCheckpoint accepts the invalid configuration %+v", c.Config)
		}
	})
}
