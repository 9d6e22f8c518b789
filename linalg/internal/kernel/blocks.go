package kernel

// blocks computes the contraction with SIMD kernels. All tiles of a strip read the same columns of B. If the
// contraction has too many steps, these columns do not stay in the first-level cache until the next tile needs them.
// The method therefore divides the steps into blocks, and computes one block after the other:
//
//	                   B
//	                ┌─────┐
//	                │  1  │   C_1 = Bias + A_1·B_1
//	                ├─────┤   C_2 = C_1 + A_2·B_2
//	      A         │  2  │   C   = C_2 + A_3·B_3
//	┌────┬────┬──┐  ├─────┤
//	│ 1  │ 2  │3 │  │  3  │   A block consists of several segments,
//	└────┴────┴──┘  └─────┘   or of a part of one segment.
//
// A block is itself a contraction. Its sums start with the partial sums in C, so blocks change neither the order of the
// additions nor any bit. If c.Add is set, there is only one block, because C holds the old elements until the end.
func (c *Contraction[T]) blocks() {
	s := kernelSets[level]
	limit, pack := s.block, c.scattered()
	if pack {
		limit = packedElements / (s.vectors * s.lanes)
	}
	segments, steps := len(c.Segments), c.Steps
	if segments*steps > limit && c.Rows >= minTiles*s.full[maxRows][s.vectors].rows && !c.Add {
		segments, steps = max(1, limit/steps), min(limit, steps)
	}
	for first := 0; first < len(c.Segments); first += segments {
		for p := 0; p < c.Steps; p += steps {
			block := *c
			block.Segments = c.Segments[first:min(first+segments, len(c.Segments))]
			block.A, block.B, block.Steps = c.A[p*c.AStep:], c.B[p*c.BStep:], min(steps, c.Steps-p)
			if first+p > 0 {
				block.Bias, block.continues = nil, true
			}
			if pack && block.Steps <= limit {
				block.packed()
			} else {
				block.tiles()
			}
		}
	}
}

const (
	minTiles       = 8       // smallest number of tiles for which a strip has blocks, which also load and store C
	packedElements = 6 << 10 // largest number of elements of B that the method packed copies: 24 KiB of float32
)

// scattered reports whether a block of B is slow to read, because its rows are a multiple of 512 bytes apart, so that
// few of them fit into the first-level cache, or at least 2 KiB apart, so that they are on too many memory pages. For
// 128 or more rows of A, a copy (see packed) then makes products of 1000×1000 matrices 1.4 times as fast, and a product
// of [512×450] and [450×128] 1.2 times.
func (c *Contraction[T]) scattered() bool {
	return (c.BStep%128 == 0 || c.BStep >= 512) && c.Rows >= 128 && c.Groups == 1 && len(c.Segments) == 1
}

// packed computes a block with one segment of few steps. For each strip, it first copies B to contiguous memory.
func (c *Contraction[T]) packed() {
	var buffer [packedElements]T
	s, strip := kernelSets[level], *c
	strip.Segments, strip.B, strip.BStep = []Segment{{A: c.Segments[0].A}}, buffer[:], s.vectors*s.lanes
	for j := 0; j < c.Cols; j += strip.BStep {
		strip.Cols = min(strip.BStep, c.Cols-j)
		for p := range c.Steps {
			copy(buffer[p*strip.BStep:][:strip.Cols], c.B[c.Segments[0].B+p*c.BStep+j:])
		}
		strip.tiles()
		strip.CStart += strip.BStep
	}
}
