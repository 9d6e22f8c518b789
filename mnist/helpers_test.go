package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/mnist/data"
	"hvae/mnist/model"
)

// The names of the files of a dataset.
const (
	trainFile = "train-images-idx3-ubyte"
	testFile  = "t10k-images-idx3-ubyte"
)

// TestMain runs the program instead of the tests if MNIST_TEST_COMMAND is set. This allows tests to run
// the program as another process.
func TestMain(m *testing.M) {
	if os.Getenv("MNIST_TEST_COMMAND") != "" {
		main()
	}
	status, err := 1, makeFew()
	if err == nil {
		status = m.Run()
	}
	if err := errors.Join(err, os.RemoveAll(few)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// noError ends the test if err is not nil.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// few is the folder of a dataset of synthetic digits: 120 for training, 24 for validation and 6 for testing.
var few string

// fewName returns the name of the dataset in the folder few.
func fewName(t *testing.T) string {
	t.Helper()
	set, err := data.Load(few, nil)
	noError(t, err)
	return set.Name
}

func makeFew() error {
	set, err := data.Load(data.Synthetic, nil)
	if err == nil {
		few, err = os.MkdirTemp("", "mnist")
	}
	if err == nil {
		err = writeImages(few, set.Train.Pixels[:144*784], set.Test.Pixels[:6*784])
	}
	return err
}

// writeImages writes the two files of a dataset with the given pixels.
func writeImages(folder string, train, test []byte) error {
	for name, pixels := range map[string][]byte{trainFile: train, testFile: test} {
		var b []byte
		for _, v := range []int{2051, len(pixels) / 784, 28, 28} {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		if err := os.WriteFile(filepath.Join(folder, name), append(b, pixels...), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ownImages writes a dataset with the given numbers of training and test images to a new folder, which it returns.
func ownImages(t *testing.T, train, test int) (folder string) {
	t.Helper()
	folder = t.TempDir()
	pixels := func(n int) (p []byte) {
		for i := range n * 784 {
			p = append(p, byte(i*i>>5)&byte(i>>3))
		}
		return p
	}
	noError(t, writeImages(folder, pixels(train), pixels(test)))
	return folder
}

// mnist runs the program and returns its output and its exit status.
func mnist(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = program.Run(ctx, args, &out, &err)
	return out.String(), err.String(), status
}

// mustRun runs the program, which must exit with status 0, and returns its output.
func mustRun(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, status := mnist(t.Context(), args...)
	if status != 0 {
		t.Fatalf("%v: status %d, %s", args, status, stderr)
	}
	return stdout, stderr
}

// mustFail runs the program, which must exit with the given status and print all strings in want on stderr.
func mustFail(t *testing.T, status int, args []string, want ...string) {
	t.Helper()
	_, stderr, got := mnist(t.Context(), args...)
	for _, w := range want {
		if got != status || !strings.Contains(stderr, w) {
			t.Errorf("%v: status %d, stderr %q; want status %d and %q", args, got, stderr, status, w)
		}
	}
}

// refused checks that the program exits with status 1, changes no file in the folder, and prints one line that contains
// all strings in want. Before this line, it may print notes.
func refused(t *testing.T, folder string, args []string, want ...string) {
	t.Helper()
	before := contents(t, folder)
	stdout, stderr, status := mnist(t.Context(), args...)
	line := regexp.MustCompile(`(?m)^note: .*\n`).ReplaceAllString(stderr, "")
	if status != 1 || stdout != "" || strings.Count(line, "\n") != 1 {
		t.Errorf("%v: status %d, stdout %q, stderr %q; want status 1 and one line", args, status, stdout, stderr)
	}
	for _, w := range want {
		if !strings.Contains(line, w) {
			t.Errorf("%v: stderr %q does not contain %q", args, stderr, w)
		}
	}
	if !maps.Equal(before, contents(t, folder)) {
		t.Errorf("%v changed the files in %s", args, folder)
	}
}

// process returns a command that runs the program in another process.
func process(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "MNIST_TEST_COMMAND=1")
	return c
}

// tiny returns the command-line arguments for a short training run with three batches in an epoch.
func tiny(out string, more ...string) []string {
	return append([]string{"train", "-data", few, "-latent", "3", "-train", "75", "-batch", "25", "-epochs", "1", "-out", out}, more...)
}

var hvaeFlags = []string{"-model", "hvae", "-K", "1", "-tempering", "free", "-vary-eps"}

// resume returns the command-line arguments that resume a run.
func resume(out string, more ...string) []string {
	return append([]string{"train", "-resume", "-out", out}, more...)
}

// tinyTable returns the command-line arguments for a table with the runs in tinyRuns.
func tinyTable(out string, more ...string) []string {
	return append([]string{"table", "-data", few, "-train", "100", "-epochs", "1", "-limit", "5", "-samples", "20", "-runs", "2", "-rows", "vae,hvae-k1-none", "-seeds", "85547,12345", "-out", out}, more...)
}

var tinyRuns = []string{"vae-85547", "hvae-k1-none-85547", "vae-12345", "hvae-k1-none-12345"}

// tinyEval returns the command-line arguments for an evaluation with the settings of tinyTable.
func tinyEval(checkpoint, seed string, more ...string) []string {
	return append([]string{"eval", "-checkpoint", checkpoint, "-data", few, "-limit", "5", "-samples", "20", "-runs", "2", "-seed", seed, "-json"}, more...)
}

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	noError(t, err)
	return b
}

func write(t *testing.T, b []byte, elem ...string) {
	t.Helper()
	noError(t, os.WriteFile(filepath.Join(elem...), b, 0o644))
}

func remove(t *testing.T, elem ...string) {
	t.Helper()
	noError(t, os.Remove(filepath.Join(elem...)))
}

func exists(elem ...string) bool {
	_, err := os.Stat(filepath.Join(elem...))
	return err == nil
}

// copyFiles copies the files with the given names to a new folder, which it returns.
func copyFiles(t *testing.T, from string, names ...string) (to string) {
	t.Helper()
	to = t.TempDir()
	for _, name := range names {
		write(t, read(t, from, name), to, name)
	}
	return to
}

// contents returns a map from the relative paths of all files below a folder, except locks, to their contents.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == lockFile {
			return err
		}
		name, err := filepath.Rel(folder, path)
		all[name] = string(read(t, path))
		return err
	})
	noError(t, err)
	return all
}

