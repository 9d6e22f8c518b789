// Package data provides the images of section 5.2, the MNIST handwritten digits (LeCun, Cortes
// and Burges). It downloads and reads the original files, splits off validation images, and
// binarises images at random. It also reads other images of 28 × 28 pixels in the same format,
// such as Fashion-MNIST.
//
// Read data.go, then idx.go (the file format), download.go and synthetic.go (a stand-in for
// MNIST that needs no network).
//
// The package imports hvae for its random streams, linalg and bench/atomicfile.
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
	"regexp"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/hvae"
	"hvae/linalg"
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
func (s Set) SHA256() string { return digest(s.Train, s.Test) }

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
	if name == MNIST {
		if folder == Synthetic {
			return synthetic(), nil
		}
		folder = cmp.Or(folder, os.Getenv("HVAE_MNIST"))
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
	l := loader{folder, mirrors, log}
	train, test := trainImages, testImages
	if name != MNIST {
		train.digest, test.digest = "", ""
	}
	set := Set{Name: name}
	var err error
	if set.Train, err = l.read(ctx, train, validationShare); err == nil {
		set.Test, err = l.read(ctx, test, 1)
	}
	return set, err
}

// validName matches the names of datasets.
var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

// CheckName returns an error if a dataset cannot have the given name.
func CheckName(name string) error {
	switch {
	case name == MNIST || name == Synthetic:
		return nil
	case strings.EqualFold(name, MNIST) || strings.EqualFold(name, Synthetic):
		return fmt.Errorf("did you mean %s?", strings.ToLower(name))
	case !validName.MatchString(name):
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

// A loader reads the files in a folder and downloads missing files.
type loader struct {
	folder  string
	mirrors []string
	log     func(string)
}

// read returns the images of a file, at least the given number. It downloads a missing file of
// MNIST.
func (l loader) read(ctx context.Context, f file, least int) (Images, error) {
	images, err := l.readFolder(f)
	if !errors.Is(err, fs.ErrNotExist) {
		if err == nil && images.Len() < least {
			err = fmt.Errorf("%s has %d images: there must be at least %d", filepath.Join(l.folder, f.name), images.Len(), least)
		}
		return images, err
	}
	advice := fmt.Sprintf("put %s and %s there (with .gz or without)", trainImages.name, testImages.name)
	if f.digest == "" {
		return Images{}, fmt.Errorf("%s is not in %s: %s", f.name, l.folder, advice)
	}
	if images, err = l.download(ctx, f); err != nil {
		if ctx.Err() != nil {
			return Images{}, context.Cause(ctx)
		}
		return Images{}, fmt.Errorf("%s is not in %s and cannot be downloaded: %w; %s, or use -data %s for a built-in stand-in", f.name, l.folder, err, advice, Synthetic)
	}
	return images, nil
}

// readFolder returns the images of a file in the folder, whose name may end in .gz.
func (l loader) readFolder(f file) (Images, error) {
	in, err := atomicfile.Open(filepath.Join(l.folder, f.name))
	if errors.Is(err, fs.ErrNotExist) {
		in, err = atomicfile.Open(filepath.Join(l.folder, f.name+".gz"))
	}
	if err != nil {
		return Images{}, err
	}
	defer in.Close()
	images, err := f.parse(in)
	switch {
	case err != nil && f.digest == "":
		return Images{}, fmt.Errorf("%s is not a file of images: %w", in.Name(), err)
	case err != nil:
		return Images{}, fmt.Errorf("%s is not the MNIST file of that name: %w; delete it to download it again, name another folder with -data, or give other images a name with -dataset NAME", in.Name(), err)
	}
	return images, nil
}

// One in validationShare training images is a validation image.
const validationShare = 6

// Split draws a sixth of the training images, rounded down, at random for validation, as the
// paper takes 10,000 of MNIST's 60,000. It returns the indices of both parts.
func Split(train Images, seed uint64) (training, validation []int) {
	order := hvae.Stream(seed, "mnist split").Perm(train.Len())
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
	return sum / float64(max(n, 1))
}
