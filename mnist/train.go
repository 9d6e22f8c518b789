package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/mnist/model"
	"hvae/mnist/run"
)

// train runs the train command.
func train(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := run.NewSettings()
	if err := s.Flags.Parse(args); err != nil {
		return err
	}
	if s.Out == "" {
		return command.UsageError("-out is missing: specify a folder for the run's files")
	}
	if s.Resume {
		name := filepath.Join(s.Out, run.StateFile)
		if _, err := os.Stat(name); err != nil {
			return fmt.Errorf("there is nothing to resume: %w", atomicfile.Named(name, err))
		}
	} else if err := s.Check(); err != nil {
		return err
	}
	folder, err := run.Lock(s.Out)
	if err != nil {
		return err
	}
	defer folder.Release()
	var state *model.State
	if s.Resume {
		if state, err = folder.ReadState(); err != nil {
			return fmt.Errorf("cannot resume: %w", err)
		}
		if err := s.Adopt(state); err != nil {
			return err
		}
	}
	set, err := s.Source.Load(ctx, stderr)
	if err != nil {
		return err
	}
	r, err := run.New(s, set, folder, state, stdout, stderr)
	if err != nil {
		return err
	}
	return r.Train(ctx, "continue with -resume")
}
