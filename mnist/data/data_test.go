package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hvae/linalg"
	"hvae/linalg/random"
)

// idx returns an IDX file with n images of arbitrary pixels.
func idx(n int) []byte {
	var b []byte
	for _, v := range []uint32{2051, uint32(n), Side, Side} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	for i := range n * pixels {
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

// fileOf returns a file with the given name and the digest of contents.
func fileOf(name string, contents []byte) file {
	return file{name, fmt.Sprintf("%x", sha256.Sum256(contents))}
}

func FuzzIDX(f *testing.F) {
	f.Add(idx(1))
	f.Add(compressed(idx(2)))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, b []byte) {
		images, err := file{}.parse(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := file{}.parse(bytes.NewReader(append(idx(images.Len())[:16], images.Pixels...)))
		if err != nil || !bytes.Equal(images.Pixels, again.Pixels) {
			t.Fatalf("parse accepts a file with %d images, but returns %d images and the error %v for the same images", images.Len(), again.Len(), err)
		}
	})
}

// server starts a web server that calls handle for every request, and returns the URL of the server.
func server(t *testing.T, handle http.HandlerFunc) string {
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL + "/"
}

func serve(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write(b) }
}

// The timeout applies to each part of 64 KiB, not to the whole file.
func TestDownloadMayTakeLongerThanTheTimeout(t *testing.T) {
	defer func(s time.Duration) { stallTimeout = s }(stallTimeout)
	stallTimeout = time.Second
	contents := idx(340)
	slow := server(t, func(w http.ResponseWriter, _ *http.Request) {
		for part := range slices.Chunk(contents, stallBytes) {
			w.Write(part)
			w.(http.Flusher).Flush()
			time.Sleep(300 * time.Millisecond)
		}
	})
	l := loader{t.TempDir(), []string{slow}, func(string) {}}
	if images, err := l.read(t.Context(), fileOf("images", contents)); err != nil || images.Len() != 340 {
		t.Errorf("a download with pauses of 300 ms and a timeout of %v returns %d images, error %v", stallTimeout, images.Len(), err)
	}
}

func TestDownloadKeepsOnlyVerifiedFiles(t *testing.T) {
	defer func(s time.Duration) { stallTimeout = s }(stallTimeout)
	contents := idx(4)
	f := fileOf("images", contents)
	sent := compressed(contents)
	good := server(t, serve(sent))
	wrong := slices.Clone(contents)
	wrong[100]++
	for _, c := range []struct {
		name    string
		mirrors []string
		want    string // part of the error; empty for no error
	}{
		{"good", []string{good}, ""},
		{"plain", []string{server(t, serve(contents))}, ""},
		{"redirect", []string{server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, good+"x", http.StatusFound) })}, ""},
		{"first bad, second good", []string{server(t, serve([]byte("garbage"))), good}, ""},
		{"not found", []string{server(t, http.NotFound)}, "404"},
		{"garbage", []string{server(t, serve([]byte("<html>")))}, "header is truncated or damaged"},
		{"wrong bytes", []string{server(t, serve(compressed(wrong)))}, "SHA-256"},
		{"too long", []string{server(t, serve(compressed(append(slices.Clone(contents), 1))))}, "extra data after the 3136 pixels"},
		{"endless", []string{server(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		})}, "more than 50331648 bytes"},
		{"truncated", []string{server(t, serve(sent[:len(sent)/2]))}, "truncated"},
		{"dropped", []string{server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(sent)))
			w.Write(sent[:10])
		})}, "EOF"},
		{"stalled", []string{server(t, func(w http.ResponseWriter, r *http.Request) {
			w.Write(sent[:10])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})}, "less than 64 KiB in 100ms"},
		{"trickling", []string{server(t, func(w http.ResponseWriter, r *http.Request) {
			for _, b := range sent {
				w.Write([]byte{b})
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		})}, "less than 64 KiB in 100ms"},
		{"silent", []string{server(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}, "less than 64 KiB in 100ms"},
		{"endless redirects", []string{server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) })}, "redirects"},
		{"no server", []string{"http://127.0.0.1:1/"}, "refused"},
	} {
		stallTimeout = time.Minute
		switch c.name { // short timeouts only for the cases that wait for them
		case "silent", "stalled", "trickling":
			stallTimeout = 100 * time.Millisecond
		}
		folder := filepath.Join(t.TempDir(), "new")
		l := loader{folder, c.mirrors, func(string) {}}
		images, err := l.read(t.Context(), f)
		files, _ := os.ReadDir(folder)
		if c.want == "" {
			if err != nil || !bytes.Equal(images.Pixels, contents[16:]) || len(files) != 1 {
				t.Errorf("%s: error %v, files %v; want the images and one file", c.name, err, files)
				continue
			}
			l.mirrors = nil // the folder contains the file now
			if images, err := l.read(t.Context(), f); err != nil || !bytes.Equal(images.Pixels, contents[16:]) {
				t.Errorf("%s: the downloaded file cannot be read again: %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || len(files) != 0 {
			t.Errorf("%s: error %v, files %v; want an error with %q and no files", c.name, err, files, c.want)
		}
		if help := "put train-images-idx3-ubyte and t10k-images-idx3-ubyte into this folder, either as they are or compressed (.gz), or use -data synthetic"; err != nil && (!strings.Contains(err.Error(), help) || !strings.Contains(err.Error(), folder)) {
			t.Errorf("%s: error %v, want an error with %q and %s", c.name, err, help, folder)
		}
	}
}

func TestProcessesCanDownloadTheSameFileConcurrently(t *testing.T) {
	contents := idx(40)
	f := fileOf("images", contents)
	sent := compressed(contents)
	const processes = 8
	var together sync.WaitGroup
	together.Add(processes)
	mirror := server(t, func(w http.ResponseWriter, _ *http.Request) {
		together.Done()
		together.Wait()
		w.Write(sent)
	})
	folder := t.TempDir()
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			images, err := loader{folder, []string{mirror}, func(string) {}}.read(t.Context(), f)
			if err != nil || !bytes.Equal(images.Pixels, contents[16:]) {
				t.Errorf("a concurrent download returns %d images and the error %v, want 40 images", images.Len(), err)
			}
		})
	}
	all.Wait()
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 {
		t.Errorf("the folder contains %v (error %v), want one file", files, err)
	}
	if images, err := (loader{folder, nil, func(string) {}}).read(t.Context(), f); err != nil || !bytes.Equal(images.Pixels, contents[16:]) {
		t.Errorf("the downloaded file cannot be read again: %v", err)
	}
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	slow := server(t, func(w http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	_, err := loader{t.TempDir(), []string{slow, slow}, func(string) {}}.read(ctx, fileOf("images", idx(1)))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled download returns the error %v, want context.Canceled", err)
	}
}

