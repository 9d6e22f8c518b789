package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hvae/bench/atomicfile"
)

// mirrors have the files, compressed, under these addresses. They are tried in turn.
var mirrors = []string{
	"https://ossci-datasets.s3.amazonaws.com/mnist/",
	"https://storage.googleapis.com/cvdf-datasets/mnist/",
}

// A loader reads the files in a folder, and downloads those that are missing.
type loader struct {
	folder  string
	mirrors []string
	log     func(string)
}

// A mirror that does not answer, stops sending or only trickles is given up: each
// stallTimeout must bring stallBytes, or the rest of the file.
var (
	answerTimeout = 15 * time.Second
	stallTimeout  = 20 * time.Second
)

const stallBytes = 64 << 10

// download fetches a file from the first mirror that has it right, and keeps the bytes
// that were sent, in one piece or not at all.
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

// has says whether the file is there by now: another process may have been faster, and
// Windows does not replace what that has open.
func (l loader) has(f file) bool {
	in, err := l.open(f.name)
	if err != nil {
		return false
	}
	defer in.Close()
	_, err = f.verify(in)
	return err == nil
}

// fetch returns what an address sends and what it decompresses to, verified.
func fetch(ctx context.Context, address string, f file) (sent, contents []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("it sent less than %d KiB in %v", stallBytes>>10, stallTimeout)) })
	defer stalled.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	client := http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: answerTimeout}).DialContext,
		TLSHandshakeTimeout:   answerTimeout,
		ResponseHeaderTimeout: answerTimeout,
		DisableKeepAlives:     true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, because(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the server says %s", response.Status)
	}
	// A compressed file is not longer than the original: what is longer is something else.
	body := &watched{r: io.LimitReader(response.Body, f.size+1), timer: stalled}
	sent, err = io.ReadAll(body)
	if err != nil {
		return nil, nil, because(ctx, err)
	}
	contents, err = f.verify(bytes.NewReader(sent))
	return sent, contents, err
}

// watched puts a timer off whenever enough data have come.
type watched struct {
	r     io.Reader
	timer *time.Timer
	since int // bytes since then
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if w.since += n; w.since >= stallBytes {
		w.timer.Reset(stallTimeout)
		w.since = 0
	}
	return n, err
}

// because returns why the context ended, if it did, else err without the address, which
// the caller tells.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
