//go:build !unix

package command

const nonblock = 0
