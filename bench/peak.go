// Package bench is the bench on which the experiments are measured, drawn and told. The
// package itself measures the hot paths; nothing else in the repository makes claims
// about speed. Run it with
//
//	go test -run '^$' -bench . ./bench
//
// Its folders know nothing of the paper. They are what both experiments need around it:
// command is the outside of a program (commands, flags, signals, exit statuses), progress
// tells how far a run is, plot draws figures, atomicfile writes files that are never seen
// half-written, and filelock lets one process own a run.
package bench
