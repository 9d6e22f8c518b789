// Package sheet draws contact sheets: digits in rows and columns, with captions and labels.
package sheet

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"strings"

	"hvae/linalg"
)

const (
	side  = 28 // width and height of a digit in pixels
	white = 255
)

// These sizes on a contact sheet are in pixels.
const (
	scale   = 2  // width of a digit's pixel and of a letter's dot
	gap     = 4  // between digits of a group
	apart   = 20 // between groups
	margin  = 8
	heading = 26 // height of a line of captions or labels, with the space below it
)

// Draw returns a PNG contact sheet with the given number of digits in a row. The digits are
// the columns of x [784×n], with values from 0 (black) to 1 (white). The labels, one for each
// digit or nil, are written below the digits. With captions, the digits form groups of
// len(captions), and the captions are written above each group.
func Draw(x linalg.Matrix[float32], labels []string, columns int, captions ...string) []byte {
	group, top, below := columns, margin, gap
	if len(captions) > 0 {
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
	for i := range sheet.Pix {
		sheet.Pix[i] = white
	}
	for n := range x.Cols {
		x0, y0 := left(n%columns), top+n/columns*rowPitch
		for pixel := range side * side {
			gray := uint8(math.Round(white * float64(x.At(pixel, n))))
			dot(sheet, x0+pixel%side*scale, y0+pixel/side*scale, gray)
		}
	}
	center := func(column, y int, text string) {
		write(sheet, left(column)+(side*scale-textWidth(text))/2, y, text)
	}
	for n, label := range labels {
		center(n%columns, top+n/columns*rowPitch+side*scale+gap, label)
	}
	if len(captions) > 0 {
		for column := range columns {
			center(column, margin, captions[column%group])
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, sheet); err != nil {
		panic(err) // images that are too large for PNG
	}
	return b.Bytes()
}

// dot sets scale×scale pixels, with the top left one at (x, y).
func dot(sheet *image.Gray, x, y int, gray uint8) {
	for p := range scale * scale {
		sheet.SetGray(x+p%scale, y+p/scale, color.Gray{Y: gray})
	}
}

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

// write writes s in black with its top left corner at (x, y). The font must have all letters
// of s.
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
