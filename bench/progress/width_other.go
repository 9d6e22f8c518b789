//go:build !(darwin || freebsd || linux)

package progress

import "os"

// widthOf returns the width of a terminal in columns.
func widthOf(*os.File) int { return columns() }
