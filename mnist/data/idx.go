package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// A file describes an image file. The digest of an MNIST file is the SHA-256 of its decompressed bytes in
// hexadecimal digits, because compressed copies may differ. For other files, the digest is empty.
type file struct{ name, digest string }

var (
	trainImages = file{"train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"}
	testImages  = file{"t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"}
)

// gzipMagic contains the first bytes of a gzip file.
var gzipMagic = []byte{0x1f, 0x8b}

// maxImages is the largest number of images that a file may contain. Their pixels take 784 MB.
const maxImages = 1_000_000

// A header is the beginning of an IDX file of images. It consists of four big-endian numbers. The
// pixels follow the header.
type header struct{ Magic, Images, Rows, Columns uint32 }

const magic = 2051

// parse reads the images of an IDX file, which may be compressed. It verifies the digest unless f.digest is
// empty. If a file is longer than its header specifies, parse stops after one excess byte.
func (f file) parse(r io.Reader) (Images, error) {
	in := bufio.NewReader(r)
	if start, _ := in.Peek(2); bytes.Equal(start, gzipMagic) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return Images{}, fmt.Errorf("its gzip header is damaged: %w", err)
		}
		in = bufio.NewReader(z)
	}
	var h header
	if err := binary.Read(in, binary.BigEndian, &h); err != nil {
		return Images{}, fmt.Errorf("its 16-byte header is truncated or damaged: %w", err)
	}
	switch {
	case h.Magic != magic:
		return Images{}, fmt.Errorf("its magic number is %d, but must be %d", h.Magic, magic)
	case h.Rows != Side || h.Columns != Side:
		return Images{}, fmt.Errorf("its images are %d×%d pixels, but must be %d×%d", h.Rows, h.Columns, Side, Side)
	case h.Images > maxImages:
		return Images{}, fmt.Errorf("its header specifies %d images, more than the limit of %d", h.Images, maxImages)
	}
	want := pixels * int64(h.Images)
	// Allocate the buffer in advance, because growing it takes more memory. The header may specify too many
	// images, so allocate at most maxFile bytes in advance, which is enough for MNIST.
	b := bytes.NewBuffer(make([]byte, 0, min(want, maxFile)+bytes.MinRead))
	_, err := b.ReadFrom(io.LimitReader(in, want+1))
	switch n := int64(b.Len()); {
	case err != nil:
		return Images{}, fmt.Errorf("it is truncated or damaged: %w", err)
	case n > want:
		return Images{}, fmt.Errorf("it contains extra data after the %d pixels of its %d images", want, h.Images)
	case n < want:
		return Images{}, fmt.Errorf("it is truncated: it contains only %d of the %d pixels of %d images", n, want, h.Images)
	}
	images := Images{b.Bytes()}
	if sum := digest(images); f.digest != "" && sum != f.digest {
		return Images{}, fmt.Errorf("its SHA-256 is %s, but should be %s", sum, f.digest)
	}
	return images, nil
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
