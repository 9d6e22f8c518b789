package data

import (
	"bufio"
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

// maxImages is the largest number of images that a file may contain. Their pixels take 784 MB.
const maxImages = 1_000_000

// A header is the beginning of an IDX file of images. It consists of four big-endian numbers. The
// pixels follow the header.
type header struct{ Magic, Images, Rows, Columns uint32 }

const magic = 2051

// read returns the images in the file f.name or, if it does not exist, in f.name.gz. If neither exists, the
// error wraps fs.ErrNotExist.
func (f file) read(folder string) (Images, error) {
	in, err := atomicfile.Open(filepath.Join(folder, f.name))
	if errors.Is(err, fs.ErrNotExist) {
		in, err = atomicfile.Open(filepath.Join(folder, f.name+".gz"))
	}
	if err != nil {
		return Images{}, err
	}
	defer in.Close()
	images, err := parse(in)
	if err != nil {
		return Images{}, fmt.Errorf("%s is damaged or not an IDX file of images: %w", in.Name(), err)
	}
	return images, nil
}

// parse reads the images of an IDX file, which may be compressed. If a file is longer than its header
// specifies, parse stops after one excess byte.
func parse(r io.Reader) (Images, error) {
	in := bufio.NewReader(r)
	if start, _ := in.Peek(2); bytes.Equal(start, gzipMagic) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return Images{}, err
		}
		in = bufio.NewReader(z)
	}
	var h header
	if err := binary.Read(in, binary.BigEndian, &h); err != nil {
		return Images{}, err
	}
	if h.Magic != magic || h.Images > maxImages || h.Rows != Side || h.Columns != Side {
		return Images{}, fmt.Errorf("its header has the magic number %d and %d images of %d×%d pixels, but must have %d and at most %d images of %d×%d",
			h.Magic, h.Images, h.Rows, h.Columns, magic, maxImages, Side, Side)
	}
	want := pixels * int64(h.Images)
	// Allocate the buffer in advance, because growing it takes more memory. The header may specify too many
	// images, so allocate at most maxFile bytes in advance, which is enough for MNIST.
	b := bytes.NewBuffer(make([]byte, 0, min(want, maxFile)+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(in, want+1)); err != nil {
		return Images{}, err
	}
	if n := int64(b.Len()); n < want {
		return Images{}, fmt.Errorf("it has only %d of the %d pixels of its %d images", n, want, h.Images)
	} else if n > want {
		return Images{}, fmt.Errorf("it has more than the %d pixels of its %d images", want, h.Images)
	}
	return Images{b.Bytes()}, nil
}

// digest encodes each argument as an IDX file and returns the hexadecimal SHA-256 of the concatenated files.
func digest(files ...Images) string {
	h := sha256.New()
	for _, images := range files {
		binary.Write(h, binary.BigEndian, header{magic, uint32(images.Len()), Side, Side})
		h.Write(images.Pixels)
	}
	return hex.EncodeToString(h.Sum(nil))
}
