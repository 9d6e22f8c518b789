// Package hvaetest provides helpers for tests of targets, flows and estimators that use package hvae.
//
// TestTarget checks a target, and TestFlow checks a flow. Integrate computes evidence by quadrature. OnTape, Jacobian and
// Determinant check maps of phase space, and GradientError checks the gradient of an objective. Z and ZBound check random
// results. TwoModes, Bimodal and Quadratic are targets with known evidence. Schemes lists flows with all kinds of tempering.
//
// Read targets.go, check.go, flows.go, numeric.go and statistics.go in this order. The package uses float64 and imports
// hvae, ad, linalg and linalg/random.
package hvaetest