func TestDamagedFileIsNamedAndKept(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "images.gz")
	if err := os.WriteFile(path, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := loader{folder, nil, func(string) {}}.read(t.Context(), fileOf("images", idx(1)))
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("error %v, want the path of the file and the advice to delete it", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "damaged" {
		t.Error("the damaged file was changed")
	}
}

// write writes files to a new folder and returns its path.
func write(t *testing.T, files map[string][]byte) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestLoadReadsOtherDatasets(t *testing.T) {
	folder := write(t, map[string][]byte{"train-images-idx3-ubyte": idx(31), "t10k-images-idx3-ubyte.gz": compressed(idx(2))})
	set, err := Load(t.Context(), folder, "fashion", nil)
	if err != nil || set.Name != "fashion" || !bytes.Equal(set.Train.Pixels, idx(31)[16:]) || !bytes.Equal(set.Test.Pixels, idx(2)[16:]) {
		t.Fatalf("Load returns the dataset %q with %d and %d images and the error %v, want fashion with 31 and 2 images", set.Name, set.Train.Len(), set.Test.Len(), err)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(append(idx(31), idx(2)...))); set.SHA256() != want {
		t.Errorf("the SHA-256 of the dataset is %s, want %s", set.SHA256(), want)
	}
	// If name is empty, Load must accept only the original MNIST files.
	if _, err := Load(t.Context(), folder, "", nil); err == nil || !strings.Contains(err.Error(), "is not the original MNIST file") || !strings.Contains(err.Error(), "-dataset NAME") {
		t.Errorf("without a name, Load returns the error %v, want the advice to use -dataset", err)
	}
}

func TestInvalidImageFilesAreRefused(t *testing.T) {
	train, test := "train-images-idx3-ubyte", "t10k-images-idx3-ubyte"
	// The headers of these three files do not match their contents.
	wide, impossible, huge := idx(9), idx(9), idx(9)
	wide[15] = 29                       // the header specifies images of 28×29 pixels
	impossible[4] = 255                 // the header specifies 4,278,190,089 images
	copy(huge[4:], []byte{0, 14, 0, 0}) // the header specifies 917,504 images
	for want, files := range map[string]map[string][]byte{
		train + " is not in": {test: idx(2)},
		test + " is not in":  {train: idx(9)},
		"contains only 5 training images and 2 test images, but at least 6 training images and one test image": {train: idx(5), test: idx(2)},
		"contains only 9 training images and 0 test images":                                                    {train: idx(9), test: idx(0)},
		"extra data after the 7056 pixels of its 9 images":                                                     {train: append(idx(9), 1), test: idx(2)},
		"specifies 4278190089 images":                                                                          {train: impossible, test: idx(2)},
		"4278190089 images, more than the limit":                                                               {train: compressed(impossible), test: idx(2)},
		"only 7056 of the 719323136 pixels":                                                                    {train: huge, test: idx(2)},
		"7056 of the 719323136 pixels of 917504":                                                               {train: compressed(huge), test: idx(2)},
		"magic number":                                                                                         {train: make([]byte, 9999), test: idx(2)},
		"images are 28×29 pixels":                                                                              {train: wide, test: idx(2)},
		"16-byte header is truncated":                                                                          {train: {}, test: idx(2)},
		"gzip header is damaged":                                                                               {train: {0x1f, 0x8b, 0}, test: idx(2)},
		"truncated or damaged: unexpected EOF":                                                                 {train: compressed(idx(9))[:40], test: idx(2)},
	} {
		folder := write(t, files)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Load(t.Context(), folder, "own", nil)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 2*maxFile {
			t.Errorf("%q: Load allocates %d bytes for files of a few kilobytes", want, n)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), folder) {
			t.Errorf("error %v, want an error with %q and %s", err, want, folder)
		}
	}
}

