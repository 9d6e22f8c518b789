package eval

import (
	"encoding/json"
	"fmt"
	"math"

	"hvae/linalg/numeric"
)

// A Number is a statistic, or NaN if it is undefined. NaN and infinity are encoded as null in JSON.
type Number float64

func (n Number) MarshalJSON() ([]byte, error) {
	if !finite(n) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n *Number) UnmarshalJSON(b []byte) error {
	*n = undefined // the result for null
	return json.Unmarshal(b, (*float64)(n))
}

var undefined = Number(math.NaN())

func finite(n Number) bool { return n-n == 0 }

// MeanSE returns the mean of x and its standard error. For a single value, the standard error is NaN.
func MeanSE(x []float64) (mean, se Number) {
	m, s := numeric.MeanSE(x)
	return Number(m), Number(s)
}

// MeanSD returns the mean and the sample standard deviation of x. For a single value, the standard deviation is NaN.
func MeanSD(x []float64) (mean, sd Number) {
	mean, se := MeanSE(x)
	return mean, se * Number(math.Sqrt(float64(len(x))))
}

// String returns n with two decimals. It first adds 1e-9 to |n|, because 83.315, for example, is stored as a smaller
// number, but must be rounded up.
func (n Number) String() string {
	if math.IsNaN(float64(n)) {
		return "undefined"
	}
	return fmt.Sprintf("%.2f", float64(n)+math.Copysign(1e-9, float64(n)))
}

// PlusMinus returns a number and its error, such as "83.32 ± 0.05", or only the number if err is NaN.
func PlusMinus(v, err Number) string {
	if math.IsNaN(float64(err)) {
		return v.String()
	}
	return fmt.Sprintf("%v ± %.2f", v, err)
}

// means returns, for each group, the mean of value(e) over the estimates e of the group.
func means(groups [][]estimate, value func(e estimate) float64) (all []float64) {
	for _, group := range groups {
		mean := 0.0
		for _, e := range group {
			mean += value(e) / float64(len(group))
		}
		all = append(all, mean)
	}
	return all
}
