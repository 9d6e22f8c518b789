package hvae

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"hvae/linalg"
)

// Stream returns the random stream of a key: a seed, a purpose, and where there are
// many streams of that purpose, which one. Streams of different keys are independent.
// Work that is shared among goroutines draws from a stream for each piece, never from
// a common one, and so does not depend on who comes first.
func Stream(seed uint64, purpose string, index ...int) *rand.Rand {
	key := binary.LittleEndian.AppendUint64(nil, seed)
	key = binary.LittleEndian.AppendUint64(key, uint64(len(index)))
	for _, i := range index {
		key = binary.LittleEndian.AppendUint64(key, uint64(i))
	}
	key = append(key, purpose...)
	h := sha256.Sum256(key)
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(h[:8]), binary.LittleEndian.Uint64(h[8:16])))
}

// FillNormal fills m with independent draws from N(0, 1).
func FillNormal[T linalg.Float](rng *rand.Rand, m linalg.Matrix[T]) {
	for i := range m.Data {
		m.Data[i] = T(rng.NormFloat64())
	}
}
