package plot

import "math"

// Contour returns the lines where f(x, y) = level, as one series with gaps between segments. It
// uses marching squares: f is evaluated on a grid of n×n squares between the corners (x0, y0) and
// (x1, y1). A line crosses each edge whose ends are on different sides of the level, at the point
// given by linear interpolation.
func Contour(f func(x, y float64) float64, level, x0, y0, x1, y1 float64, n int) Series {
	s := Series{Style: Thin}
	value := make([]float64, (n+1)*(n+1))
	at := func(i, j int) (x, y float64) {
		return x0 + (x1-x0)*float64(i)/float64(n), y0 + (y1-y0)*float64(j)/float64(n)
	}
	for j := range n + 1 {
		for i := range n + 1 {
			value[j*(n+1)+i] = f(at(i, j)) - level
		}
	}
	// The corners of a square, counterclockwise.
	corners := [...][2]int{{0, 0}, {1, 0}, {1, 1}, {0, 1}}
	for j := range n {
		for i := range n {
			var xs, ys []float64
			for c := range corners {
				i0, j0 := i+corners[c][0], j+corners[c][1]
				i1, j1 := i+corners[(c+1)%4][0], j+corners[(c+1)%4][1]
				a, b := value[j0*(n+1)+i0], value[j1*(n+1)+i1]
				if (a < 0) == (b < 0) {
					continue
				}
				xa, ya := at(i0, j0)
				xb, yb := at(i1, j1)
				xs, ys = append(xs, xa+(xb-xa)*a/(a-b)), append(ys, ya+(yb-ya)*a/(a-b))
			}
			// A square has no crossing, two, or four (a saddle).
			for k := 0; k < len(xs); k += 2 {
				s.X = append(s.X, xs[k], xs[k+1], math.NaN())
				s.Y = append(s.Y, ys[k], ys[k+1], math.NaN())
			}
		}
	}
	return s
}
