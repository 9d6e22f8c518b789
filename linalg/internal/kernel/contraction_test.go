package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// define computes a contraction directly from its definition. The function mulAdd returns a·b + c.
func define[T Float](c Contraction[T], mulAdd func(a, b, c T) T) {
	for g := range c.Groups {
		for i := range c.Rows {
			for j := range c.Cols {
				var sum T
				if c.Bias != nil {
					sum = c.Bias[i]
				}
				for _, s := range c.Segments {
					for p := range c.Steps {
						sum = mulAdd(c.A[s.A+i*c.ARow+p*c.AStep], c.B[s.B+g*c.BGroup+p*c.BStep+j], sum)
					}
				}
				y := &c.C[c.CStart+g*c.CGroup+i*c.CRow+j]
				if c.Add {
					sum += *y
				}
				*y = sum
			}
		}
	}
}

// randomContraction returns a random contraction of the given size. There may be gaps between rows and between groups.
func randomContraction[T Float](rng *rand.Rand, rows, cols, steps, groups int) Contraction[T] {
	c := Contraction[T]{Rows: rows, Cols: cols, Steps: steps, Groups: groups, Add: rng.IntN(2) == 0}
	c.CRow = c.Cols + rng.IntN(3)
	c.CStart, c.CGroup = rng.IntN(20), c.Rows*c.CRow+rng.IntN(3)
	c.ARow, c.AStep = 1, c.Rows+rng.IntN(3)
	if rng.IntN(2) == 0 {
		c.ARow, c.AStep = c.Steps+rng.IntN(3), 1
	}
	c.BStep, c.BGroup = c.Cols+rng.IntN(3), rng.IntN(30)
	for range rng.IntN(5) {
		c.Segments = append(c.Segments, Segment{rng.IntN(9), rng.IntN(9)})
	}
	c.A = normals[T](rng, 8+(c.Rows-1)*c.ARow+max(0, c.Steps-1)*c.AStep+1)
	c.B = normals[T](rng, 8+(c.Groups-1)*c.BGroup+max(0, c.Steps-1)*c.BStep+c.Cols)
	c.C = normals[T](rng, (c.Groups-1)*c.CGroup+(c.Rows-1)*c.CRow+c.Cols+20)
	if rng.IntN(2) == 0 {
		c.Bias = normals[T](rng, c.Rows)
	}
	if rng.IntN(5) == 0 {
		for _, x := range [][]T{c.A, c.B, c.C} {
			x[rng.IntN(len(x))] = special[T](rng)
		}
	}
	return c
}

// TestContractionsMatchTheirDefinition checks contractions whose sizes are close to multiples of tile and vector sizes.
// The results must be bit-identical to the results of define, which uses fused multiply-adds if the contraction uses
// SIMD kernels. Elements of c.C outside the matrices C_g must not change.
func TestContractionsMatchTheirDefinition(t *testing.T) {
	OnEachLevel(func(name string) {
		t.Run(name, func(t *testing.T) {
			if simd32[float32]() {
				testContractions(t, fused)
			} else {
				testContractions(t, func(a, b, c float32) float32 { return float32(a*b) + c })
			}
			testContractions(t, func(a, b, c float64) float64 { return float64(a*b) + c })
		})
	})
}

