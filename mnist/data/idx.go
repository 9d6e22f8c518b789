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

// A file is one of the four of MNIST: its name, and the length and SHA-256 of its bytes
// when decompressed. Compressed copies of the same data differ.
type file struct {
	name   string
	size   int64
	digest string
}

var (
	trainImages = file{"train-images-idx3-ubyte", 47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"}
	trainLabels = file{"train-labels-idx1-ubyte", 60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"}
	testImages  = file{"t10k-images-idx3-ubyte", 7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"}
	testLabels  = file{"t10k-labels-idx1-ubyte", 10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}
)

func fileNames() (names []string) {
	for _, f := range []file{trainImages, trainLabels, testImages, testLabels} {
		names = append(names, f.name)
	}
	return names
}

// verify reads the file's bytes, decompressing them if they are compressed, and checks
// their length and digest. It reads no more than a byte beyond the length.
func (f file) verify(r io.Reader) ([]byte, error) {
	b, err := decompress(r, f.size+1)
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != f.size {
		what := fmt.Sprintf("%d bytes", len(b))
		if int64(len(b)) > f.size {
			what = "more"
		}
		return nil, fmt.Errorf("it should have %d bytes and has %s", f.size, what)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != f.digest {
		return nil, fmt.Errorf("its SHA-256 is %x, not %s", sum, f.digest)
	}
	return b, nil
}

// decompress reads at most limit bytes of a stream that may be compressed by gzip.
func decompress(r io.Reader, limit int64) ([]byte, error) {
	in := bufio.NewReader(r)
	r = in
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("its gzip header is damaged: %w", err)
		}
		r = z
	}
	// Room for all of it at once: growing on the way would take several times as much.
	b := bytes.NewBuffer(make([]byte, 0, limit+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(r, limit)); err != nil {
		return nil, fmt.Errorf("it is cut off or damaged: %w", err)
	}
	return b.Bytes(), nil
}

// parseImages reads an IDX file of images: the magic number 2051, the number of images,
// rows and columns, each 4 bytes, most significant first, and the pixels.
func parseImages(b []byte) (Images, error) {
	const header, magic = 16, 2051
	if len(b) < header {
		return Images{}, fmt.Errorf("its %d bytes are cut off before the end of the header, %d bytes", len(b), header)
	}
	field := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	if field(0) != magic {
		return Images{}, fmt.Errorf("its magic number is %d, that of images is %d", field(0), magic)
	}
	if field(2) != Side || field(3) != Side {
		return Images{}, fmt.Errorf("its images are %d×%d, not %d×%d", field(2), field(3), Side, Side)
	}
	if want := header + pixels*int64(field(1)); int64(len(b)) != want {
		return Images{}, fmt.Errorf("%d images take %d bytes, it has %d", field(1), want, len(b))
	}
	return Images{b[header:]}, nil
}
