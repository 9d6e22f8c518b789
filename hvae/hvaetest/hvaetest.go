// Package hvaetest provides helpers for tests of targets, flows and estimators that use package hvae.
//
// TestTarget checks a target, and TestFlow checks a flow. Integrate computes the evidence of a target by
// quadrature, for comparison with estimates. OnTape, Jacobian and Determinant check maps of phase space,
// and GradientError checks the gradient of an objective. MeanSE, Z and ZBound check random results. Bimodal
// and Quadratic are targets whose evidence is known. Schemes lists flows with all kinds of tempering.
//
// Read the files in this order: targets.go, flows.go, numeric.go and statistics.go. The package uses
// float64 and imports hvae, ad, linalg and linalg/random.
package hvaetest
