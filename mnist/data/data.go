// Package data provides the images used in section 4.2 of the HVAE paper, the MNIST handwritten digits (LeCun, Cortes
// and Burges). It downloads and reads MNIST's files, or reads other images of 28 × 28 pixels from files with the same
// names and format. The code in synthetic.go generates images and needs no files.
package data

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hvae/bench/command"
	"hvae/linalg"
	"hvae/linalg/random"
)

// An image has Side rows and Side columns of pixels.
const (
	Side   = 28
	Pixels = Side * Side
)

// Images are grey-scale images of Side × Side bytes each, row by row. A byte is 0 for paper and 255 for ink.
type Images struct{ Pixels []byte }

// Len returns the number of images.
func (s Images) Len() int { return len(s.Pixels) / Pixels }

// Image returns the pixels of image i.
func (s Images) Image(i int) []byte { return s.Pixels[i*Pixels : (i+1)*Pixels] }

// A Set is a dataset. SHA256 is the SHA-256, in hexadecimal, of the decompressed training file followed by the
// decompressed test file, as printed by zcat train-images-idx3-ubyte.gz t10k-images-idx3-ubyte.gz | sha256sum.
type Set struct {
	Name        string // MNIST, Synthetic or, for other images, "images-" and the first digits of SHA256
	Train, Test Images
	Folder      string // absolute path of the files, or Synthetic
	SHA256      string
}

// The names of two datasets: MNIST and the built-in images.
const MNIST, Synthetic = "mnist", "synthetic"

// Load returns the built-in images if folder is Synthetic, and otherwise the images in the folder. If folder is "",
// Load uses $HVAE_MNIST or, if that is not set, a folder in the user's cache. The files must have MNIST's names, with a
// hyphen or a dot before idx3, and may be compressed (.gz). Load downloads missing MNIST files into the folder, unless
// it contains any other file.
func Load(ctx context.Context, folder string, stderr io.Writer) (set Set, err error) {
	folder = cmp.Or(folder, os.Getenv("HVAE_MNIST"))
	if folder == Synthetic {
		return synthetic(), nil
	}
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return set, err
		}
		folder = filepath.Join(cache, "hvae-mnist")
	} else if _, err := os.Stat(folder); err != nil { // do not create the folder, because its name may be misspelt
		return set, fmt.Errorf("there is no folder %s: set -data or $HVAE_MNIST to the folder of the image files, "+
			"create it to download MNIST into it, or use -data %s for built-in images", folder, Synthetic)
	}
	set.Folder, err = filepath.Abs(folder)
	if err != nil {
		return set, err
	}
	set.Train, err = trainFile.load(ctx, set.Folder, stderr)
	if err == nil {
		set.Test, err = testFile.load(ctx, set.Folder, stderr)
	}
	if n := set.Train.Len(); err == nil && n < validationShare {
		err = fmt.Errorf("%s has only %d training images; at least %d are needed", set.Folder, n, validationShare)
	}
	set.Name, set.SHA256 = MNIST, digest(set.Train, set.Test)
	if set.SHA256 != mnistDigest {
		set.Name = "images-" + set.SHA256[:8]
	}
	return set, err
}

const validationShare = 6 // as in the paper, 10,000 of the 60,000 training images of MNIST are used for validation

// Split divides the n images in train at random. It returns the indices of the images for training, and of the ⌊n/6⌋
// images for validation.
func Split(train Images, seed uint64) (training, validation []int) {
	order := random.Stream(seed, "mnist split").Perm(train.Len())
	n := train.Len() / validationShare
	return order[n:], order[:n]
}

// Binarise sets column j of x [784×B] to independent binary pixels. Pixel i is 1 with probability image[i]/255.
func Binarise[T linalg.Float](x linalg.Matrix[T], j int, image []byte, rng *rand.Rand) {
	for i, v := range image {
		bit := T(0)
		if v == 255 || v > 0 && rng.Uint32N(255) < uint32(v) {
			bit = 1
		}
		x.Data[i*x.Cols+j] = bit
	}
}

