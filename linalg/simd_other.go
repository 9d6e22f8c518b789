//go:build !amd64 || purego

package linalg

func bestLevel() int { return levelPlain }

func vectors[T Float](s []T) bool { return false }

func (c *Contraction[T]) tiles() { panic("linalg: no vectors") }

func transposeTiles[T Float](dst, a []T, rows, cols int) {}
