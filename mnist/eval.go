package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

	*certificate // with -method ais

	Seconds float64 `json:"seconds"`
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
	var checkpoint, folder, name, split, method string
	var limit, samples, runs int
	var annealing model.Annealing
	var simulated bool
	var seed uint64
	var asJSON bool
	f.String(&checkpoint, "checkpoint", "", "`file` of the model (required)")
	source(f, &folder, &name)
	f.String(&split, "split", "test", "`images` to evaluate on: test or validation")
	f.Count(&limit, "limit", 0, 0, "evaluate on the first `number` of images only; 0 for all 10,000")
	f.Count(&samples, "samples", 1000, 1, "`number` of importance samples for each image")
	f.Count(&runs, "runs", 3, 1, "`number` of runs, for the standard deviation")
	f.String(&method, "method", "is", "`method`: is, importance sampling; or ais, annealed importance sampling, too,\nwhich bounds log p(x) more tightly, and takes longer")
	f.Count(&annealing.Steps, "steps", 1000, 1, "`number` of steps from the variational prior to the posterior, for -method ais")
	f.Count(&annealing.Chains, "chains", 16, 1, "`number` of chains for each image, for -method ais")
	f.Bool(&simulated, "simulated", "evaluate on images that are drawn from the model, whose log p(x) -method ais\nbounds from above, too")
	f.Seed(&seed, "seed of binarisation and noise")
	f.Bool(&asJSON, "json", "print a JSON object")
	if err := f.Parse(args); err != nil {
		return err
	}
	if method != "is" && method != "ais" {
		return command.UsageError("invalid value %q for flag -method: it is is or ais", method)
	}
	for _, flag := range f.Given() {
		if method == "is" && slices.Contains([]string{"steps", "chains", "simulated"}, flag) {
			return command.UsageError("-%s is for -method ais", flag)
		}
		if simulated && slices.Contains([]string{"data", "dataset", "split"}, flag) {
			return command.UsageError("-%s has no meaning with -simulated, which draws its images from the model", flag)
		}
	}
	if split != "test" && split != "validation" {
		return command.UsageError("invalid value %q for flag -split: it is test or validation", split)
	}
	c, err := readCheckpoint(checkpoint)
	if err != nil {
		return err
	}
	var on subjects
	if simulated {
		on = simulatedSubjects(ctx, c, limit, seed)
	} else if on, err = splitOf(ctx, c, folder, name, split, limit, seed, stderr); err != nil {
		return err
	}
	n := len(on.which)

	start := time.Now()
	var images, chains atomic.Int64
	allImages, allChains := runs*n, 0
	if method == "ais" {
		allChains = runs * n * annealing.Chains
		if simulated {
			allChains *= 2
		}
	}
	progressOf := func() string {
		if allChains == 0 {
			return fmt.Sprintf("%d of %d images", images.Load(), allImages)
		}
		return fmt.Sprintf("%d of %d images, %d of %d chains", images.Load(), allImages, chains.Load(), allChains)
	}
	line := progress.New(stderr, func(elapsed time.Duration) string {
		return fmt.Sprintf("%s  %.1f images/s", progressOf(), float64(images.Load())/elapsed.Seconds())
	})
	// In runs of the decoder, forwards and back, about.
	perImage, perChain := float64(samples*(1+2*c.Config.K)), float64(2*annealing.Cost())
	tell := func() {
		line.Set((perImage*float64(images.Load()) + perChain*float64(chains.Load())) / (perImage*float64(allImages) + perChain*float64(allChains)))
	}
	stopped := func() error {
		line.Clear()
		return fmt.Errorf("%w: %s were evaluated, nothing is kept", context.Cause(ctx), progressOf())
	}

	var certify *certifier
	if method == "ais" {
		x, err := on.tuning()
		if err == nil {
			certify, err = tuned(ctx, c, annealing, seed, on.which, x)
		}
		if err != nil {
			return stopped()
		}
	}
	var elbos, nlls []float64
	for r := range runs {
		fill, z, err := on.begin(r)
		if err != nil {
			return stopped()
		}
		estimates, err := model.Evaluate(ctx, c.Config, c.Params, n, samples, fill, func() { images.Add(1); tell() })
		if err != nil {
			return stopped()
		}
		if certify != nil {
			if err := certify.run(ctx, r, fill, z, estimates, func(n int) { chains.Add(int64(n)); tell() }); err != nil {
				return stopped()
			}
		}
		elbo, nll := 0.0, 0.0
		for _, e := range estimates {
			elbo += e.ELBO / float64(len(estimates))
			nll -= e.LogEvidence / float64(len(estimates))
		}
		elbos, nlls = append(elbos, elbo), append(nlls, nll)
	}
	line.Clear()
	e := evaluation{Images: n, Samples: samples, Runs: runs, Seconds: time.Since(start).Seconds(), Data: on.name}
	if c.Data != "" {
		e.Trained = &c.Data
	}
	e.ELBO, e.ELBOSD = meanSD(elbos)
	e.NLL, e.NLLSD = meanSD(nlls)
	if certify != nil {
		e.certificate = certify.certificate(simulated)
	}
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
	_, err = fmt.Fprintf(stdout, "%v, epoch %d,%s on %d %s, %d samples each, %s, %.0f s\nELBO %.2f%s\nNLL  %.2f%s\n",
		c.Config, c.Epoch, on.elsewhere, e.Images, on.description, e.Samples, times, e.Seconds, e.ELBO, spread(e.ELBOSD), e.NLL, spread(e.NLLSD))
	if err == nil && e.certificate != nil {
		_, err = fmt.Fprint(stdout, e.certificate)
	}
	return err
}

// otherData says what a model was trained on, with a comma, if that is known and is not
// set.
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
