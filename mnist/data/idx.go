package data

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"hvae/bench/atomicfile"
)

// A file describes an MNIST file. The digest is the SHA-256 of its decompressed bytes in hexadecimal digits,
// because compressed copies may differ.
type file struct{ name, digest string }

// mnistFiles are the files of the training images and of the test images.
var mnistFiles = [2]file{
	{"train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
	{"t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
}

// gzipMagic contains the first bytes of a gzip file.
var gzipMagic = []byte{0x1f, 0x8b}

// maxImages is the largest number of images in a file. Their pixels take 784 MB.
const maxImages = 1_000_000

// read returns the images in the file f.name or, if it does not exist, in f.name.gz. If neither exists, the
// error wraps fs.ErrNotExist.
func (f file) read(folder string) (Images, error) {
	name := filepath.Join(folder, f.name)
	b, err := atomicfile.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		name += ".gz"
		b, err = atomicfile.Read(name)
	}
	if err != nil {
		return Images{}, err
	}
	images, err := parse(b)
	if err != nil {
		return Images{}, fmt.Errorf("%s: %w", name, err)
	}
	return images, nil
}

// parse reads the images of an IDX file, which may be compressed.
func parse(b []byte) (Images, error) {
	if bytes.HasPrefix(b, gzipMagic) {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(z, maxImages*pixels+100))
		}
		if err != nil {
			return Images{}, err
		}
	}
	n := len(b) / pixels
	if h := header(n); n > maxImages || len(b) != len(h)+n*pixels || !bytes.HasPrefix(b, h) {
		return Images{}, fmt.Errorf("it has %d bytes and begins with % x, so it is not a complete IDX file of at most %d images of %d×%d bytes", len(b), b[:min(len(b), len(h))], maxImages, Side, Side)
	}
	return Images{b[len(header(n)):]}, nil
}

// header returns the beginning of an IDX file of n images: four big-endian numbers, the magic number 2051, n
// and the sizes of an image. The pixels follow the header.
func header(n int) (h []byte) {
	for _, v := range []int{2051, n, Side, Side} {
		h = binary.BigEndian.AppendUint32(h, uint32(v))
	}
	return h
}

// digest encodes each argument as an IDX file and returns the hexadecimal SHA-256 of the concatenated files.
func digest(files ...Images) string {
	h := sha256.New()
	for _, images := range files {
		h.Write(header(images.Len()))
		h.Write(images.Pixels)
	}
	return hex.EncodeToString(h.Sum(nil))
}
