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

// mirrors are the addresses of folders with the compressed files, in the order of use.
var mirrors = []string{
	"https://ossci-datasets.s3.amazonaws.com/mnist/",
	"https://storage.googleapis.com/cvdf-datasets/mnist/",
}

// A loader reads the files in a folder and downloads missing files.
type loader struct {
	folder  string
	mirrors []string
	log     func(string)
}

// A download fails if it brings less than stallBytes within stallTimeout, including the time to
// connect, before the end of the file.
const stallBytes = 64 << 10

var stallTimeout = 20 * time.Second // shorter in tests

// download returns the contents of a file from the first mirror that sends the right ones. It
// writes the bytes as sent, usually compressed, to the folder.
func (l loader) download(ctx context.Context, f file) ([]byte, error) {
	if err := os.MkdirAll(l.folder, 0o755); err != nil {
		return nil, err
	}
	var failures []string
	for _, mirror := range l.mirrors {
		address := mirror + f.name + ".gz"
		l.log("downloading " + address)
		sent, b, err := fetch(ctx, address, f)
		if err != nil {
			failures = append(failures, fmt.Sprintf("%s: %v", address, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		path := filepath.Join(l.folder, f.name+".gz")
		if !bytes.HasPrefix(sent, []byte{0x1f, 0x8b}) {
			path = filepath.Join(l.folder, f.name)
		}
		if err := atomicfile.Write(path, sent); err != nil && !l.has(f) {
			return nil, err
		}
		return b, nil
	}
	return nil, errors.New(strings.Join(failures, "; "))
}

// has reports whether the folder has the right file. Another process may have written it
// concurrently; then download may fail to write it, because Windows does not replace a file
// that is open.
func (l loader) has(f file) bool {
	in, err := l.open(f.name)
	if err != nil {
		return false
	}
	defer in.Close()
	_, err = f.verify(in)
	return err == nil
}

// fetch returns the bytes that an address sends and their contents, decompressed and verified.
func fetch(ctx context.Context, address string, f file) (sent, contents []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("it sent less than %d KiB in %v", stallBytes>>10, stallTimeout)) })
	defer stalled.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, cause(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the server answers %s", response.Status)
	}
	// A compressed file is not longer than its contents, so a longer one must be wrong.
	body := &watched{r: io.LimitReader(response.Body, f.size+1), timer: stalled}
	sent, err = io.ReadAll(body)
	if err != nil {
		return nil, nil, cause(ctx, err)
	}
	contents, err = f.verify(bytes.NewReader(sent))
	return sent, contents, err
}

// watched resets a timer to stallTimeout after each stallBytes that it reads.
type watched struct {
	r     io.Reader
	timer *time.Timer
	since int // bytes since the last reset
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if w.since += n; w.since >= stallBytes {
		w.timer.Reset(stallTimeout)
		w.since = 0
	}
	return n, err
}

// cause returns the cause of the context's end, if it has ended, else err without the address,
// which the caller adds.
func cause(ctx context.Context, err error) error {
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
