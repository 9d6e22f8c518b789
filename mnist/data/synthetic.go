package data

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"sync"

	"hvae/linalg/random"
)

// synthetic returns 2,400 training images and 400 test images of digit-like shapes. The images are always the same.
var synthetic = sync.OnceValue(func() Set {
	set := Set{Name: Synthetic, Folder: Synthetic}
	set.Train, set.Test = Images{make([]byte, 2400*Pixels)}, Images{make([]byte, 400*Pixels)}
	for purpose, images := range map[string]Images{"synthetic train": set.Train, "synthetic test": set.Test} {
		for i := range images.Len() {
			draw(images.Image(i), random.Stream(1, purpose, i))
		}
	}
	set.SHA256 = digest(set.Train, set.Test)
	return set
})

// glyphs contains the strokes of the ten digits. Each stroke is a polygonal line through points of this grid:
//
//	0 1
//	2 3
//	4 5
var glyphs = [10][]string{
	{"01540"}, {"15"}, {"013245"}, {"0154", "23"}, {"023", "15"},
	{"102354"}, {"104532"}, {"014"}, {"01540", "23"}, {"320154"},
}

// draw draws a random digit with random rotation, slant, size, position and thickness on a blank image. Points of the
// plane are represented by complex numbers x + iy.
func draw(image []byte, rng *rand.Rand) {
	uniform := func(lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
	centre, turn := complex(uniform(12.5, 14.5), uniform(12.5, 14.5)), cmplx.Rect(1, uniform(-0.2, 0.2))
	width, height, slant := uniform(3.5, 6), uniform(7, 9), uniform(-3, 1)
	reach := uniform(1.4, 2.2) // distance from a line at which the ink ends
	place := func(point byte) complex128 {
		x, y := 2*float64(point%2)-1, float64((point-'0')/2)-1
		return centre + turn*complex(width*x+slant*y, height*y)
	}
	for _, stroke := range glyphs[rng.IntN(len(glyphs))] {
		for i := range len(stroke) - 1 {
			a := place(stroke[i])
			line := place(stroke[i+1]) - a
			inverse := 1 / line
			for j := range image {
				p := complex(float64(j%Side), float64(j/Side)) - a
				t := max(0, min(1, real(p*inverse))) // the closest point is a + t·line
				p -= complex(t, 0) * line            // the distance from the line is |p|
				if ink := reach - math.Sqrt(real(p)*real(p)+imag(p)*imag(p)); ink > 0 {
					image[j] = max(image[j], byte(math.Round(255*min(1, ink)))) // the edge of a line is one pixel wide
				}
			}
		}
	}
}
