// Package bench contains benchmarks of training, evaluation and their kernels. This command runs them:
//
//	go test -run '^$' -bench . ./bench
//
// The subfolders of bench contain packages for the gaussian and mnist experiments: command (command line and files),
// progress (remaining time) and plot (figures).
package bench
