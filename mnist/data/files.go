package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"hvae/bench/atomicfile"
)

// A file describes an MNIST file. The digest is the hexadecimal SHA-256 of the decompressed file, because compressed
// copies of the same file may differ.
type file struct{ name, digest string }

// mnistFiles are the files of the training images and of the test images.
var mnistFiles = [2]file{
	{"train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
	{"t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
}

// maxImages is the maximum number of images in a file. The pixels of that many images take 784 MB.
const maxImages = 1_000_000

// read returns the images in the file f.name or, if it does not exist, in f.name.gz. If neither exists, the
// error wraps fs.ErrNotExist.
func (f file) read(folder string) (images Images, err error) {
	name := filepath.Join(folder, f.name)
	b, err := atomicfile.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		name += ".gz"
		b, err = atomicfile.Read(name)
	}
	if err != nil {
		return images, err
	}
	if images, err = parse(b); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return images, err
}

// parse reads the images of an IDX file, which may be compressed.
func parse(b []byte) (Images, error) {
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) { // the first two bytes of every gzip file
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

// header returns the beginning of an IDX file of n images: four big-endian numbers, which are the magic number 2051, n,
// and the height and width of an image. The pixels follow the header.
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

// mirror is the URL of a folder with the compressed MNIST files.
var mirror = "https://ossci-datasets.s3.amazonaws.com/mnist/"

// client limits the duration of a download. Ten minutes suffice for the largest file (10 MB) at 20 kB/s.
var client = http.Client{Timeout: 10 * time.Minute}

// download downloads a compressed MNIST file to the folder, which it creates if necessary, and returns the images. If the
// SHA-256 is wrong, it writes nothing.
func (f file) download(ctx context.Context, folder string, log func(string)) (Images, error) {
	address := mirror + f.name + ".gz"
	log("downloading " + address)
	sent, images, err := f.fetch(ctx, address)
	if ctx.Err() != nil {
		return Images{}, context.Cause(ctx)
	}
	if err != nil {
		return Images{}, fmt.Errorf("%s is not in %s and cannot be downloaded: put %s and %s into this folder, compressed (.gz) or not, or use -data %s for built-in images (%s: %w)",
			f.name, folder, mnistFiles[0].name, mnistFiles[1].name, Synthetic, address, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return Images{}, err
	}
	return images, atomicfile.Write(filepath.Join(folder, f.name+".gz"), sent)
}

// fetch returns the bytes of an MNIST file, at most 64 MiB, and its images from a URL.
func (f file) fetch(ctx context.Context, address string) (sent []byte, images Images, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, images, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, images, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, images, errors.New(response.Status)
	}
	if sent, err = io.ReadAll(io.LimitReader(response.Body, 64<<20)); err != nil {
		return nil, images, err
	}
	if images, err = parse(sent); err == nil && digest(images) != f.digest {
		err = errors.New("its SHA-256 is wrong")
	}
	return sent, images, err
}
