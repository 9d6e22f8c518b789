package eval

import (
	"fmt"
	"math"

	"hvae/mnist/model"
)

// MeanSD returns the mean and the standard deviation, nil for a single value.
func MeanSD(x []float64) (mean float64, sd *float64) {
	mean, s := model.MeanSD(x)
	if len(x) > 1 {
		sd = &s
	}
	return mean, sd
}

// MeanSE returns the mean and its standard error, nil for a single value.
func MeanSE(x []float64) (mean float64, se *float64) {
	mean, se = MeanSD(x)
	if se != nil {
		*se /= math.Sqrt(float64(len(x)))
	}
	return mean, se
}

// PlusMinus formats a number and its error, if the error is not nil.
func PlusMinus(digits int, v float64, err *float64) string {
	v = HalfAway(v)
	if err == nil {
		return fmt.Sprintf("%.*f", digits, v)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, v, digits, *err)
}

// HalfAway moves v away from zero by 1e-9. A mean such as 83.315, which has no exact binary
// form, is then printed as 83.32, as in the paper.
func HalfAway(v float64) float64 { return v + math.Copysign(1e-9, v) }
