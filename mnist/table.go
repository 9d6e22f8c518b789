package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"hvae/bench/command"
	"hvae/mnist/table"
)

// makeTable runs the table command.
func makeTable(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	t := &table.Table{Stdout: stdout, Stderr: stderr}
	var list bool
	number := -1
	f := tableFlags(t, &list, &number)
	if err := f.Parse(args); err != nil {
		return err
	}
	if t.Out == "" {
		return command.UsageError("-out is missing: specify a folder for the runs")
	}
	var err error
	if t.Folder, err = dataFolder(t.Folder); err != nil {
		return err
	}
	if t.Set, err = loadData(ctx, t.Folder, stderr); err != nil {
		return err
	}
	if err := t.Open(!list); err != nil {
		return err
	}
	if list {
		return t.List()
	}
	ignoreBrokenPipes()
	return t.Run(ctx, number)
}

// tableFlags defines the flags of the table command, which set t, list and number.
func tableFlags(t *table.Table, list *bool, number *int) *command.Flags {
	f := command.NewFlags()
	f.StringVar(&t.Out, "out", "", "`folder` for the table and its run folders (required)")
	command.List(f, &t.Rows, "rows", "`rows` of the table, separated by commas, such as vae,hvae-k1-none,hvae-k5-free-varied\n(default the paper's 27 rows)", func(row string) (string, error) {
		_, err := table.ParseRow(row)
		return row, err
	})
	command.List(f, &t.Seeds, "seeds", "`seeds` of each row, separated by commas (default the paper's: 85547 and 12345, and 98765 for some rows)", func(s string) (uint64, error) {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("a seed must be a whole number, not %q", s)
		}
		return seed, nil
	})
	f.Range(&t.Epochs, "epochs", 2000, 1, 1_000_000, "maximum `number` of epochs")
	f.Count(&t.Patience, "patience", 100, 1, "stop after this `number` of epochs without a better validation ELBO")
	f.Count(&t.Train, "train", 0, 0, "`number` of training images; 0 for all")
	f.Count(&t.Images, "limit", 0, 0, "`number` of test images to evaluate, starting with the first; 0 for all")
	f.Count(&t.Samples, "samples", 1000, 1, "`number` of importance samples for each image")
	f.Count(&t.Runs, "runs", 3, 1, "`number` of evaluations of each run, each with freshly binarised images; ± is the standard\ndeviation over evaluations")
	dataFlag(f, &t.Folder)
	f.BoolVar(list, "list", false, "only list the runs and their status: done, running or open")
	f.Func("task", "train and evaluate only the run with this `number` in the output of -list", func(s string) (err error) {
		if *number, err = strconv.Atoi(s); err != nil || *number < 0 {
			return errors.New("it must be a number in the output of -list")
		}
		return nil
	})
	f.BoolVar(&t.JSON, "json", false, "print a JSON object on each line: one for each finished run, then one for each row")
	return f
}
