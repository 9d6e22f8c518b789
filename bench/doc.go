// Package bench contains benchmarks of training, evaluation and their kernels. This command runs them:
//
//	go test -run '^$' -bench . ./bench
//
// Its subfolders contain packages for both experiments: command (command line, files), progress (remaining time), plot.
package bench