// files is like contents, but removes times and the hashes that depend on times, and replaces tensors by a hash.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := contents(t, folder)
	for name, text := range all {
		tensors := ""
		if filepath.Ext(name) == ".safetensors" && len(text) > 8 { // the length of the header depends on the times
			n := 8 + int(binary.LittleEndian.Uint64([]byte(text)))
			text, tensors = strings.TrimRight(text[8:n], " "), fmt.Sprintf("%x", maphash.String(hashSeed, text[n:]))
		}
		if filepath.Base(name) != modelFile {
			text = times.ReplaceAllString(text, "")
		}
		all[name] = text + tensors
	}
	return all
}

var hashSeed = maphash.MakeSeed()

// times matches durations and SHA-256 hashes in JSON, including JSON that is encoded as a string.
var times = regexp.MustCompile(`([Ss]econds\\?": ?[0-9.e+-]+|"sha256": ?"[0-9a-f]{64}")`)

// sameFiles checks that the files of two runs or tables are equal, apart from times.
func sameFiles(t *testing.T, what, want, got string) {
	t.Helper()
	if diff := cmp.Diff(files(t, want), files(t, got)); diff != "" {
		t.Errorf("%s: the files differ (-want +got):\n%s", what, diff)
	}
}

// jsonLines decodes a JSON value from each line.
func jsonLines[T any](t *testing.T, text string) (all []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, v)
	}
	return all
}

// metricsOf reads the metrics of a run.
func metricsOf(t *testing.T, folder string) []map[string]float64 {
	t.Helper()
	return jsonLines[map[string]float64](t, string(read(t, folder, metricsFile)))
}

// object decodes the JSON object that eval prints.
func object(t *testing.T, stdout string) map[string]any {
	t.Helper()
	return jsonLines[map[string]any](t, stdout)[0]
}

// saved returns the state that a run has saved.
func saved(t *testing.T, folder string) *model.State {
	t.Helper()
	s, err := model.DecodeState(read(t, folder, stateFile))
	noError(t, err)
	return s
}

// spread returns the mean and the sample standard deviation of x.
func spread(x ...float64) (mean, sd float64) {
	n := float64(len(x))
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / (n - 1)
	}
	return mean, math.Sqrt(sd)
}

// near reports whether two ELBOs are equal up to rounding errors in float32.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

// upTo returns the indices 0 … n−1.
func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}
