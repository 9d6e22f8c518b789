// Package data is the images that section 5.2 learns from, the MNIST handwritten digits
// (LeCun, Cortes and Burges): read from the original files, downloaded if need be, split
// into training and validation images, and binarised at random. Other images of 28 × 28
// pixels in files of the same format, such as Fashion-MNIST, are read under a name of
// their own.
//
// Read data.go, then idx.go (the file format), download.go and synthetic.go (a stand-in
// for a first try without network).
//
// The package imports hvae for its random streams, linalg and bench/atomicfile.
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
	Name        string // "mnist", "synthetic", or what the user calls them
	Train, Test Images
}

// SHA256 returns the digest, in hexadecimal digits, of both files of images, decompressed,
// the training images first: zcat train-images-idx3-ubyte.gz t10k-images-idx3-ubyte.gz |
// sha256sum prints it, too.
func (s Set) SHA256() string {
	h := sha256.New()
	for _, images := range []Images{s.Train, s.Test} {
		h.Write(images.header())
		h.Write(images.Pixels)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// The names of the two sets that are known.
const (
	MNIST     = "mnist"
	Synthetic = "synthetic" // the built-in stand-in; a setting of -data, too
)

// Load returns the images in a folder, or the stand-in for Synthetic. Files may be
// compressed by gzip, with .gz at the end of their names, or not.
//
// With the name MNIST or "" they are MNIST, and every file is verified by its SHA-256. The folder
// "" is $HVAE_MNIST or, if that is not set, a folder in the user's cache, which is made if
// need be. A missing file is downloaded into the folder; log is told so.
//
// With another name that CheckName accepts they are any number of other images, in files
// that are called as MNIST's.
func Load(ctx context.Context, folder, name string, log func(string)) (Set, error) {
	l := loader{folder: folder, mirrors: mirrors, log: log}
	if name != "" && name != MNIST && name != Synthetic {
		if err := checkFolder(folder, name); err != nil {
			return Set{}, err
		}
		return l.loadOwn(name)
	}
	if folder == Synthetic {
		return synthetic(), nil
	}
	if l.folder == "" {
		l.folder = os.Getenv("HVAE_MNIST")
	}
	if l.folder != "" {
		if err := checkFolder(l.folder, MNIST); err != nil {
			return Set{}, err
		}
		return l.load(ctx)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Set{}, fmt.Errorf("there is no cache folder for the MNIST files: %w; name a folder with -data", err)
	}
	l.folder = filepath.Join(cache, "hvae-mnist")
	return l.load(ctx)
}

// CheckName reports what cannot be the name of data.
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
		return errors.New("a name has 1 to 40 letters, digits, dots, - and _")
	}
	return nil
}

// checkFolder returns an error if the folder of the data with the given name does not exist.
// A folder that the user has named is not made, as its name may be mistyped.
func checkFolder(folder, name string) error {
	s, err := os.Stat(folder)
	switch {
	case err == nil && !s.IsDir():
		return fmt.Errorf("%s is not a folder: -data, or $HVAE_MNIST, names the folder of the files", folder)
	case errors.Is(err, fs.ErrNotExist) && strings.EqualFold(folder, Synthetic):
		return fmt.Errorf("there is no folder %s: did you mean %s, the built-in stand-in?", folder, Synthetic)
	case errors.Is(err, fs.ErrNotExist) && name != MNIST:
		return fmt.Errorf("there is no folder %s with the data %s: name their folder with -data", folder, name)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %s for the data, as -data or $HVAE_MNIST has it: make it to have MNIST downloaded there, or use -data %s for a built-in stand-in", folder, Synthetic)
	case err != nil:
		return fmt.Errorf("cannot read the folder of the data %w", atomicfile.Named(folder, err))
	}
	return nil
}

// load reads the two files of MNIST's images. The experiment does not use the labels.
func (l loader) load(ctx context.Context) (Set, error) {
	set := Set{Name: MNIST}
	for _, f := range []struct {
		file file
		to   *Images
	}{{trainImages, &set.Train}, {testImages, &set.Test}} {
		b, err := l.read(ctx, f.file)
		if err != nil {
			return Set{}, err
		}
		if *f.to, err = parseImages(b); err != nil {
			return Set{}, fmt.Errorf("%s in %s: %w", f.file.name, l.folder, err)
		}
	}
	return set, nil
}

// read returns the verified contents of a file, which it downloads if it is missing.
func (l loader) read(ctx context.Context, f file) ([]byte, error) {
	in, err := l.open(f.name)
	if err == nil {
		defer in.Close()
		b, err := f.verify(in)
		if err != nil {
			return nil, fmt.Errorf("%s is not the MNIST file of that name: %w; delete it to download it again, name another folder with -data, or say by -dataset NAME that these are other images", in.Name(), err)
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

// open opens a file of the folder, with .gz at the end of its name or without.
func (l loader) open(name string) (*os.File, error) {
	in, err := atomicfile.Open(filepath.Join(l.folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return atomicfile.Open(filepath.Join(l.folder, name+".gz"))
	}
	return in, err
}

// loadOwn reads a user's own images.
func (l loader) loadOwn(name string) (Set, error) {
	set := Set{Name: name}
	for _, f := range []struct {
		name  string
		least int // images
		to    *Images
	}{{trainImages.name, validationShare, &set.Train}, {testImages.name, 1, &set.Test}} {
		in, err := l.open(f.name)
		if errors.Is(err, fs.ErrNotExist) {
			return Set{}, fmt.Errorf("%s is not in %s: %s has to be there, and %s (with .gz or without)", f.name, l.folder, trainImages.name, testImages.name)
		}
		if err != nil {
			return Set{}, err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return Set{}, err
		}
		images, err := readImages(in, info.Size())
		if err == nil && images.Len() < f.least {
			err = fmt.Errorf("it has %d images: there must be at least %d", images.Len(), f.least)
		}
		if err != nil {
			return Set{}, fmt.Errorf("%s is not a file of images: %w", in.Name(), err)
		}
		*f.to = images
	}
	return set, nil
}

// One of so many training images is for validation.
const validationShare = 6

// Split draws a sixth of the training images, rounded down, at random for validation, of
// MNIST's 60,000 the 10,000 of the paper, and returns the indices of both parts.
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
