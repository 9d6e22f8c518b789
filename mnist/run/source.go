package run

import (
	"context"
	"fmt"
	"io"

	"hvae/bench/command"
	"hvae/mnist/data"
)

// A Source names a dataset.
type Source struct {
	Folder string // -data: a folder, or data.Synthetic; empty for the default
	Name   string // -dataset: empty for MNIST, or for synthetic images
}

// Flags defines the flags that set s.
func (s *Source) Flags(f *command.Flags) {
	f.String(&s.Folder, "data", "", "`folder` with the MNIST files, or synthetic for built-in images; missing files are\ndownloaded (default $HVAE_MNIST, else a folder in the user's cache)")
	f.Checked(&s.Name, "dataset", "`name` of other 28×28 images; their files in the -data folder must have MNIST's file names", data.CheckName)
}

// Load reads the dataset and prints notes on stderr.
func (s Source) Load(ctx context.Context, stderr io.Writer) (data.Set, error) {
	switch {
	case s.Name == data.Synthetic && s.Folder != data.Synthetic:
		return data.Set{}, command.UsageError("-dataset %s needs -data %[1]s", data.Synthetic)
	case s.Name != "" && s.Name != data.Synthetic && s.Folder == data.Synthetic:
		return data.Set{}, command.UsageError("-data %s is not the dataset %s: name its folder", data.Synthetic, s.Name)
	case s.Name != "" && s.Name != data.MNIST && s.Folder == "":
		return data.Set{}, command.UsageError("-dataset %s needs -data with the folder of its files", s.Name)
	}
	return data.Load(ctx, s.Folder, s.Name, func(m string) { fmt.Fprintln(stderr, m) })
}
