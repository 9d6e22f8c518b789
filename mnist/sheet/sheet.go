// Package sheet draws contact sheets, which are pictures of digits in rows and columns. Start with digits.go.
package sheet

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"strings"

	"hvae/linalg"
)

// Sizes in pixels.
const (
	side    = 28 // of a digit in the input
	scale   = 2  // of an input pixel, and of a dot of a letter, on the sheet
	gap     = 4  // between digits of a group
	apart   = 20 // between groups
	margin  = 8
	heading = 26 // height of a line of text, with the space below it
)

// contact returns a contact sheet as a PNG. The digits are the columns of x [784×n], with values from 0
// (black) to 1 (white). The sheet has the given number of columns. If labels is not nil, labels[i] is
// written below digit i. If there are captions, each row is divided into groups of len(captions) digits,
// and captions[i] is written above digit i of each group in the first row.
func contact(x linalg.Matrix[float32], columns int, captions, labels []string) []byte {
	group, top, below := columns, margin, gap
	if captions != nil {
		group, top, below = len(captions), margin+heading, apart/2
	}
	rowPitch := side*scale + below // distance between rows
	if labels != nil {
		rowPitch += heading
	}
	left := func(column int) int {
		return margin + column*(side*scale+gap) + column/group*(apart-gap)
	}
	rows := (x.Cols + columns - 1) / columns
	sheet := image.NewGray(image.Rect(0, 0, left(columns-1)+side*scale+margin, top+rows*rowPitch-below+margin))
	draw.Draw(sheet, sheet.Bounds(), image.White, image.Point{}, draw.Src)
	for n := range x.Cols {
		x0, y0 := left(n%columns), top+n/columns*rowPitch
		for i := range side * side {
			dot(sheet, x0+i%side*scale, y0+i/side*scale, uint8(math.Round(255*float64(x.At(i, n)))))
		}
		if captions != nil && n < columns {
			write(sheet, x0, margin, captions[n%group])
		}
		if labels != nil {
			write(sheet, x0, y0+side*scale+gap, labels[n])
		}
	}
	var b bytes.Buffer
	png.Encode(&b, sheet) // fails only if an edge has 2³² pixels or more
	return b.Bytes()
}

// dot fills a square of scale×scale pixels with its top left corner at (x, y).
func dot(sheet *image.Gray, x, y int, gray uint8) {
	for p := range scale * scale {
		sheet.SetGray(x+p%scale, y+p/scale, color.Gray{Y: gray})
	}
}

// The font of captions and labels. Each letter is 5 dots wide and 8 dots high, with one row of dots
// below the baseline.
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
	pitch = 6 // distance in dots between the left edges of adjacent letters
)

// write draws the text s with its top edge at y, centred on a digit whose left edge is at x. The font must
// contain all letters of s.
func write(sheet *image.Gray, x, y int, s string) {
	x += (side*scale - scale*(pitch*len(s)-1)) / 2
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