func testContractions[T Float](t *testing.T, mulAdd func(a, b, c T) T) {
	rng := rand.New(rand.NewPCG(1, 1))
	compare := func(c Contraction[T]) {
		want := c
		want.C = slices.Clone(c.C)
		define(want, mulAdd)
		c.Run()
		if i := firstDifference(c.C, want.C); i >= 0 {
			t.Fatalf("%T: [%d×%d], %d steps, %d groups, %d segments, bias %v, add %v: element %d is %v, want %v",
				c.C[0], c.Rows, c.Cols, c.Steps, c.Groups, len(c.Segments), c.Bias != nil, c.Add, i, c.C[i], want.C[i])
		}
	}
	check := func(rows, cols, steps, groups int) {
		compare(randomContraction[T](rng, rows, cols, steps, groups))
	}
	n := 0
	for rows := range 34 {
		for cols := range 53 {
			skipRows := rows > 18 && rows%8 > 1
			skipCols := cols > 18 && !slices.Contains([]int{0, 1, 4, 7}, cols%8)
			if skipRows || skipCols {
				continue
			}
			for _, groups := range []int{1, 2, 3, 4, 5, 9} {
				n++
				all := simd32[T]() && !testing.Short() // plain Go and float64 have no tiles, so every fifth case suffices
				if rows > 0 && cols > 0 && (n%5 == 0 || all) {
					check(rows, cols, rng.IntN(4), groups)
				}
			}
		}
	}
	for range 12 { // several blocks, which consist of whole segments or of parts of one
		check(1+rng.IntN(100), 1+rng.IntN(100), rng.IntN(200), 1+rng.IntN(3))
	}
	zero := []T{T(math.Copysign(0, -1))}
	c := randomContraction[T](rng, 64, 20, 200, 2) // all terms are −0
	c.A, c.B, c.Bias = slices.Repeat([]T{1}, len(c.A)), slices.Repeat(zero, len(c.B)), slices.Repeat(zero, c.Rows)
	c.Segments, c.Add = make([]Segment, 2), false
	compare(c)
	for i, cols := range []int{3, 40, 55, 60} { // the rows of B collide in the cache
		c := randomContraction[T](rng, 131, cols, 50+250*(i%2), 1)
		c.Segments, c.BStep, c.B = []Segment{{A: 7, B: 5}}, 256, normals[T](rng, 5+256*c.Steps)
		compare(c)
		c.Add = !c.Add
		compare(c)
	}
}

func TestContractionsCheckBounds(t *testing.T) {
	fits := func() Contraction[float64] { // returns a contraction whose operands have exactly the required length
		c := Contraction[float64]{
			Rows: 3, Cols: 5, Steps: 4, Groups: 2,
			CStart: 1, CRow: 6, CGroup: 20, ARow: 10, AStep: 2, BStep: 7, BGroup: 30,
			Segments: []Segment{{A: 2, B: 9}, {A: 3, B: 1}}, Bias: make([]float64, 3),
		}
		c.C = make([]float64, 1+20+2*6+5)
		c.A = make([]float64, 3+2*10+3*2+1)
		c.B = make([]float64, 9+30+3*7+5)
		return c
	}
	run := func(change func(c *Contraction[float64])) (panicked any) {
		c := fits()
		change(&c)
		return panicOf(func() { c.Run() })
	}
	for what, change := range map[string]func(c *Contraction[float64]){
		"operands of the exact length": func(c *Contraction[float64]) {},
		"no segments, A and B":         func(c *Contraction[float64]) { c.Segments, c.A, c.B = nil, nil, nil },
		"no steps, A and B":            func(c *Contraction[float64]) { c.Steps, c.A, c.B = 0, nil, nil },
		"no rows and no C":             func(c *Contraction[float64]) { c.Rows, c.C = 0, nil },
	} {
		if msg := run(change); msg != nil {
			t.Errorf("%s: Run panicked with %v", what, msg)
		}
	}
	for what, change := range map[string]func(c *Contraction[float64]){
		"C too short":                func(c *Contraction[float64]) { c.C = c.C[1:] },
		"A too short":                func(c *Contraction[float64]) { c.A = c.A[1:] },
		"B too short":                func(c *Contraction[float64]) { c.B = c.B[1:] },
		"bias too short":             func(c *Contraction[float64]) { c.Bias = c.Bias[1:] },
		"negative start of C":        func(c *Contraction[float64]) { c.CStart = -1 },
		"negative group stride of C": func(c *Contraction[float64]) { c.CStart, c.CGroup = 21, -20 },
		"negative segment in A":      func(c *Contraction[float64]) { c.Segments[0].A = -1 },
		"negative segment in B":      func(c *Contraction[float64]) { c.Segments[1].B = -1 },
		"segment beyond A":           func(c *Contraction[float64]) { c.Segments[0].A = 4 },
		"segment beyond B":           func(c *Contraction[float64]) { c.Segments[1].B = 10 },
		"negative row stride of A":   func(c *Contraction[float64]) { c.ARow = -1 },
		"negative step stride of A":  func(c *Contraction[float64]) { c.AStep = -1 },
		"negative step stride of B":  func(c *Contraction[float64]) { c.BStep = -1 },
		"negative group stride of B": func(c *Contraction[float64]) { c.BGroup = -1 },
		"negative row stride of C":   func(c *Contraction[float64]) { c.CRow = -1 },
	} {
		if msg := run(change); !strings.HasPrefix(fmt.Sprint(msg), "linalg: Contraction: ") {
			t.Errorf("%s: Run panicked with %v, want a message about the contraction", what, msg)
		}
	}
}
