package main

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pixels returns the grey levels of a PNG.
func pixels(t *testing.T, elem ...string) *image.Gray {
	t.Helper()
	p, err := png.Decode(bytes.NewReader(read(t, elem...)))
	noError(t, err)
	return p.(*image.Gray)
}

// The program must reproduce the pictures in README.md. The folder testdata/digits has the first test images of MNIST.
func TestPicturesAreReproducible(t *testing.T) {
	for name, args := range map[string]string{
		"samples.png": "sample -checkpoint results/vae.safetensors",
		"digits.png":  "reconstruct -checkpoint results/vae.safetensors -data testdata/digits",
		"flow.png":    "reconstruct -checkpoint results/hvae.safetensors -data testdata/digits -n 6",
	} {
		want, again := pixels(t, "pictures", name), filepath.Join(t.TempDir(), strings.Repeat("x", 240)+".PNG")
		mustRun(t, append(strings.Fields(args), "-o", again)...)
		if got := pixels(t, again); got.Rect != want.Rect || !bytes.Equal(got.Pix, want.Pix) {
			t.Errorf("%s draws a picture that differs from pictures/%s", args, name)
		}
		mustRun(t, append(strings.Fields(args), "-o", again, "-seed", "2")...)
		if bytes.Equal(pixels(t, again).Pix, want.Pix) {
			t.Errorf("%s draws the same picture with another seed", args)
		}
	}
}

func TestInterruptedPicturesAreNotWritten(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(t.TempDir(), "out.png")
	_, stderr, status := mnist(ctx, "sample", "-checkpoint", "results/vae.safetensors", "-n", "300", "-o", out)
	if _, err := os.Stat(out); status != 130 || err == nil {
		t.Errorf("status %d, stderr %q; want status 130 and no file", status, stderr)
	}
}
