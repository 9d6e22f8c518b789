// Package bench contains benchmarks of training, evaluation and their kernels:
//
//	go test -run '^$' -bench . ./bench
//
// Its subfolders contain packages for the experiments gaussian and mnist: command (command line), progress (progress
// reports), plot (figures), atomicfile (atomic writes) and filelock (locks between processes).
package bench
