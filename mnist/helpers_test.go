package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hvae/bench/command"
	"hvae/mnist/data"
)

// noError ends the test if err is not nil.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ownImages writes a dataset of synthetic digits to a new folder.
func ownImages(t *testing.T, train, test int) data.Set {
	t.Helper()
	folder := t.TempDir()
	digits, err := data.Load(t.Context(), "synthetic", nil)
	noError(t, err)
	for name, pixels := range map[string][]byte{
		"train-images-idx3-ubyte": bytes.Repeat(digits.Train.Pixels, 4)[:784*train],
		"t10k-images-idx3-ubyte":  digits.Test.Pixels[:784*test],
	} {
		var b []byte
		for _, v := range []int{2051, len(pixels) / 784, 28, 28} {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		write(t, append(b, pixels...), folder, name)
	}
	set, err := data.Load(t.Context(), folder, nil)
	noError(t, err)
	return set
}

// mnist runs the program and returns its output and its exit status.
func mnist(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = command.Run(ctx, "mnist", program, args, &out, &err)
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
