package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const train, test = "train-images-idx3-ubyte", "t10k-images-idx3-ubyte"

// idx returns an IDX file with n < 256 images of arbitrary pixels.
func idx(n int) []byte {
	b := []byte{0, 0, 8, 3, 0, 0, 0, byte(n), 0, 0, 0, Side, 0, 0, 0, Side}
	for i := range n * Pixels {
		b = append(b, byte(i*i>>3))
	}
	return b
}

func compressed(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

// folder writes files to a new folder and returns its path.
func folder(t *testing.T, files map[string][]byte) (path string) {
	t.Helper()
	path = t.TempDir()
	for name, b := range files {
		file := filepath.Join(path, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// In all tests, idx(9) and idx(2), which contain nine and two images, are accepted as MNIST's training and test files,
// and files of more than 100,000 bytes are refused.
func init() {
	trainFile.digest, testFile.digest = digestOf(idx(9)), digestOf(idx(2))
	mnistDigest = digestOf(append(idx(9), idx(2)...))
	maxSize = 100_000
}

func digestOf(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

func TestLoadReadsPlainAndCompressedFiles(t *testing.T) {
	dot := func(name string) string { return strings.Replace(name, "-idx3", ".idx3", 1) }
	for _, c := range []struct {
		files       map[string][]byte
		train, test int
	}{
		{map[string][]byte{train: idx(9), test: idx(2)}, 9, 2},
		{map[string][]byte{train + ".gz": compressed(idx(9)), test: compressed(idx(2))}, 9, 2},
		{map[string][]byte{train + ".gz": append(compressed(idx(9)), make([]byte, 500)...), test: idx(2)}, 9, 2},
		{map[string][]byte{dot(train): idx(9), dot(test) + ".gz": compressed(idx(2))}, 9, 2},
		{map[string][]byte{dot(train): idx(9), train + "/" + train: idx(9), test: idx(2)}, 9, 2}, // as on Kaggle
		{map[string][]byte{train: idx(9), train + ".gz": {1}, test: idx(2), "other": {1}}, 9, 2},
		{map[string][]byte{train: idx(8), test: idx(3)}, 8, 3},
		{map[string][]byte{train: idx(7), test: idx(3)}, 7, 3}, // another name than for the same test file
		{map[string][]byte{train: idx(8), test: idx(2)}, 8, 2}, // MNIST's test file
	} {
		path, digest := folder(t, c.files), digestOf(append(idx(c.train), idx(c.test)...))
		want := Set{"images-" + digest[:8], Images{idx(c.train)[16:]}, Images{idx(c.test)[16:]}, path, digest}
		if c.train == 9 && c.test == 2 {
			want.Name = MNIST
		}
		set, err := Load(t.Context(), path, nil)
		if diff := cmp.Diff(want, set); err != nil || diff != "" {
			t.Errorf("Load returns the error %v and another dataset (-want +got):\n%s", err, diff)
		}
	}
}

func TestInvalidFilesAreRefused(t *testing.T) {
	wide, impossible, bits := idx(9), idx(9), idx(9)
	wide[15] = 29       // the header specifies images of 28×29 pixels
	impossible[4] = 255 // the header specifies 4,278,190,089 images
	for i := range bits[16:] {
		bits[16+i] &= 1
	}
	for want, files := range map[string]map[string][]byte{
		"no file " + train + ", and":                         {"emnist-" + train: idx(8), "emnist-" + test: idx(3)},
		"it contains " + test:                                {test: idx(3)},
		"it contains " + train:                               {train: idx(8)},
		"it contains TRAIN-IMAGES":                           {strings.ToUpper(train): idx(8), test: idx(2)},
		"it contains " + test + ".bin":                       {train: idx(9), test + ".bin": idx(3)},
		"it contains deeper":                                 {"deeper/" + train: idx(9), "deeper/" + test: idx(2)},
		"it contains .notes.tmp":                             {".notes.tmp": {1}},
		"only 5 training images":                             {train: idx(5), test: idx(2)},
		": 16 bytes with the header [2051 0 28 28]":          {train: idx(9), test: idx(0)},
		"7073 bytes with the header [2051 9 28 28]":          {train: append(idx(9), 1), test: idx(2)},
		"7071 bytes with the header [2051 9 28 28]":          {train: idx(9)[:7071], test: idx(2)},
		"7072 bytes with the header [2051 4278190089 28 28]": {train: compressed(impossible), test: idx(2)},
		"7072 bytes with the header [0 9 28 28]":             {train: append([]byte{0, 0, 0, 0, 0, 0, 0}, idx(9)[7:]...), test: idx(2)},
		"7072 bytes with the header [2051 9 28 29]":          {train: wide, test: idx(2)},
		": 0 bytes":                   {train: {}, test: idx(2)},
		"all bytes are 0 or 1":        {train: bits, test: idx(2)},
		"Git LFS pointer":             {train: []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"), test: idx(2)},
		"unexpected EOF":              {train: compressed(idx(9))[:40], test: idx(2)},
		"gzip":                        {train: {0x1f, 0x8b, 0, 0, 0, 0, 0, 0, 0, 0}, test: idx(2)},
		"at most 100000":              {train: make([]byte, 100_001), test: idx(2)},
		"expands to more than 100000": {train: compressed(make([]byte, 100_001)), test: idx(2)},
	} {
		path, printed := folder(t, files), new(bytes.Buffer)
		_, err := Load(t.Context(), path, printed)
		if err == nil || printed.Len() > 0 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want an error with %q and %s", err, want, path)
		}
	}
}

func FuzzIDX(f *testing.F) {
	for _, b := range [][]byte{idx(1), compressed(idx(2)), idx(2)[:900], {0x1f, 0x8b}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		images, err := parse(b)
		if err != nil {
			return
		}
		again, err := parse(append(idx(images.Len())[:16], images.Pixels...))
		if err != nil || !bytes.Equal(images.Pixels, again.Pixels) {
			t.Fatalf("parse accepts a file with %d images, but returns %d images and the error %v for the same images", images.Len(), again.Len(), err)
		}
	})
}

// serve starts a server with the given handler and sets the variable mirror to its URL.
func serve(t *testing.T, h http.HandlerFunc) {
	t.Helper()
	server, old := httptest.NewServer(h), mirror
	mirror = server.URL + "/"
	t.Cleanup(func() { mirror = old; server.Close() })
}

func sends(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write(b) }
}

// A download must write either the original file or nothing, not even a new folder.
func TestDownloadKeepsOnlyVerifiedFiles(t *testing.T) {
	contents := idx(9)
	sent, wrong := compressed(contents), slices.Clone(contents)
	wrong[100]++
	endless := func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 1<<20))
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string // part of the error; empty for no error
	}{
		"compressed":  {sends(sent), ""},
		"plain":       {sends(contents), ""},
		"not found":   {http.NotFound, "404"},
		"wrong pixel": {sends(compressed(wrong)), "SHA-256 is wrong"},
		"truncated":   {sends(sent[:len(sent)/2]), "unexpected EOF"},
		"endless":     {endless, "67108864 bytes"},
	} {
		serve(t, c.handler)
		path := filepath.Join(t.TempDir(), "new")
		images, err := trainFile.download(t.Context(), path, io.Discard)
		if c.want != "" {
			_, missing := os.Stat(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "use -data synthetic") || missing == nil {
				t.Errorf("%s: error %v, folder created: %v; want an error with %q and no folder", name, err, missing == nil, c.want)
			}
			continue
		}
		again, reread := trainFile.load(t.Context(), path, nil)
		same := bytes.Equal(images.Pixels, contents[16:]) && bytes.Equal(again.Pixels, contents[16:])
		if err != nil || reread != nil || !same {
			t.Errorf("%s: %d images, read again %d images; errors %v, %v", name, images.Len(), again.Len(), err, reread)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	serve(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if _, err := trainFile.download(ctx, t.TempDir(), io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled download returns the error %v", err)
	}
}

// If only one MNIST file is missing, only that file must be downloaded.
func TestLoadDownloadsTheMissingFile(t *testing.T) {
	serve(t, sends(idx(2)))
	var printed strings.Builder
	files := map[string][]byte{train: idx(9), ".0123456789abcdef.tmp": {1}} // a process was killed during a download
	set, err := Load(t.Context(), folder(t, files), &printed)
	want := "downloading " + mirror + test + ".gz\n"
	if err != nil || set.Name != MNIST || set.Test.Len() != 2 || printed.String() != want {
		t.Errorf("the dataset is %q with %d test images (error %v) after %q", set.Name, set.Test.Len(), err, printed.String())
	}
}

// The -data flag must take precedence over $HVAE_MNIST, and this variable over a folder in the user's cache, into which
// Load must download the files. Load must not create a folder that the user names.
func TestLoadFindsTheFolder(t *testing.T) {
	own, typo := folder(t, map[string][]byte{train: idx(9), test: idx(2)}), filepath.Join(t.TempDir(), "typo")
	file := filepath.Join(own, train)
	for _, v := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(v, typo)
	}
	cache, _ := os.UserCacheDir()
	serve(t, http.NotFound)
	for _, c := range []struct{ option, variable, want string }{ // want is part of the error; empty for no error
		{own, "", ""}, {"", own, ""}, {own, typo, ""}, {Synthetic, typo, ""},
		{typo, own, "there is no folder " + typo},
		{"", typo, "there is no folder " + typo},
		{file, own, file + ": not a directory"},
		{"", "", "is not in " + filepath.Join(cache, "hvae-mnist")},
	} {
		t.Setenv("HVAE_MNIST", c.variable)
		set, err := Load(t.Context(), c.option, io.Discard)
		found := err == nil && set.Test.Len() > 0
		refused := err != nil && strings.Contains(err.Error(), c.want)
		if c.want == "" && !found || c.want != "" && !refused {
			t.Errorf("-data %q with $HVAE_MNIST=%q: %d images, error %v; want an error with %q",
				c.option, c.variable, set.Test.Len(), err, c.want)
		}
		if _, err := os.Stat(typo); err == nil {
			t.Fatalf("%s was created", typo)
		}
	}
}

func TestSyntheticImagesAreReproducible(t *testing.T) {
	set, err := Load(t.Context(), Synthetic, nil)
	want := "2befd1d5f256430cea9583c8663567cb54dc0b86c7e6f818f9ff7af8a81fb379"
	if err != nil || set.Name != Synthetic || set.Train.Len() != 2400 || set.Test.Len() != 400 || set.SHA256 != want {
		t.Errorf("the dataset is %q with %d and %d images and the SHA-256 %s (error %v), want 2400 and 400 images with %s",
			set.Name, set.Train.Len(), set.Test.Len(), set.SHA256, err, want)
	}
}

func TestMeanLogitIgnoresBlankImages(t *testing.T) {
	images := Images{make([]byte, 3*Pixels)} // the fractions of ink are 0, 1/4 and 3/4
	for i := range Pixels {
		images.Image(1 + min(i%4, 1))[i] = 255
	}
	for i, want := range []float64{math.Log(1. / 3), 0} { // mean logits of images 0 and 1, and of images 1 and 2
		if got := MeanLogit(images, []int{i, i + 1}); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("the mean logit of images %d and %d is %v, want %v", i, i+1, got, want)
		}
	}
}
