// Package data provides the images of section 5.2, the MNIST handwritten digits (LeCun, Cortes
// and Burges). It downloads and reads the original files, splits off validation images, and
// binarises images at random. It also reads other images of 28 × 28 pixels in the same format,
// such as Fashion-MNIST.
//
// Read data.go, then idx.go (the file format), download.go and synthetic.go (a stand-in for
// MNIST that needs no network).
//
// The package imports linalg, linalg/random and bench/atomicfile.
package data

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"hvae/bench/atomicfile"
	"hvae/linalg"
	"hvae/linalg/random"
)

// Side is the number of pixels of an image along each edge.
const Side = 28

const pixels = Side * Side

// Images are grey-scale images of Side × Side bytes each, row by row, where 255 is ink.
type Images struct{ Pixels []byte }

// Len returns the number of images.
func (s Images) Len() int { return len(s.Pixels) / pixels }

// Image returns the pixels of image i.
func (s Images) Image(i int) []byte { return s.Pixels[i*pixels : (i+1)*pixels] }

// A Set is a dataset.
type Set struct {
	Name        string // MNIST, Synthetic or the user's name
	Train, Test Images
}

// SHA256 returns the SHA-256, in hexadecimal digits, of the decompressed training file followed
// by the decompressed test file, as this command prints it:
//
//	zcat train-images-idx3-ubyte.gz t10k-images-idx3-ubyte.gz | sha256sum
func (s Set) SHA256() string {
	h := sha256.New()
	for _, images := range []Images{s.Train, s.Test} {
		h.Write(images.header())
		h.Write(images.Pixels)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// The names of the datasets that Load knows.
const (
	MNIST     = "mnist"
	Synthetic = "synthetic" // the built-in stand-in; also the value of folder that selects it
)

// Load returns the images in a folder. The names of files compressed with gzip end in .gz.
//
// With the name MNIST or "", Load returns MNIST and verifies every file by its SHA-256. The
// folder "" stands for $HVAE_MNIST or, if that is not set, for a folder in the user's cache,
// which Load creates. Load downloads missing files into the folder and reports it to log. The
// folder Synthetic stands for the built-in stand-in.
//
// With any other name that CheckName accepts, Load returns other images from files with the
// same names as MNIST's, and neither verifies nor downloads them.
func Load(ctx context.Context, folder, name string, log func(string)) (Set, error) {
	if name == "" || name == Synthetic {
		name = MNIST
	}
	if name == MNIST && folder == Synthetic {
		return synthetic(), nil
	}
	if name == MNIST && folder == "" {
		folder = os.Getenv("HVAE_MNIST")
	}
	if name == MNIST && folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return Set{}, fmt.Errorf("there is no cache folder for the MNIST files: %w; name a folder with -data", err)
		}
		folder = filepath.Join(cache, "hvae-mnist")
	} else if err := checkFolder(folder, name); err != nil {
		return Set{}, err
	}
	return loader{folder, mirrors, log}.load(ctx, name)
}

// CheckName returns an error if data cannot have the given name.
func CheckName(name string) error {
	odd := func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}
	switch {
	case name == MNIST || name == Synthetic:
		return nil
	case strings.EqualFold(name, MNIST) || strings.EqualFold(name, Synthetic):
		return fmt.Errorf("did you mean %s?", strings.ToLower(name))
	case name == "" || len(name) > 40 || strings.ContainsFunc(name, odd):
		return errors.New("a name has 1 to 40 characters: ASCII letters, digits, dots, - and _")
	}
	return nil
}

// checkFolder returns an error if folder does not exist; the error mentions the dataset name.
// Load does not create a folder that the user named, because the name may be mistyped.
func checkFolder(folder, name string) error {
	s, err := os.Stat(folder)
	switch {
	case err == nil && !s.IsDir():
		return fmt.Errorf("%s is not a folder: set -data or $HVAE_MNIST to the folder of the files", folder)
	case errors.Is(err, fs.ErrNotExist) && strings.EqualFold(folder, Synthetic):
		return fmt.Errorf("there is no folder %s: did you mean %s, the built-in stand-in?", folder, Synthetic)
	case errors.Is(err, fs.ErrNotExist) && name != MNIST:
		return fmt.Errorf("there is no folder %s with the data %s: use -data to name the folder of the original data", folder, name)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %s, which -data or $HVAE_MNIST names: create it to download MNIST there, or use -data %s for a built-in stand-in", folder, Synthetic)
	case err != nil:
		return fmt.Errorf("cannot read the folder of the data %w", atomicfile.Named(folder, err))
	}
	return nil
}

