//go:build !(darwin || freebsd || linux)

package progress

import "os"

// widthOf returns how many columns a terminal has.
func widthOf(*os.File) int { return columns() }
