// Package data provides the images of section 4.2 of the HVAE paper, the MNIST handwritten digits (LeCun, Cortes and
// Burges). It downloads and reads the original files, splits off validation images, and binarises images at random. It
// also reads other images of 28 × 28 pixels from files with the same names and format.
//
// Read data.go, then files.go (the file format and downloads) and synthetic.go (built-in images that need no network).
package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"hvae/linalg"
	"hvae/linalg/random"
)

// Side is the width and the height of an image in pixels.
const Side = 28

const pixels = Side * Side

// Images are grey-scale images of Side × Side bytes each, row by row. A byte is 0 for paper and 255 for ink.
type Images struct{ Pixels []byte }

// Len returns the number of images.
func (s Images) Len() int { return len(s.Pixels) / pixels }

// Image returns the pixels of image i.
func (s Images) Image(i int) []byte { return s.Pixels[i*pixels : (i+1)*pixels] }

// A Set is a dataset.
type Set struct {
	Name        string // MNIST, Synthetic or, for other images, "images-" and the first digits of their SHA-256
	Train, Test Images
	Folder      string // absolute path of the files, or Synthetic
}

// SHA256 returns the SHA-256 hash, in hexadecimal, of the decompressed training file followed by the decompressed test
// file. This command prints the same hash:
//
//	zcat train-images-idx3-ubyte.gz t10k-images-idx3-ubyte.gz | sha256sum
func (s Set) SHA256() string { return digest(s.Train, s.Test) }

// The names of the predefined datasets.
const (
	MNIST     = "mnist"
	Synthetic = "synthetic" // built-in images; Load also accepts this name instead of a folder
)

// Load returns the built-in images if folder is Synthetic, and otherwise the images in the folder. If folder is "",
// Load uses $HVAE_MNIST or, if that is not set, a folder in the user's cache. The files of a dataset have the names of
// the MNIST files and may be compressed (.gz). Load downloads missing MNIST files into the folder. It calls log with a
// message for each download.
func Load(ctx context.Context, folder string, log func(string)) (set Set, err error) {
	folder = cmp.Or(folder, os.Getenv("HVAE_MNIST"))
	if folder == Synthetic {
		return synthetic(), nil
	}
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return set, fmt.Errorf("cannot find the user's cache folder for the MNIST files: %w; specify a folder with -data", err)
		}
		folder = filepath.Join(cache, "hvae-mnist")
	} else if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		// Do not create the folder, because its name may be misspelt.
		return set, fmt.Errorf("there is no folder %s: set -data or $HVAE_MNIST to the folder of the image files, create it to download MNIST into it, or use -data %s for built-in images", folder, Synthetic)
	}
	if set.Folder, err = filepath.Abs(folder); err != nil {
		return set, err
	}
	parts, errs := [2]*Images{&set.Train, &set.Test}, [2]error{}
	set.Name = MNIST
	for i, f := range mnistFiles {
		if *parts[i], errs[i] = f.read(folder); errs[i] == nil && digest(*parts[i]) != f.digest {
			set.Name = "images-" // other images, so do not download a missing file
		}
	}
	for i, f := range mnistFiles {
		if errors.Is(errs[i], fs.ErrNotExist) && set.Name == MNIST {
			*parts[i], errs[i] = f.download(ctx, folder, log)
		}
		if errs[i] != nil {
			return set, errs[i]
		}
	}
	if set.Name != MNIST {
		set.Name += set.SHA256()[:8]
	}
	if set.Train.Len() < validationShare || set.Test.Len() < 1 {
		err = fmt.Errorf("%s contains only %d training images and %d test images, but at least %d training images and one test image are needed", folder, set.Train.Len(), set.Test.Len(), validationShare)
	}
	return set, err
}

// As in the paper, 1/validationShare of the training images are used for validation: 10,000 of the 60,000
// images of MNIST.
const validationShare = 6

// Split divides the n images in train at random. It returns the indices of the images for training, and the indices of
// the ⌊n/6⌋ images for validation.
func Split(train Images, seed uint64) (training, validation []int) {
	order := random.Stream(seed, "mnist split").Perm(train.Len())
	n := train.Len() / validationShare
	return order[n:], order[:n]
}

// Binarise sets column j of x [784×B] to a random binary image. Pixel i is 1 with probability
// exactly image[i]/255, independently of the other pixels.
func Binarise[T linalg.Float](x linalg.Matrix[T], j int, image []byte, rng *rand.Rand) {
	for i, v := range image {
		bit := T(0)
		if v == 255 || v > 0 && rng.Uint32N(255) < uint32(v) {
			bit = 1
		}
		x.Data[i*x.Cols+j] = bit
	}
}

// MeanLogit returns the mean of log(m/(1 − m)) over the images with the given indices, where m ∈ [0, 1] is the mean of
// an image's pixels divided by 255. It ignores images with m = 0 or m = 1, and returns 0 if no images remain. The
// result initialises the decoder's last bias.
func MeanLogit(images Images, indices []int) float64 {
	sum, n := 0.0, 0
	for _, i := range indices {
		total := 0
		for _, v := range images.Image(i) {
			total += int(v)
		}
		if m := float64(total) / (255 * pixels); m > 0 && m < 1 {
			sum += math.Log(m / (1 - m))
			n++
		}
	}
	return sum / float64(max(n, 1))
}
