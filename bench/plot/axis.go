package plot

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// An axis maps values to pixels.
type axis struct {
	scale    func(float64) float64 // the identity, or math.Log10
	min, max float64               // range of scale(v)
	from, to float64               // pixel coordinates of min and max
	ticks    []tick
}

type tick struct {
	value float64
	label string
}

// at returns the pixel coordinate of v. The result is infinite or NaN if the axis cannot show v.
func (a axis) at(v float64) float64 {
	return a.from + (a.scale(v)-a.min)/(a.max-a.min)*(a.to-a.from)
}

func identity(v float64) float64 { return v }

func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// newAxis returns an axis whose range contains the values, with a small margin. If ticks is nil, the ticks are at round
// numbers.
func newAxis(logarithmic bool, ticks, values []float64) axis {
	a := axis{scale: identity, min: math.Inf(1), max: math.Inf(-1)}
	if logarithmic {
		a.scale = math.Log10
	}
	for _, v := range values {
		if v = a.scale(v); finite(v) {
			a.min, a.max = min(a.min, v), max(a.max, v)
		}
	}
	if a.min > a.max { // no values
		a.min, a.max = 0, 1
	}
	margin := cmp.Or(0.045*(a.max-a.min), max(0.5, math.Abs(a.min)/10)) // the latter is for one value
	a.min, a.max = a.min-margin, a.max+margin
	switch {
	case ticks != nil:
		for _, v := range ticks {
			a.ticks = append(a.ticks, tick{v, strconv.FormatFloat(v, 'f', -1, 64)})
		}
	case logarithmic && a.max-a.min >= 0.5:
		a.tickPowers()
	case logarithmic:
		a.tickMultiples(math.Pow(10, a.min), math.Pow(10, a.max))
	default:
		a.tickMultiples(a.min, a.max)
	}
	return a
}

// tickMultiples adds at most seven ticks from low to high, at multiples of 1, 2 or 5 times a power of ten.
func (a *axis) tickMultiples(low, high float64) {
	least := (high - low) / 6 // least distance between ticks
	step := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{2, 2.5, 2} {
		if step < least {
			step *= m
		}
	}
	for i := math.Ceil(low / step); i <= math.Floor(high/step); i++ {
		a.ticks = append(a.ticks, tick{i * step, number(i*step, step)})
	}
}

// tickPowers adds ticks to a logarithmic axis. If the axis contains at most two powers of ten, the ticks are at 1, 2
// and 5 times the powers of ten. Otherwise, the ticks are at no more than eleven powers of ten.
func (a *axis) tickPowers() {
	few := math.Floor(a.max)-math.Ceil(a.min) < 2
	step := math.Ceil((a.max - a.min) / 10)
	for e := math.Floor(a.min); e <= a.max; e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, e)
			switch {
			case a.scale(v) < a.min || a.scale(v) > a.max:
			case few:
				a.ticks = append(a.ticks, tick{v, number(v, math.Pow(10, e))})
			case m == 1 && math.Mod(e, step) == 0:
				a.ticks = append(a.ticks, tick{v, "10" + superscript.Replace(strconv.Itoa(int(e)))})
			}
		}
	}
}

// number formats v, a multiple of step, with the same number of decimals as step.
func number(v, step float64) string {
	if v == 0 {
		return "0"
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9))) // add 1e-9 because the logarithm is rounded
	return strings.Replace(strconv.FormatFloat(v, 'f', decimals, 64), "-", "−", 1)
}

var superscript = strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")
