// Package bench contains benchmarks of training, evaluation and their kernels. This command runs them:
//
//	go test -run '^$' -bench . ./bench
//
// The subfolders of bench contain packages that the gaussian and mnist programs share: command (command line and
// files), progress (remaining time) and plot (charts).
package bench
