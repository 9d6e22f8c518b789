package plot

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// An axis maps values to pixels.
type axis struct {
	log      bool
	min, max float64 // range of the values, or of their logarithms
	from, to float64 // pixel coordinates of min and max
	ticks    []float64
	powers   bool // tick labels are powers of ten
}

// scale returns v or, on a logarithmic axis, log₁₀ v.
func (a axis) scale(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

// at returns the pixel coordinate of v. The result is infinite or NaN if the axis cannot show v.
func (a axis) at(v float64) float64 {
	return a.from + (a.scale(v)-a.min)/(a.max-a.min)*(a.to-a.from)
}

// label returns the text of a tick.
func (a axis) label(v float64) string {
	if a.powers {
		return "10" + superscript.Replace(strconv.Itoa(int(math.Round(math.Log10(v)))))
	}
	return strings.Replace(strconv.FormatFloat(v, 'f', -1, 32), "-", "−", 1) // float32 hides rounding errors
}

var superscript = strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶",
	"7", "⁷", "8", "⁸", "9", "⁹")

func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// newAxis returns an axis whose range contains the values, with a small margin. If ticks is nil, newAxis places at most
// seven ticks at multiples of 1, 2 or 5 times a power of ten. On a logarithmic axis, it places them at 1, 2 and 5 times
// the powers of ten, or at no more than eleven powers of ten if the axis contains at least three.
func newAxis(logarithmic bool, ticks, values []float64) axis {
	a := axis{log: logarithmic, min: math.Inf(1), max: math.Inf(-1), ticks: ticks}
	for _, v := range values {
		if s := a.scale(v); finite(s) {
			a.min, a.max = min(a.min, s), max(a.max, s)
		}
	}
	if a.min > a.max { // no values
		a.min, a.max = 0, 1
	}
	margin := cmp.Or(0.045*(a.max-a.min), 0.5) // the latter is for one value
	a.min, a.max = a.min-margin, a.max+margin
	switch {
	case ticks != nil:
	case logarithmic:
		a.powers = math.Floor(a.max)-math.Ceil(a.min) >= 2
		step := math.Ceil((a.max - a.min) / 10)
		for e := math.Floor(a.min); e <= a.max; e++ {
			for _, m := range []float64{1, 2, 5} {
				v := e + math.Log10(m)
				if v >= a.min && v <= a.max && (!a.powers || m == 1 && math.Mod(e, step) == 0) {
					a.ticks = append(a.ticks, m*math.Pow(10, e))
				}
			}
		}
	default:
		least := (a.max - a.min) / 6 // smallest distance between ticks
		step := math.Pow(10, math.Floor(math.Log10(least)))
		for _, m := range []float64{2, 2.5, 2} {
			if step < least {
				step *= m
			}
		}
		for i := math.Ceil(a.min / step); i <= a.max/step; i++ {
			a.ticks = append(a.ticks, i*step+0) // −0 + 0 = 0
		}
	}
	return a
}
