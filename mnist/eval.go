package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"hvae/bench/command"
	"hvae/bench/progress"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// evaluation is what eval prints: means and standard deviations over runs, each with
// images binarised afresh.
type evaluation struct {
	ELBO    float64  `json:"elbo"`    // nats, negative
	ELBOSD  *float64 `json:"elbo_sd"` // null for one run
	NLL     float64  `json:"nll"`     // nats, positive
	NLLSD   *float64 `json:"nll_sd"`
	Images  int      `json:"images"`
	Samples int      `json:"samples"`
	Runs    int      `json:"runs"`
	Data    string   `json:"data"`       // the name of the images
	Trained *string  `json:"trained_on"` // that of the model's; null if its file does not say it
	Seconds float64  `json:"seconds"`
}

// evaluationOf returns what binarises an image, afresh for each run, and begins its noise.
func evaluationOf(images data.Images, which []int, seed uint64, run int) func(image int, x linalg.Matrix[float32], k *hvae.Keyed) {
	return func(image int, x linalg.Matrix[float32], k *hvae.Keyed) {
		i := which[image]
		data.Binarise(x, 0, images.Image(i), k.Reset(seed, "mnist eval pixels", run, i))
		k.Reset(seed, "mnist eval noise", run, i)
	}
}

// evaluate is the command eval.
func evaluate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.NewFlags()
	var checkpoint, folder, name, split string
	var limit, samples, runs int
	var seed uint64
	var asJSON bool
	f.String(&checkpoint, "checkpoint", "", "`file` of the model (required)")
	source(f, &folder, &name)
	f.String(&split, "split", "test", "`images` to evaluate on: test or validation")
	f.Count(&limit, "limit", 0, 0, "evaluate on the first `number` of images only; 0 for all 10,000")
	f.Count(&samples, "samples", 1000, 1, "`number` of importance samples for each image")
	f.Count(&runs, "runs", 3, 1, "`number` of runs, for the standard deviation")
	f.Seed(&seed, "seed of binarisation and noise")
	f.Bool(&asJSON, "json", "print a JSON object")
	if err := f.Parse(args); err != nil {
		return err
	}
	if split != "test" && split != "validation" {
		return command.UsageError("invalid value %q for flag -split: it is test or validation", split)
	}
	c, err := readCheckpoint(checkpoint)
	if err != nil {
		return err
	}
	set, err := load(ctx, folder, name, stderr)
	if err != nil {
		return err
	}
	elsewhere := otherData(c, set)
	if elsewhere != "" {
		fmt.Fprintf(stderr, "note: the model was%s\n", elsewhere)
	}
	images := set.Test
	which := make([]int, images.Len())
	for i := range which {
		which[i] = i
	}
	if split == "validation" {
		images = set.Train
		_, which = data.Split(images, c.Seed)
	}
	if limit > len(which) {
		return command.UsageError("invalid value %d for flag -limit: the %s split has %d images", limit, split, len(which))
	}
	if limit > 0 {
		which = which[:limit]
	}

	start := time.Now()
	var done atomic.Int64
	line := progress.New(stderr, func(elapsed time.Duration) string {
		return fmt.Sprintf("%d of %d images  %.1f images/s", done.Load(), runs*len(which), float64(done.Load())/elapsed.Seconds())
	})
	var elbos, nlls []float64
	for r := range runs {
		estimates, err := model.Evaluate(ctx, c.Config, c.Params, len(which), samples, evaluationOf(images, which, seed, r),
			func() { line.Set(float64(done.Add(1)) / float64(runs*len(which))) })
		if err != nil {
			line.Clear()
			return fmt.Errorf("%w: %d of %d images were evaluated, nothing is kept", context.Cause(ctx), done.Load(), runs*len(which))
		}
		elbo, nll := 0.0, 0.0
		for _, e := range estimates {
			elbo += e.ELBO / float64(len(estimates))
			nll -= e.LogEvidence / float64(len(estimates))
		}
		elbos, nlls = append(elbos, elbo), append(nlls, nll)
	}
	line.Clear()
	e := evaluation{Images: len(which), Samples: samples, Runs: runs, Seconds: time.Since(start).Seconds(), Data: set.Name}
	if c.Data != "" {
		e.Trained = &c.Data
	}
	e.ELBO, e.ELBOSD = meanSD(elbos)
	e.NLL, e.NLLSD = meanSD(nlls)
	if asJSON {
		return json.NewEncoder(stdout).Encode(e)
	}
	times := "one run"
	if e.Runs > 1 {
		times = fmt.Sprintf("%d runs", e.Runs)
	}
	spread := func(sd *float64) string {
		if sd == nil {
			return ""
		}
		return fmt.Sprintf(" ± %.2f", *sd)
	}
	_, err = fmt.Fprintf(stdout, "%v, epoch %d,%s on %d %s images of %s, %d samples each, %s, %.0f s\nELBO %.2f%s\nNLL  %.2f%s\n",
		c.Config, c.Epoch, elsewhere, e.Images, split, set.Name, e.Samples, times, e.Seconds, e.ELBO, spread(e.ELBOSD), e.NLL, spread(e.NLLSD))
	return err
}

// otherData says what a model was trained on, if that is known and is not set.
func otherData(c model.Checkpoint, set data.Set) string {
	switch {
	case c.Data == "" || c.Data == set.Name && c.DataSHA256 == set.SHA256():
		return ""
	case c.Data == set.Name:
		return fmt.Sprintf(" trained on other images called %.40q,", c.Data)
	}
	return fmt.Sprintf(" trained on %.40q,", c.Data)
}

// readCheckpoint reads the file that -checkpoint names.
func readCheckpoint(name string) (model.Checkpoint, error) {
	if name == "" {
		return model.Checkpoint{}, command.UsageError("-checkpoint is missing: name the file of a model, such as DIR/model.safetensors")
	}
	if s, err := os.Stat(name); err == nil && s.IsDir() {
		return model.Checkpoint{}, command.UsageError("-checkpoint %s is a folder: name the file of a model, such as %s", name, filepath.Join(name, modelFile))
	}
	return model.ReadCheckpoint(name)
}

// meanSD returns the mean and, of several values, the standard deviation.
func meanSD(x []float64) (mean float64, sd *float64) {
	mean, s := model.MeanSD(x)
	if len(x) > 1 {
		sd = &s
	}
	return mean, sd
}
