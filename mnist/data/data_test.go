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

// idx returns an IDX file of n images with arbitrary pixels.
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

// fileOf returns the description of a file with the given name and contents.
func fileOf(name string, contents []byte) file {
	sum := sha256.Sum256(contents)
	return file{name, int64(len(contents)), hex.EncodeToString(sum[:])}
}

func TestDamagedIDXFilesAreRefused(t *testing.T) {
	good := idx(3)
	images, err := parseImages(good)
	if err != nil || images.Len() != 3 || !slices.Equal(images.Image(2), good[16+2*pixels:]) {
		t.Fatalf("three images: %d, %v", images.Len(), err)
	}
	change := func(at int, v byte) []byte { b := slices.Clone(good); b[at] = v; return b }
	for want, b := range map[string][]byte{
		"it has 15 bytes, fewer than the 16 of the header": good[:15],
		"magic number is 2049":                             change(3, 1),
		"images are 28×29":                                 change(15, 29),
		"4 images take":                                    change(7, 4),
		"3 images take":                                    append(slices.Clone(good), 0),
		"but it has 2367":                                  good[:len(good)-1],
		"4278190083 images take":                           change(4, 255),
	} {
		if _, err := parseImages(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func FuzzIDX(f *testing.F) {
	f.Add(idx(1))
	f.Add(compressed(idx(2)))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, b []byte) {
		images, err := readImages(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		b = append(images.header(), images.Pixels...)
		again, err := readImages(bytes.NewReader(b), int64(len(b)))
		if err != nil || !bytes.Equal(images.Pixels, again.Pixels) {
			t.Fatalf("%d images become %d, %v", images.Len(), again.Len(), err)
		}
	})
}

// server starts a server with one handler for all addresses and returns its address.
func server(t *testing.T, handle http.HandlerFunc) string {
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL + "/"
}

func serve(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write(b) }
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
		want    string // text in the error; empty for no error
	}{
		{"good", []string{good}, ""},
		{"plain", []string{server(t, serve(contents))}, ""},
		{"redirect", []string{server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, good+"x", http.StatusFound) })}, ""},
		{"first bad, second good", []string{server(t, serve([]byte("garbage"))), good}, ""},
		{"not found", []string{server(t, http.NotFound)}, "404"},
		{"garbage", []string{server(t, serve([]byte("<html>")))}, "should have 3152 bytes and has 6"},
		{"wrong bytes", []string{server(t, serve(compressed(wrong)))}, "SHA-256"},
		{"too long", []string{server(t, serve(compressed(append(slices.Clone(contents), 1))))}, "has more"},
		{"endless", []string{server(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		})}, "has more"},
		{"cut off", []string{server(t, serve(sent[:len(sent)/2]))}, "cut off"},
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
		{"nobody there", []string{"http://127.0.0.1:1/"}, "refused"},
	} {
		stallTimeout = time.Minute
		switch c.name { // short timeouts only for the cases that wait for them
		case "silent", "stalled", "trickling":
			stallTimeout = 100 * time.Millisecond
		}
		folder := filepath.Join(t.TempDir(), "new")
		l := loader{folder, c.mirrors, func(string) {}}
		b, err := l.read(t.Context(), f)
		files, _ := os.ReadDir(folder)
		if c.want == "" {
			if err != nil || !bytes.Equal(b, contents) || len(files) != 1 {
				t.Errorf("%s: %v, files %v", c.name, err, files)
				continue
			}
			l.mirrors = nil // the folder has the file now
			if b, err := l.read(t.Context(), f); err != nil || !bytes.Equal(b, contents) {
				t.Errorf("%s: reading the file that was kept: %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || len(files) != 0 {
			t.Errorf("%s: error %v, want %q in it; files %v", c.name, err, c.want, files)
		}
		if help := "put train-images-idx3-ubyte and t10k-images-idx3-ubyte there (with .gz or without), or use -data synthetic"; err != nil && (!strings.Contains(err.Error(), help) || !strings.Contains(err.Error(), folder)) {
			t.Errorf("%s: error %v, want %q and %s in it", c.name, err, help, folder)
		}
	}
}

func TestProcessesDownloadTheSameFileConcurrently(t *testing.T) {
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
			b, err := loader{folder, []string{mirror}, func(string) {}}.read(t.Context(), f)
			if err != nil || !bytes.Equal(b, contents) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
	all.Wait()
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 {
		t.Errorf("the folder has %v (%v), want one file", files, err)
	}
	if b, err := (loader{folder, nil, func(string) {}}).read(t.Context(), f); err != nil || !bytes.Equal(b, contents) {
		t.Errorf("reading the file that was kept: %v", err)
	}
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	slow := server(t, func(w http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	_, err := loader{t.TempDir(), []string{slow, slow}, func(string) {}}.read(ctx, fileOf("images", idx(1)))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
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
		t.Errorf("error %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "damaged" {
		t.Error("the file was changed")
	}
}

// write writes files into a new folder, which it returns.
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

func TestLoadReadsOtherImagesUnderTheirName(t *testing.T) {
	folder := write(t, map[string][]byte{"train-images-idx3-ubyte": idx(31), "t10k-images-idx3-ubyte.gz": compressed(idx(2))})
	set, err := Load(t.Context(), folder, "fashion", nil)
	if err != nil || set.Name != "fashion" || !bytes.Equal(set.Train.Pixels, idx(31)[16:]) || !bytes.Equal(set.Test.Pixels, idx(2)[16:]) {
		t.Fatalf("%q, %d and %d images, %v", set.Name, set.Train.Len(), set.Test.Len(), err)
	}
	sum := sha256.Sum256(append(idx(31), idx(2)...)) // of the concatenated files
	if set.SHA256() != hex.EncodeToString(sum[:]) {
		t.Error("the digest differs from the digest of the files")
	}
	if training, validation := Split(set.Train, 1); len(training) != 26 || len(validation) != 5 {
		t.Errorf("of 31 images %d are for training and %d for validation, want a sixth", len(training), len(validation))
	}
	// Without the name, Load expects MNIST.
	if _, err := Load(t.Context(), folder, "", nil); err == nil || !strings.Contains(err.Error(), "is not the MNIST file of that name") || !strings.Contains(err.Error(), "-dataset NAME") {
		t.Errorf("read as MNIST: %v", err)
	}
}

func TestInvalidFilesOfOtherImagesAreRefused(t *testing.T) {
	train, test := "train-images-idx3-ubyte", "t10k-images-idx3-ubyte"
	lie := slices.Clone(idx(9))
	lie[4] = 255 // 4,278,190,089 images
	bomb := slices.Clone(idx(9))
	copy(bomb[4:], []byte{0, 14, 0, 0}) // 917,504 images
	for want, files := range map[string]map[string][]byte{
		train + " is not in":                     {test: idx(2)},
		test + " is not in":                      {train: idx(9)},
		"it has 5 images: there must be":         {train: idx(5), test: idx(2)},
		"it has 0 images: there must be":         {train: idx(9), test: idx(0)},
		"images take 7072 bytes, but it has 707": {train: append(idx(9), 1), test: idx(2)},
		"gives 4278190089 images: there may":     {train: lie, test: idx(2)},
		"4278190089 images: there may be at":     {train: compressed(lie), test: idx(2)},
		"917504 images take 719323152 bytes":     {train: bomb, test: idx(2)},
		"719323152 bytes, which its":             {train: compressed(bomb), test: idx(2)},
		"magic number":                           {train: make([]byte, 9999), test: idx(2)},
		"it has 0 bytes, fewer":                  {train: {}, test: idx(2)},
		"gzip header is damaged":                 {train: {0x1f, 0x8b, 0}, test: idx(2)},
		"cut off or damaged":                     {train: compressed(idx(9))[:40], test: idx(2)},
	} {
		folder := write(t, files)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Load(t.Context(), folder, "own", nil)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%q: files of a few kilobytes take %d bytes of memory", want, n)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), folder) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"mnist", "synthetic", "fashion", "K-MNIST_2.0", strings.Repeat("x", 40)} {
		if err := CheckName(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "MNIST", "Synthetic", "a b", "a\n", "größe", strings.Repeat("x", 41)} {
		if CheckName(bad) == nil {
			t.Errorf("%q is accepted", bad)
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
		{typo, "", "own", "there is no folder " + typo + " with the data own: use -data to name the folder of the original data"},
		{filepath.Join(file, "x"), "", "", "cannot read the folder of the data " + filepath.Join(file, "x") + ": "},
		{file, "", "", file + " is not a folder"},
		{"Synthetic", "", "", "did you mean synthetic"},
	} {
		t.Setenv("HVAE_MNIST", c.variable)
		_, err := Load(t.Context(), c.folder, c.name, func(m string) { t.Error(m) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c, err)
		}
		for _, name := range []string{typo, "Synthetic"} {
			if _, err := os.Stat(name); err == nil {
				t.Fatalf("%s was created", name)
			}
		}
	}
	// Load does create the default folder.
	t.Setenv("HVAE_MNIST", "")
	for _, v := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(v, filepath.Join(typo, "new"))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := Load(ctx, "", "", func(string) {}); err == nil || err.Error() != "enough" {
		t.Errorf("error %v, want the context's", err)
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

// On Windows, a file that another process has open cannot be replaced.
func TestDownloadSucceedsIfAnotherProcessWroteTheFile(t *testing.T) {
	contents := idx(4)
	f := fileOf("images", contents)
	folder := t.TempDir()
	l := loader{folder, []string{server(t, func(w http.ResponseWriter, _ *http.Request) {
		// Another process writes the file first, and a folder prevents writing a second copy.
		if err := os.WriteFile(filepath.Join(folder, "images"), contents, 0o644); err != nil {
			t.Error(err)
		}
		if err := os.Mkdir(filepath.Join(folder, "images.gz"), 0o755); err != nil {
			t.Error(err)
		}
		w.Write(compressed(contents))
	})}, func(string) {}}
	if b, err := l.read(t.Context(), f); err != nil || !bytes.Equal(b, contents) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestSyntheticImagesAreReproducible(t *testing.T) {
	set, err := Load(t.Context(), Synthetic, "", nil)
	if err != nil || set.Name != Synthetic || set.Train.Len() != 2400 || set.Test.Len() != 400 {
		t.Fatalf("%q, %d and %d images, %v", set.Name, set.Train.Len(), set.Test.Len(), err)
	}
	again := drawSynthetic()
	if !bytes.Equal(set.Train.Pixels, again.Train.Pixels) || !bytes.Equal(set.Test.Pixels, again.Test.Pixels) {
		t.Error("two calls give different images")
	}
	ink := 0
	for _, v := range set.Train.Pixels {
		ink += int(v)
	}
	if m := float64(ink) / 255 / float64(len(set.Train.Pixels)); m < 0.08 || m > 0.25 { // MNIST has 0.13
		t.Errorf("%.3f of the pixels are ink", m)
	}
}

func TestBinariseDoesNotAllocate(t *testing.T) {
	image, x := make([]byte, pixels), linalg.New[float32](pixels, 2)
	var k random.Keyed
	if n := testing.AllocsPerRun(10, func() { Binarise(x, 0, image, k.Reset(1, "test", 5)) }); n != 0 {
		t.Errorf("binarising allocates %v times", n)
	}
}

func TestMeanLogit(t *testing.T) {
	images := Images{make([]byte, 3*pixels)} // all black, a quarter ink, three quarters
	for i := range pixels {
		if i%4 == 0 {
			images.Image(1)[i] = 255
		} else {
			images.Image(2)[i] = 255
		}
	}
	if got := MeanLogit(images, []int{0, 1}); !(math.Abs(got-math.Log(1./3)) <= 1e-12) {
		t.Errorf("a quarter ink gives %v, want log(1/3)", got)
	}
	if got := MeanLogit(images, []int{1, 2}); !(math.Abs(got) <= 1e-12) {
		t.Errorf("opposite images give %v, want 0", got)
	}
}