// MeanLogit returns the initial value of the decoder's last bias: the mean of log(m/(1 − m)) over images, where m is
// the mean of an image's pixels divided by 255. It ignores images with m = 0 or 1. If no others exist, it returns 0.
func MeanLogit(images Images, indices []int) float64 {
	sum, n := 0.0, 0
	for _, i := range indices {
		total := 0
		for _, v := range images.Image(i) {
			total += int(v)
		}
		if m := float64(total) / (255 * Pixels); m > 0 && m < 1 {
			sum += math.Log(m / (1 - m))
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// A file describes an MNIST file. The digest is the hexadecimal SHA-256 of the decompressed file.
type file struct{ name, digest string }

var (
	trainFile   = file{"train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"}
	testFile    = file{"t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"}
	mnistDigest = "626406b879f816a1a33f889ac0273780bee64e9fe8de6a2e9686114d049e77d8" // Set.SHA256 of MNIST
)

// load returns the images of a file in the folder. If the file is missing, load downloads it, unless the folder
// contains other files than MNIST's, because they may be a dataset whose files have other names.
func (f file) load(ctx context.Context, folder string, stderr io.Writer) (images Images, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return images, err
	}
	for _, e := range entries { // sorted, so that the file comes before a compressed copy
		// Many unpackers write a dot before idx3, and some archives contain a folder with the name of the file.
		name := strings.Replace(e.Name(), ".idx3", "-idx3", 1)
		if strings.TrimSuffix(name, ".gz") == f.name && !e.IsDir() {
			return read(filepath.Join(folder, e.Name()))
		}
	}
	for _, e := range entries {
		temporary, _ := filepath.Match(command.Temporary, e.Name())
		images, _ := read(filepath.Join(folder, e.Name()))
		if d := digest(images); d != trainFile.digest && d != testFile.digest && !temporary {
			return images, fmt.Errorf("%s has no file %s, and MNIST is not downloaded into it, because it contains %s: "+
				"give the files of images MNIST's names, or use an empty folder", folder, f.name, e.Name())
		}
	}
	return f.download(ctx, folder, stderr)
}

// maxSize is the maximum number of bytes of an image file, compressed and decompressed.
var maxSize int64 = 1 << 30

func read(path string) (Images, error) {
	b, _, err := command.ReadFile(path, maxSize)
	if err != nil {
		return Images{}, err
	}
	images, err := parse(b)
	if err != nil {
		err = fmt.Errorf("cannot read the images in %s: %w: replace or delete this file", path, err)
	}
	return images, err
}

// parse reads the images of an IDX file, which may be compressed.
func parse(b []byte) (images Images, err error) {
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) { // the first two bytes of every gzip file
		b, err = command.Gunzip(b, maxSize)
		if err != nil {
			return images, err
		}
	}
	n := len(b) / Pixels
	h := header(n)
	if n == 0 || len(b) != len(h)+n*Pixels || !bytes.HasPrefix(b, h) {
		var numbers [4]uint32
		binary.Decode(b, binary.BigEndian, &numbers) // all are zero if b is too short
		return images, fmt.Errorf("%d bytes with the header %d are not an IDX file of n images of %d×%d bytes, "+
			"which has %d + %d·n bytes with the header [2051 n %[3]d %[4]d]", len(b), numbers, Side, Side, len(h), Pixels)
	}
	images.Pixels = b[len(h):]
	if slices.Max(images.Pixels) <= 1 {
		return images, errors.New("all bytes are 0 or 1, but a byte must be 0 for paper and 255 for ink")
	}
	return images, nil
}

// header returns the header of an IDX file of n images: the big-endian numbers 2051, n, height and width.
func header(n int) []byte {
	h, _ := binary.Append(nil, binary.BigEndian, []uint32{2051, uint32(n), Side, Side})
	return h
}

// digest encodes each argument as an IDX file and returns the hexadecimal SHA-256 of the concatenated files.
func digest(files ...Images) string {
	h := sha256.New()
	for _, images := range files {
		h.Write(header(images.Len()))
		h.Write(images.Pixels)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// mirror is the URL of a folder with the compressed MNIST files.
var mirror = "https://ossci-datasets.s3.amazonaws.com/mnist/"

// download downloads an MNIST file to the folder and returns the images. It does not write a file whose SHA-256 is
// wrong.
func (f file) download(ctx context.Context, folder string, stderr io.Writer) (images Images, err error) {
	address := mirror + f.name + ".gz"
	fmt.Fprintln(stderr, "downloading", address)
	sent, err := get(ctx, address)
	if err == nil {
		images, err = parse(sent)
	}
	if err == nil && digest(images) != f.digest {
		err = errors.New("its SHA-256 is wrong")
	}
	if err != nil {
		return images, fmt.Errorf("%s is not in %s and cannot be downloaded: put %s and %s into this folder, "+
			"compressed (.gz) or not, or use -data %s for built-in images (%s: %w)",
			f.name, folder, trainFile.name, testFile.name, Synthetic, address, err)
	}
	err = os.MkdirAll(folder, 0o755)
	if err == nil {
		err = command.WriteFile(filepath.Join(folder, f.name+".gz"), sent, os.Rename)
	}
	return images, err
}

// get returns the first 64 MiB of the response to a GET request.
func get(ctx context.Context, address string) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Minute}                            // enough for 10 MB at 20 kB/s
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, address, nil) // cannot fail for a valid address
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, 64<<20))
}
