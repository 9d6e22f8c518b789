package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"

	"hvae/bench/atomicfile"
	"hvae/linalg"
)

const (
	side  = 28 // pixels of an image, along each edge
	white = 255
)

// Distances on a contact sheet, in pixels.
const (
	scale   = 2  // of an image's and a letter's pixel
	gap     = 4  // between images that belong together
	apart   = 20 // between groups
	margin  = 8
	heading = 26 // room for captions, with the space below them
)

// drawSheet returns a PNG contact sheet of images, the columns of x [784×n] with values from
// 0 to 1, with the given number of images in a row. Labels, one for each image or nil, are
// below the images. With captions, the images form groups with an image for each caption,
// and the captions are above them.
func drawSheet(x linalg.Matrix[float32], labels []string, columns int, captions ...string) []byte {
	group, top, below := columns, margin, gap
	if len(captions) > 0 {
		group, top, below = len(captions), margin+heading, apart/2
	}
	rowPitch := side*scale + below // from a row to the next
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
			y := uint8(math.Round(white * float64(x.At(pixel, n))))
			for p := range scale * scale {
				sheet.SetGray(x0+pixel%side*scale+p%scale, y0+pixel/side*scale+p/scale, color.Gray{Y: y})
			}
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
		panic(err) // of images larger than any sheet
	}
	return b.Bytes()
}

// writePicture writes a picture to the file that -o names.
func writePicture(name string, b []byte) error {
	if err := atomicfile.Write(name, b); err != nil {
		return fmt.Errorf("cannot write the picture %w", err)
	}
	return nil
}
