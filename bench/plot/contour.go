package plot

import "math"

// Contour returns the lines f(x, y) = level in the rectangle from (x0, y0) to (x1, y1). The result
// is one series with gaps between line segments. The algorithm is marching squares. It evaluates f
// at the corners of n×n squares. A line crosses an edge of a square if f < level at exactly one end
// of the edge. The position of the crossing is interpolated linearly.
func Contour(f func(x, y float64) float64, level, x0, y0, x1, y1 float64, n int) Series {
	type corner struct{ x, y, v float64 } // v = f(x, y) − level
	var grid []corner
	for j := range n + 1 {
		for i := range n + 1 {
			x, y := x0+(x1-x0)*float64(i)/float64(n), y0+(y1-y0)*float64(j)/float64(n)
			grid = append(grid, corner{x, y, f(x, y) - level})
		}
	}
	s := Series{Style: Thin}
	for j := range n {
		for i := range n {
			k := j*(n+1) + i
			square := [...]corner{grid[k], grid[k+1], grid[k+n+2], grid[k+n+1]} // counterclockwise
			crossings := 0                                                      // on the edges of the square: 0, 2 or, at a saddle point, 4 in total
			for c, a := range square {
				if b := square[(c+1)%4]; (a.v < 0) != (b.v < 0) {
					s.X, s.Y = append(s.X, a.x+(b.x-a.x)*a.v/(a.v-b.v)), append(s.Y, a.y+(b.y-a.y)*a.v/(a.v-b.v))
					if crossings++; crossings%2 == 0 {
						s.X, s.Y = append(s.X, math.NaN()), append(s.Y, math.NaN())
					}
				}
			}
		}
	}
	return s
}
