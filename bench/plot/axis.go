package plot

import (
	"math"
	"strconv"
	"strings"
)

// An axis maps values to pixels.
type axis struct {
	log      bool
	min, max float64 // the range; its base-10 logarithms on a logarithmic axis
	from, to float64 // pixel coordinates of min and max
	ticks    []tick
	minor    []tick // short ticks without labels
}

type tick struct {
	value float64
	label string
}

// scale returns v, or log₁₀ v on a logarithmic axis. The result is infinite or NaN if the axis cannot
// show v.
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

func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// newAxis returns an axis whose range contains the values Y of all series and their error bars, with a
// small margin. For an x axis, Y contains the X values. If ticks is nil, the ticks are at round numbers.
func newAxis(logarithmic bool, ticks []float64, series []Series) axis {
	a := axis{log: logarithmic, min: math.Inf(1), max: math.Inf(-1)}
	include := func(v float64) {
		if v := a.scale(v); finite(v) {
			a.min, a.max = min(a.min, v), max(a.max, v)
		}
	}
	for _, s := range series {
		for i, v := range s.Y {
			include(v)
			if s.Error == nil {
				continue
			}
			include(v + s.Error[i])
			// On a logarithmic axis, ignore the lower end of an error bar if the end is below a
			// tenth of the value.
			if low := v - s.Error[i]; !a.log || low > v/10 {
				include(low)
			}
		}
	}
	if a.min > a.max { // no values
		a.min, a.max = 0, 1
	}
	margin := 0.045 * (a.max - a.min)
	if margin == 0 { // one value
		margin = max(0.5, math.Abs(a.min)/10)
	}
	a.min, a.max = a.min-margin, a.max+margin
	switch {
	case ticks != nil:
		for _, v := range ticks {
			a.ticks = append(a.ticks, tick{v, strconv.FormatFloat(v, 'f', -1, 64)})
		}
	case a.log && a.max-a.min >= 0.5:
		a.tickPowers()
	case a.log:
		a.tickMultiples(math.Pow(10, a.min), math.Pow(10, a.max))
	default:
		a.tickMultiples(a.min, a.max)
	}
	return a
}

// tickMultiples adds at most seven ticks from low to high, at multiples of 1, 2 or 5 times a power of ten.
func (a *axis) tickMultiples(low, high float64) {
	least := (high - low) / 6 // between ticks
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

// tickPowers adds ticks to a logarithmic axis, and minor ticks between them. If the axis contains at most
// two powers of ten, the ticks are at 1, 2 and 5 times the powers of ten. Otherwise, at most eleven powers
// of ten have a label.
func (a *axis) tickPowers() {
	short := math.Floor(a.max)-math.Ceil(a.min) < 2
	step := math.Ceil((a.max - a.min) / 10)
	for e := math.Floor(a.min); e <= a.max; e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			switch {
			case a.scale(v) < a.min || a.scale(v) > a.max:
			case short && (m == 1 || m == 2 || m == 5):
				a.ticks = append(a.ticks, tick{v, number(v, math.Pow(10, e))})
			case !short && m == 1 && math.Mod(e, step) == 0:
				a.ticks = append(a.ticks, tick{v, "10" + superscript(int(e))})
			case m == 1 || step == 1:
				a.minor = append(a.minor, tick{v, ""})
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

// superscript formats n in superscript digits.
func superscript(n int) string {
	return strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴",
		"5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹").Replace(strconv.Itoa(n))
}
