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

// A file is a file of MNIST: its name, and the length and SHA-256 of its decompressed bytes
// (compressed copies of the same bytes differ).
type file struct {
	name   string
	size   int64
	digest string
}

var (
	trainImages = file{"train-images-idx3-ubyte", 47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"}
	testImages  = file{"t10k-images-idx3-ubyte", 7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"}
)

// verify reads the file's bytes, decompresses them if necessary, and checks their length and
// digest. It decompresses at most one byte more than the length.
func (f file) verify(r io.Reader) ([]byte, error) {
	in, _, err := decompress(r)
	if err != nil {
		return nil, err
	}
	b, err := readTo(in, f.size+1)
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != f.size {
		has := fmt.Sprintf("%d bytes", len(b))
		if int64(len(b)) > f.size {
			has = "more"
		}
		return nil, fmt.Errorf("it should have %d bytes and has %s", f.size, has)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != f.digest {
		return nil, fmt.Errorf("its SHA-256 is %x, not %s", sum, f.digest)
	}
	return b, nil
}

// decompress returns the contents of a stream that may be compressed with gzip. It also
// returns the largest possible ratio of their length to the stream's length: deflate encodes
// at most 258 bytes in 2 bits.
func decompress(r io.Reader) (contents *bufio.Reader, ratio int64, err error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, 1, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, 0, fmt.Errorf("its gzip header is damaged: %w", err)
	}
	return bufio.NewReader(z), 258 * 8 / 2, nil
}

// readTo reads at most limit bytes. It allocates memory for all of them first, because a
// growing buffer would need several times as much.
func readTo(r io.Reader, limit int64) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, limit+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(r, limit)); err != nil {
		return nil, fmt.Errorf("it is cut off or damaged: %w", err)
	}
	return b.Bytes(), nil
}

// maxImages is the largest number of images that a file may have. They take 784 MB.
const maxImages = 1_000_000

// readImages reads an IDX file of images, which may be compressed. size is the length of the
// file in bytes. Before readImages allocates memory, it checks that the header's number of
// images is at most maxImages and possible for a file of this size. It decompresses at most
// one byte more than the header specifies.
func readImages(r io.Reader, size int64) (Images, error) {
	in, ratio, err := decompress(r)
	if err != nil {
		return Images{}, err
	}
	start, err := in.Peek(header)
	if err != nil && err != io.EOF {
		return Images{}, fmt.Errorf("it is cut off or damaged: %w", err)
	}
	n, err := parseHeader(start)
	if err != nil {
		return Images{}, err
	}
	if n > maxImages {
		return Images{}, fmt.Errorf("its header gives %d images: there may be at most %d", n, maxImages)
	}
	length := header + pixels*n
	if length > ratio*size {
		return Images{}, fmt.Errorf("%d images take %d bytes, which its %d bytes cannot contain", n, length, size)
	}
	b, err := readTo(in, length+1)
	if err != nil {
		return Images{}, err
	}
	return parseImages(b)
}

// An IDX file of images begins with a header of four big-endian 32-bit numbers: the magic
// number, the number of images, rows and columns. The pixels follow.
const header, magic = 16, 2051

// header returns the header of the IDX file of the images.
func (s Images) header() (b []byte) {
	for _, v := range []int{magic, s.Len(), Side, Side} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// parseHeader returns the number of images in the header at the beginning of b.
func parseHeader(b []byte) (n int64, err error) {
	if len(b) < header {
		return 0, fmt.Errorf("it is cut off: it has %d bytes, fewer than the %d of the header", len(b), header)
	}
	field := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	if field(0) != magic {
		return 0, fmt.Errorf("its magic number is %d, not %d as for images", field(0), magic)
	}
	if field(2) != Side || field(3) != Side {
		return 0, fmt.Errorf("its images are %d×%d, not %d×%d", field(2), field(3), Side, Side)
	}
	return int64(field(1)), nil
}

// parseImages returns the images in the bytes of an IDX file.
func parseImages(b []byte) (Images, error) {
	n, err := parseHeader(b)
	if err != nil {
		return Images{}, err
	}
	if want := header + pixels*n; int64(len(b)) != want {
		return Images{}, fmt.Errorf("%d images take %d bytes, but it has %d", n, want, len(b))
	}
	return Images{b[header:]}, nil
}
