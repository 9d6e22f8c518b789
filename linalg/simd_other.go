//go:build !amd64 || purego

package linalg

// Without vector kernels everything is plain Go.
const level = levelPlain

func vectors[T Float](s []T) bool { return false }

func (c *Contraction[T]) tiles() { panic("linalg: no vectors") }

func transposeTiles[T Float](dst, a []T, rows, cols int) {}