func TestCheckNameAcceptsShortASCIINames(t *testing.T) {
	for _, good := range []string{"mnist", "synthetic", "fashion", "k-mnist_2.0", strings.Repeat("x", 40)} {
		if err := CheckName(good); err != nil {
			t.Errorf("CheckName(%q) returns the error %v, want nil", good, err)
		}
	}
	for _, bad := range []string{"", "MNIST", "Synthetic", "K-MNIST", "a b", "a\n", "größe", strings.Repeat("x", 41)} {
		if CheckName(bad) == nil {
			t.Errorf("CheckName(%q) returns no error", bad)
		}
	}
}

func TestLoadDoesNotCreateAFolderThatTheUserNames(t *testing.T) {
	typo := filepath.Join(t.TempDir(), "typo")
	file := filepath.Join(write(t, map[string][]byte{"file": nil}), "file")
	t.Chdir(t.TempDir())
	for _, c := range []struct{ folder, variable, name, want string }{
		{typo, "", "", "there is no folder " + typo},
		{"", typo, "", "there is no folder " + typo},
		{typo, "", "own", "there is no folder " + typo + ": set -data or $HVAE_MNIST to the folder of the image files"},
		{filepath.Join(file, "x"), "", "", filepath.Join(file, "x")},
		{file, "", "", file},
		{"Synthetic", "", "", "use -data synthetic for built-in images"},
	} {
		t.Setenv("HVAE_MNIST", c.variable)
		_, err := Load(t.Context(), c.folder, c.name, func(m string) { t.Error(m) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want an error with %q", c, err, c.want)
		}
		for _, name := range []string{typo, "Synthetic"} {
			if _, err := os.Stat(name); err == nil {
				t.Fatalf("%s was created", name)
			}
		}
	}
	// Load must create the default folder.
	t.Setenv("HVAE_MNIST", "")
	for _, v := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(v, filepath.Join(typo, "new"))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := Load(ctx, "", "", func(string) {}); err == nil || err.Error() != "enough" {
		t.Errorf("after cancellation, Load returns the error %v, want the cause of the cancellation", err)
	}
	made := 0
	filepath.WalkDir(typo, func(path string, _ os.DirEntry, _ error) error {
		if filepath.Base(path) == "hvae-mnist" {
			made++
		}
		return nil
	})
	if made != 1 {
		t.Error("the default folder was not created")
	}
}

func TestSyntheticImagesAreReproducible(t *testing.T) {
	set, err := Load(t.Context(), Synthetic, "", nil)
	if err != nil || set.Name != Synthetic || set.Train.Len() != 2400 || set.Test.Len() != 400 {
		t.Fatalf("Load returns the dataset %q with %d and %d images and the error %v, want synthetic with 2400 and 400 images", set.Name, set.Train.Len(), set.Test.Len(), err)
	}
	if want := "8ec5338b6d3b60442563c18bcf9f2252f3bdd685179cd75ef510779db5291181"; set.SHA256() != want {
		t.Errorf("the SHA-256 of the images is %s, want %s", set.SHA256(), want)
	}
}

func TestBinariseDoesNotAllocate(t *testing.T) {
	image, x := make([]byte, pixels), linalg.New[float32](pixels, 2)
	var k random.Keyed
	if n := testing.AllocsPerRun(10, func() { Binarise(x, 0, image, k.Reset(1, "test", 5)) }); n != 0 {
		t.Errorf("Binarise makes %v allocations, want 0", n)
	}
}

func TestMeanLogitIgnoresBlankImages(t *testing.T) {
	images := Images{make([]byte, 3*pixels)} // the fractions of ink are 0, 1/4 and 3/4
	for i := range pixels {
		if i%4 == 0 {
			images.Image(1)[i] = 255
		} else {
			images.Image(2)[i] = 255
		}
	}
	if got := MeanLogit(images, []int{0, 1}); !(math.Abs(got-math.Log(1./3)) <= 1e-12) {
		t.Errorf("the mean logit of a blank image and an image with 1/4 ink is %v, want log(1/3)", got)
	}
	if got := MeanLogit(images, []int{1, 2}); !(math.Abs(got) <= 1e-12) {
		t.Errorf("the mean logit of images with 1/4 and 3/4 ink is %v, want 0", got)
	}
}
