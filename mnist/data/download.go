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

// timeout limits the time of a download. It is enough for the largest file, 10 MB, at 20 kB/s.
var timeout = 10 * time.Minute

// download returns the images of an MNIST file from the first mirror that sends the correct file. It
// writes the received bytes, which are usually compressed, to the folder. It creates the folder if necessary.
func (f file) download(ctx context.Context, folder string, log func(string)) (Images, error) {
	var failures []string
	for _, mirror := range mirrors {
		address := mirror + f.name + ".gz"
		log("downloading " + address)
		sent, err := fetch(ctx, address)
		if ctx.Err() != nil {
			return Images{}, context.Cause(ctx)
		}
		var images Images
		if err == nil {
			images, err = parse(sent)
		}
		if err == nil && digest(images) != f.digest {
			err = errors.New("its SHA-256 is wrong")
		}
		if err != nil {
			failures = append(failures, fmt.Sprintf("%s: %v", address, err))
			continue
		}
		path := filepath.Join(folder, f.name)
		if bytes.HasPrefix(sent, gzipMagic) {
			path += ".gz"
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return Images{}, err
		}
		return images, atomicfile.Write(path, sent)
	}
	return Images{}, fmt.Errorf("%s is not in %s and cannot be downloaded: put %s and %s into this folder, compressed (.gz) or not, or use -data %s for built-in images (%s)",
		f.name, folder, mnistFiles[0].name, mnistFiles[1].name, Synthetic, strings.Join(failures, "; "))
}

// fetch downloads at most 64 MiB from a URL.
func fetch(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err // without the address
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, 64<<20))
}
