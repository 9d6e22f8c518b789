// Package random provides random streams. Each stream is determined by a key, which consists of a seed, a purpose
// (such as "mnist shuffle") and indices. If each task of a parallel program uses a separate stream, the results do
// not depend on the order in which tasks run.
package random

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"hvae/linalg"
)

// Stream returns the random stream for a key. Streams for different keys are independent.
func Stream(seed uint64, purpose string, index ...int) *rand.Rand {
	return rand.New(rand.NewPCG(hash(seed, purpose, index)))
}

// hash returns 128 bits of the SHA-256 hash of a key.
func hash(seed uint64, purpose string, index []int) (a, b uint64) {
	key := binary.LittleEndian.AppendUint64(make([]byte, 0, 128), seed) // on the stack
	key = binary.LittleEndian.AppendUint64(key, uint64(len(index)))
	for _, i := range index {
		key = binary.LittleEndian.AppendUint64(key, uint64(i))
	}
	h := sha256.Sum256(append(key, purpose...))
	return binary.LittleEndian.Uint64(h[:8]), binary.LittleEndian.Uint64(h[8:16])
}

// A Batch provides a random stream for each column of a batch. NewBatch computes the hash of the batch's key once, so
// starting the stream of a column takes only a few integer operations.
type Batch struct{ a, b uint64 } // hash of the key

// NewBatch returns the batch for a key.
func NewBatch(seed uint64, purpose string, index ...int) Batch {
	a, b := hash(seed, purpose, index)
	return Batch{a, b}
}

// Start sets pcg to the start of a column's stream. Columns are numbered from 0, and their streams are independent.
func (b Batch) Start(pcg *rand.PCG, column int) {
	const gamma = 0x9e3779b97f4a7c15
	pcg.Seed(mix(b.a+gamma*uint64(column+1)), mix(b.b+gamma*uint64(column+1)))
}

// mix is the output function of SplitMix64 (Steele, Lea and Flood, 2014), and gamma in Start is the increment of
// SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
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
