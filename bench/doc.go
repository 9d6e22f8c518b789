// Package bench implements benchmarks of training, evaluation and their kernels:
//
//	go test -run '^$' -bench . ./bench
//
// Its subfolders hold the packages that both experiments share: command (the command line),
// progress (progress reports), plot (figures), atomicfile (atomic writes) and filelock (locks on
// folders). None of them depends on the method.
package bench
