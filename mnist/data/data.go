// Package data is the MNIST handwritten digits (LeCun, Cortes and Burges) as section 5.2
// uses them: read from the original files, downloaded if need be, split into training
// and validation images, and binarised at random.
//
// Read data.go, then idx.go (the file format), download.go and synthetic.go (a stand-in
// for a first try without network).
//
// The package imports hvae for its random streams, linalg and bench/atomicfile.
package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"hvae/hvae"
	"hvae/linalg"
)

// Side is the number of pixels of an image along each edge.
const Side = 28

const pixels = Side * Side

// Images are grey images of Side × Side bytes each, row by row, 255 for ink.
type Images struct{ Pixels []byte }

// Len returns the number of images.
func (s Images) Len() int { return len(s.Pixels) / pixels }

// Image returns the pixels of image i.
func (s Images) Image(i int) []byte { return s.Pixels[i*pixels : (i+1)*pixels] }

// A Set is the training and the test images, with the name of what they are.
type Set struct {
	Name        string // "mnist" or "synthetic"
	Train, Test Images
}

// Synthetic is the setting of -data for the built-in stand-in.
const Synthetic = "synthetic"

// Load returns the images in a folder, or the stand-in for Synthetic. The folder "" is
// $HVAE_MNIST or, if that is not set, a folder in the user's cache. Files may be
// compressed by gzip, with .gz at the end of their names, or not. What is missing is
// downloaded into the folder; log is told so. Every file is verified by its SHA-256.
func Load(ctx context.Context, folder string, log func(string)) (Set, error) {
	if folder == Synthetic {
		return synthetic(), nil
	}
	if folder == "" {
		folder = os.Getenv("HVAE_MNIST")
	}
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return Set{}, fmt.Errorf("there is no cache folder for the MNIST files: %w; name a folder with -data", err)
		}
		folder = filepath.Join(cache, "hvae-mnist")
	}
	return loader{folder, mirrors, log}.load(ctx)
}

// load reads the two image files. The label files are part of the dataset, but nothing
// in the experiment uses labels.
func (l loader) load(ctx context.Context) (Set, error) {
	set := Set{Name: "mnist"}
	for _, f := range []struct {
		file  file
		count int
		to    *Images
	}{{trainImages, 60000, &set.Train}, {testImages, 10000, &set.Test}} {
		b, err := l.read(ctx, f.file)
		if err != nil {
			return Set{}, err
		}
		images, err := parseImages(b)
		if err == nil && images.Len() != f.count {
			err = fmt.Errorf("it has %d images, not %d", images.Len(), f.count)
		}
		if err != nil {
			return Set{}, fmt.Errorf("%s in %s is damaged: %w; delete it to download it again", f.file.name, l.folder, err)
		}
		*f.to = images
	}
	return set, nil
}

// read returns the verified contents of a file, which it downloads if it is missing.
func (l loader) read(ctx context.Context, f file) ([]byte, error) {
	for _, name := range []string{f.name, f.name + ".gz"} {
		path := filepath.Join(l.folder, name)
		in, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer in.Close()
		b, err := f.verify(in)
		if err != nil {
			return nil, fmt.Errorf("%s is not the MNIST file of that name: %w; delete it to download it again, or name another folder with -data", path, err)
		}
		return b, nil
	}
	b, err := l.download(ctx, f)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s is not in %s and cannot be downloaded: %w; put %s there (with .gz or without), or use -data %s for a built-in stand-in",
			f.name, l.folder, err, strings.Join(fileNames(), ", "), Synthetic)
	}
	return b, nil
}

// validationImages of the training images are for validation, a sixth of them.
const validationShare = 6

// Split draws a sixth of the training images, 10,000 of the 60,000, at random for
// validation, and returns the indices of both parts.
func Split(train Images, seed uint64) (training, validation []int) {
	order := hvae.Stream(seed, "mnist split").Perm(train.Len())
	n := train.Len() / validationShare
	return order[n:], order[:n]
}

// Binarise sets column j of x [784×B] to a binary image: pixel i is 1 with probability
// image[i]/255, exactly, independently of the others.
func Binarise[T linalg.Float](x linalg.Matrix[T], j int, image []byte, rng *rand.Rand) {
	for i, v := range image {
		bit := T(0)
		switch {
		case v == 255:
			bit = 1
		case v > 0 && rng.Uint32N(255) < uint32(v):
			bit = 1
		}
		x.Data[i*x.Cols+j] = bit
	}
}

// MeanLogit returns the mean of log(m/(1 − m)) over the given images, m an image's mean
// value in (0, 1): where the last bias of the generative network starts. Images that are
// all black or all white are left out.
func MeanLogit(images Images, which []int) float64 {
	sum, n := 0.0, 0
	for _, i := range which {
		total := 0
		for _, v := range images.Image(i) {
			total += int(v)
		}
		if m := float64(total) / (255 * pixels); m > 0 && m < 1 {
			sum += math.Log(m / (1 - m))
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
