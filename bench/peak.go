// Package bench measures the hot paths; nothing else in the repository makes claims
// about speed. Run it with
//
//	go test -run '^$' -bench . ./bench
//
// Its folder plot draws the figures of the experiments, progress tells how far a run is,
// and atomicfile writes files that are never seen half-written.
package bench
