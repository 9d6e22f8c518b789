package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hvae/bench/atomicfile"
)

// mirrors contains the URLs of folders with the compressed files. download tries the mirrors in this order.
var mirrors = []string{
	"https://ossci-datasets.s3.amazonaws.com/mnist/",
	"https://storage.googleapis.com/cvdf-datasets/mnist/",
}

// A download fails if any part of stallBytes bytes takes longer than stallTimeout. The time for the first
// part includes the time to connect.
const stallBytes = 64 << 10

var stallTimeout = 20 * time.Second // tests set a shorter time

// maxFile is larger than the size in bytes of any MNIST file, compressed or not.
const maxFile = 48 << 20

// download returns the images of an MNIST file from the first mirror that sends the correct file. It
// writes the received bytes, which are usually compressed, to the folder.
func (l loader) download(ctx context.Context, f file) (Images, error) {
	advice := fmt.Sprintf("put %s and %s into this folder, either as they are or compressed (.gz)", trainImages.name, testImages.name)
	if f.digest == "" {
		return Images{}, fmt.Errorf("%s is not in %s: %s", f.name, l.folder, advice)
	}
	if err := os.MkdirAll(l.folder, 0o755); err != nil {
		return Images{}, err
	}
	var failures []string
	for _, mirror := range l.mirrors {
		address := mirror + f.name + ".gz"
		l.log("downloading " + address)
		sent, err := fetch(ctx, address)
		var images Images
		if err == nil {
			images, err = f.parse(bytes.NewReader(sent))
		}
		if err == nil {
			path := filepath.Join(l.folder, f.name)
			if bytes.HasPrefix(sent, gzipMagic) {
				path += ".gz"
			}
			return images, atomicfile.Write(path, sent)
		}
		if ctx.Err() != nil {
			return Images{}, context.Cause(ctx)
		}
		failures = append(failures, fmt.Sprintf("%s: %v", address, err))
	}
	return Images{}, fmt.Errorf("%s is not in %s and cannot be downloaded (%s); %s, or use -data %s for built-in images", f.name, l.folder, strings.Join(failures, "; "), advice, Synthetic)
}

// fetch downloads a URL and returns the received bytes.
func fetch(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() {
		cancel(fmt.Errorf("the server sent less than %d KiB in %v", stallBytes>>10, stallTimeout))
	})
	defer stalled.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err // without the URL, which the caller adds
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server responded with the status %s", response.Status)
	}
	var sent bytes.Buffer
	for err == nil {
		if sent.Len() > maxFile {
			return nil, fmt.Errorf("the server sent more than %d bytes, the limit for these files", maxFile)
		}
		_, err = io.CopyN(&sent, response.Body, stallBytes)
		stalled.Reset(stallTimeout)
	}
	if err != io.EOF {
		return nil, err
	}
	return sent.Bytes(), nil
}