// load reads both files of images. The experiment does not use the labels.
func (l loader) load(ctx context.Context, name string) (Set, error) {
	set := Set{Name: name}
	for _, f := range []struct {
		file  file
		least int // images
		to    *Images
	}{{trainImages, validationShare, &set.Train}, {testImages, 1, &set.Test}} {
		var err error
		if name == MNIST {
			var b []byte
			if b, err = l.read(ctx, f.file); err == nil {
				*f.to = Images{b[header:]}
			}
		} else {
			*f.to, err = l.readOther(f.file.name, f.least)
		}
		if err != nil {
			return Set{}, err
		}
	}
	return set, nil
}

// read returns the verified contents of a file of MNIST, which it downloads if it is missing.
func (l loader) read(ctx context.Context, f file) ([]byte, error) {
	in, err := l.open(f.name)
	if err == nil {
		defer in.Close()
		b, err := f.verify(in)
		if err != nil {
			return nil, fmt.Errorf("%s is not the MNIST file of that name: %w; delete it to download it again, name another folder with -data, or give other images a name with -dataset NAME", in.Name(), err)
		}
		return b, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b, err := l.download(ctx, f)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s is not in %s and cannot be downloaded: %w; put %s and %s there (with .gz or without), or use -data %s for a built-in stand-in",
			f.name, l.folder, err, trainImages.name, testImages.name, Synthetic)
	}
	return b, nil
}

// open opens a file of the folder, or the file with .gz at the end of its name.
func (l loader) open(name string) (*os.File, error) {
	in, err := atomicfile.Open(filepath.Join(l.folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return atomicfile.Open(filepath.Join(l.folder, name+".gz"))
	}
	return in, err
}

// readOther returns the images, at least the given number, in a file that is not MNIST's.
func (l loader) readOther(name string, least int) (Images, error) {
	in, err := l.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Images{}, fmt.Errorf("%s is not in %s: put %s and %s there (with .gz or without)", name, l.folder, trainImages.name, testImages.name)
	}
	if err != nil {
		return Images{}, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return Images{}, err
	}
	images, err := readImages(in, info.Size())
	if err == nil && images.Len() < least {
		err = fmt.Errorf("it has %d images: there must be at least %d", images.Len(), least)
	}
	if err != nil {
		return Images{}, fmt.Errorf("%s is not a file of images: %w", in.Name(), err)
	}
	return images, nil
}

// One in validationShare training images is a validation image.
const validationShare = 6

// Split draws a sixth of the training images, rounded down, at random for validation, as the
// paper takes 10,000 of MNIST's 60,000. It returns the indices of both parts.
func Split(train Images, seed uint64) (training, validation []int) {
	order := random.Stream(seed, "mnist split").Perm(train.Len())
	n := train.Len() / validationShare
	return order[n:], order[:n]
}

// Binarise sets column j of x [784×B] to a random binary image. Pixel i is 1 with probability
// exactly image[i]/255, independently of the others.
func Binarise[T linalg.Float](x linalg.Matrix[T], j int, image []byte, rng *rand.Rand) {
	for i, v := range image {
		bit := T(0)
		if v == 255 || v > 0 && rng.Uint32N(255) < uint32(v) {
			bit = 1
		}
		x.Data[i*x.Cols+j] = bit
	}
}

// MeanLogit returns the mean of log(m/(1 − m)) over the images with the given indices, where m
// is an image's mean value from 0 to 1. The last bias of the generative network starts there.
// Images with m = 0 or 1 are left out; without others, MeanLogit returns 0.
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
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
