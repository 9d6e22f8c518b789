// Package hvaetest helps to test what is built on package hvae: a target of one's own, a
// flow, an estimator.
//
// A test of one's own target begins with TestTarget. What the estimators say of it is then
// compared with its evidence by quadrature (Integrate); maps of phase space have numerical
// Jacobians (OnTape, Jacobian, Determinant), objectives numerical gradients (GradientError),
// and what is random is judged by z-scores (MeanSE, Z, ZBound). For a test of something that
// works with any target there are targets whose evidence is known (Bimodal, Quadratic) and a
// list of flows with every kind of tempering (Schemes). What a program draws is seen by the
// keys of its random streams (RecordStreams).
//
// Read targets.go, flows.go, numeric.go, statistics.go, streams.go.
//
// The package works in float64 and imports hvae, ad and linalg.
package hvaetest
