// Package hvaetest helps to test targets, flows and estimators that use package hvae.
//
// TestTarget checks a target and TestFlow checks a flow. Integrate computes an evidence by
// quadrature, for comparison with estimates. OnTape, Jacobian and Determinant check maps of phase
// space, and GradientError checks the gradient of an objective. MeanSE, Z and ZBound check random
// results. Bimodal and Quadratic are targets with known evidence, and Schemes lists flows with
// all kinds of tempering.
//
// Read targets.go, flows.go, numeric.go, statistics.go. The package uses float64 and
// imports hvae, ad, linalg and linalg/random.
package hvaetest
