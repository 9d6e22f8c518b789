package sheet

import (
	"image"
	"strings"
)

// The font of captions and labels: letters five dots wide, with one row below the baseline.
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
	pitch = 6 // dots between the left edges of adjacent letters
)

// textWidth returns the width of a text in pixels.
func textWidth(s string) int { return scale * (pitch*len(s) - 1) }

// write writes a text of the font's letters in black, with its top left corner at (x, y).
func write(sheet *image.Gray, x, y int, s string) {
	for row, line := range strings.Split(dots[1:], "\n") {
		for i, letter := range s {
			from := pitch * strings.IndexRune(letters, letter)
			for column, d := range line[from : from+pitch-1] {
				if d == '#' {
					dot(sheet, x+scale*(pitch*i+column), y+scale*row, 0)
				}
			}
		}
	}
}
