package main

import (
	"image"
	"image/color"
	"strings"
)

// The characters of captions and labels, each five dots wide, the last row below the line.
const (
	letters = "adeimnprtuwz0123456789-"
	dots    = `
..... ....# ..... ..#.. ..... ..... ..... ..... ..... ..... ..... ..... .###. ..#.. .###. .###. ...#. ##### ..##. ##### .###. .###. .....
..... ....# ..... ..... ..... ..... ..... ..... .#... ..... ..... ..... #...# .##.. #...# #...# ..##. #.... .#... ....# #...# #...# .....
.###. .#### .###. .##.. ####. ####. ####. #.##. ####. #...# #...# ##### #..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...# .....
....# #...# #...# ..#.. #.#.# #...# #...# ##... .#... #...# #...# ...#. #.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .#### #####
.#### #...# ##### ..#.. #.#.# #...# #...# #.... .#... #...# #.#.# ..#.. ##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....# .....
#...# #...# #.... ..#.. #.#.# #...# ####. #.... .#... #...# #.#.# .#... #...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#. .....
.#### .#### .#### .###. #.#.# #...# #.... #.... ..##. .#### .#.#. ##### .###. .###. ##### .###. ...#. .###. .###. .#... .###. .##.. .....
..... ..... ..... ..... ..... ..... #.... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....`
	pitch = 6 // dots from a letter to the next
)

// textWidth returns how many pixels wide a text is.
func textWidth(s string) int { return scale * (pitch*len(s) - 1) }

// write writes a text of these characters in black, with its top left corner at (x, y).
func write(sheet *image.Gray, x, y int, s string) {
	for row, line := range strings.Split(dots[1:], "\n") {
		for i, letter := range s {
			from := pitch * strings.IndexRune(letters, letter)
			for column, dot := range line[from : from+pitch-1] {
				for p := range scale * scale {
					if dot == '#' {
						sheet.SetGray(x+scale*(pitch*i+column)+p%scale, y+scale*row+p/scale, color.Gray{})
					}
				}
			}
		}
	}
}
