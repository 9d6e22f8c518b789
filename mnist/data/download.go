package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"hvae/bench/atomicfile"
)

// mirror is the URL of a folder with the compressed files.
var mirror = "https://ossci-datasets.s3.amazonaws.com/mnist/"

// client limits the time of a download. It is enough for the largest file, 10 MB, at 20 kB/s.
var client = http.Client{Timeout: 10 * time.Minute}

// download downloads an MNIST file and returns its images. It writes the received bytes, which are usually
// compressed, to the folder, which it creates if necessary. It writes nothing if the SHA-256 is wrong.
func (f file) download(ctx context.Context, folder string, log func(string)) (Images, error) {
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
		return Images{}, fmt.Errorf("%s is not in %s and cannot be downloaded: put %s and %s into this folder, compressed (.gz) or not, or use -data %s for built-in images (%s: %w)",
			f.name, folder, mnistFiles[0].name, mnistFiles[1].name, Synthetic, address, err)
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

// fetch downloads at most 64 MiB from a URL.
func fetch(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
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
