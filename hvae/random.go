package hvae

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/hvae/internal/streams"
	"hvae/linalg"
)

// Stream returns the random stream of a key, which is a seed, a purpose and indices. Streams with
// different keys are independent. With one stream per task, results do not depend on scheduling.
func Stream(seed uint64, purpose string, index ...int) *rand.Rand {
	return new(Keyed).Reset(seed, purpose, index...)
}

// Keyed is a random stream whose key can change without allocation. Its zero value is ready to
// use. It is not safe for concurrent use.
type Keyed struct {
	pcg rand.PCG
	rng *rand.Rand
	key []byte
}

// Reset returns the stream of a key, as Stream does. It invalidates the previous stream.
func (k *Keyed) Reset(seed uint64, purpose string, index ...int) *rand.Rand {
	k.key = binary.LittleEndian.AppendUint64(k.key[:0], seed)
	k.key = binary.LittleEndian.AppendUint64(k.key, uint64(len(index)))
	for _, i := range index {
		k.key = binary.LittleEndian.AppendUint64(k.key, uint64(i))
	}
	k.key = append(k.key, purpose...)
	if record := streams.Recorder.Load(); record != nil {
		(*record)(seed, purpose, slices.Clone(index)) // without the copy, index would escape to the heap
	}
	h := sha256.Sum256(k.key)
	k.pcg.Seed(binary.LittleEndian.Uint64(h[:8]), binary.LittleEndian.Uint64(h[8:16]))
	if k.rng == nil {
		k.rng = rand.New(&k.pcg)
	}
	return k.rng
}

// Stream returns the stream of the last Reset in its current state.
func (k *Keyed) Stream() *rand.Rand { return k.rng }

// Noise returns a constant [rows×cols] of independent draws from N(0, 1).
func Noise[T linalg.Float](t *ad.Tape[T], rng *rand.Rand, rows, cols int) *ad.Var[T] {
	m := t.Matrix(rows, cols)
	FillNormal(rng, m)
	return t.Const(m)
}

// FillNormal fills m with independent draws from N(0, 1).
func FillNormal[T linalg.Float](rng *rand.Rand, m linalg.Matrix[T]) {
	for i := range m.Data {
		m.Data[i] = T(rng.NormFloat64())
	}
}

// FillNormalColumn fills column j of m with independent draws from N(0, 1).
func FillNormalColumn[T linalg.Float](rng *rand.Rand, m linalg.Matrix[T], j int) {
	for i := range m.Rows {
		m.Data[i*m.Cols+j] = T(rng.NormFloat64())
	}
}
