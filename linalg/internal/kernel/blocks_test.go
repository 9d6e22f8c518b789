package kernel

import (
	"runtime"
	"testing"
)

func TestBlocksAllocateNothing(t *testing.T) {
	c := Contraction[float32]{
		Rows: 8, Cols: 8, Groups: 1, Steps: 8, Segments: []Segment{{}},
		A: make([]float32, 64), ARow: 8, AStep: 1, B: make([]float32, 64), BStep: 8, C: make([]float32, 64), CRow: 8,
	}
	other := Contraction[float64]{
		Rows: 8, Cols: 8, Groups: 1, Steps: 8, Segments: []Segment{{}},
		A: make([]float64, 64), ARow: 8, AStep: 1, B: make([]float64, 64), BStep: 8, C: make([]float64, 64), CRow: 8,
	}
	c.blocks()
	other.blocks()
	if n := testing.AllocsPerRun(20, func() {
		for range 2 { // collections, as may come at any time; two of them empty a sync.Pool
			runtime.GC()
		}
		c.blocks()
		other.blocks()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
