package hvae

import (
	"math"

	"hvae/ad"
	"hvae/linalg"
)

// The parameters of a flow are trained as real numbers, of any size and sign. These
// functions take them to the ranges of the paper's symbols, and back for a start.

// StepSize returns the step sizes ε = ξ·sigmoid(logit), between 0 and ξ, so that the
// leapfrog does not enter unstable regimes.
func StepSize[T linalg.Float](logit *ad.Var[T], xi T) *ad.Var[T] {
	return ad.Scale(ad.Sigmoid(logit), xi)
}

// StepSizeLogit returns the number whose StepSize is epsilon.
func StepSizeLogit(epsilon, xi float64) float64 { return linalg.Logit(epsilon / xi) }

// Alpha returns the α = sigmoid(logit), between 0 and 1, of a free schedule.
func Alpha[T linalg.Float](logit *ad.Var[T]) *ad.Var[T] { return ad.Sigmoid(logit) }

// AlphaLogit returns the number whose Alpha is alpha.
func AlphaLogit(alpha float64) float64 { return linalg.Logit(alpha) }

// InvSqrtBeta0 returns 1/√β₀ = 1 + exp(logTemperature), more than 1, of a fixed schedule.
func InvSqrtBeta0[T linalg.Float](logTemperature *ad.Var[T]) *ad.Var[T] {
	return ad.AddConst(ad.Exp(logTemperature), 1)
}

// LogTemperature returns the number whose InvSqrtBeta0 is invSqrtBeta0.
func LogTemperature(invSqrtBeta0 float64) float64 { return math.Log(invSqrtBeta0 - 1) }
