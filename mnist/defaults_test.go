package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/mnist/model"
)

// Defaults that a test cannot try, such as 2,000 epochs, are read from the help text, which takes
// them from the flags.
func TestDefaultsOfFlags(t *testing.T) {
	for command, want := range map[string]map[string]string{
		"train":  {"model": `"vae"`, "K": "0", "tempering": `"none"`, "latent": "64", "epochs": "2000", "patience": "100", "batch": "100", "lr": "0.001", "seed": "1", "train": "0"},
		"eval":   {"split": `"test"`, "limit": "0", "samples": "1000", "runs": "3", "seed": "1"},
		"sample": {"n": "64", "seed": "1"}, "reconstruct": {"n": "24", "seed": "1"},
	} {
		help, _, _ := mnist(t.Context(), command, "-h")
		got := map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^  -(\S+).*\n(?:    \t.*\n)*?    \t.*\(default (\S+)\)$`).FindAllStringSubmatch(help, -1) {
			if _, ok := want[m[1]]; ok {
				got[m[1]] = m[2]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
}

func TestDefaultsOfPictures(t *testing.T) {
	name, _ := trained(t, model.Config{Kind: "hvae", K: 1, Tempering: "none", Latent: 2}, 1)
	draw := func(args ...string) []byte {
		t.Helper()
		picture := filepath.Join(t.TempDir(), "x.png")
		if _, stderr, status := mnist(t.Context(), append(args, "-checkpoint", name, "-o", picture)...); status != 0 {
			t.Fatal(stderr)
		}
		b, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for without, with := range map[string]string{
		"sample":                      "sample -n 64 -seed 1",
		"reconstruct -data synthetic": "reconstruct -data synthetic -n 24 -seed 1",
	} {
		if !slices.Equal(draw(strings.Fields(without)...), draw(strings.Fields(with)...)) {
			t.Errorf("%s and %s differ", without, with)
		}
	}
}
