package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"hvae/bench/progress"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// An evaluating is the evaluation of a run of the table, as far as it is: evaluation.json.
// What is left of it does not depend on where it was stopped, to the bit. Evaluations with
// as many images, samples and the seed are those of the command eval.
type evaluating struct {
	Run      string            `json:"run"`
	Settings map[string]string `json:"settings"` // of the training
	Data     string            `json:"data"`
	Epoch    int               `json:"epoch"` // of the weights, the best
	ValELBO  float64           `json:"val_elbo"`
	Images   int               `json:"images"`
	Samples  int               `json:"samples"`
	Seed     uint64            `json:"seed"`
	ELBOs    []float64         `json:"elbos"` // of the evaluations that are done: mean over images
	NLLs     []float64         `json:"nlls"`
	Seconds  float64           `json:"seconds"`
	Part     *part             `json:"part,omitempty"` // of the next
}

// A part is what is done of an evaluation: the first images, and what they add to the means.
type part struct {
	Images int     `json:"images"`
	ELBO   float64 `json:"elbo"`
	NLL    float64 `json:"nll"`
}

// evaluating returns the evaluation that a task asks for, before it begins.
func (t *table) evaluating(k task, s settings, best metrics) evaluating {
	return evaluating{
		Run: k.String(), Settings: t.identity(s.stored), Data: t.set.Name,
		Epoch: best.Epoch, ValELBO: best.ValELBO, Images: t.limit, Samples: t.samples, Seed: k.seed,
	}
}

// continues says whether e can be a part of, or all of, so many runs of what is wanted.
func (e evaluating) continues(want evaluating, runs int) bool {
	return e.Run == want.Run && maps.Equal(e.Settings, want.Settings) && e.Data == want.Data && e.Images == want.Images &&
		e.Samples == want.Samples && e.Seed == want.Seed && len(e.NLLs) <= runs
}

// done returns how many images have been evaluated, each as often as it was.
func (e evaluating) done() int {
	n := len(e.NLLs) * e.Images
	if e.Part != nil {
		n += e.Part.Images
	}
	return n
}

// evaluateAtOnce is how many images are evaluated between two chances to save. The result
// does not depend on it.
var evaluateAtOnce = 100

// evaluate evaluates the best weights of a run that has been trained, from where it was
// stopped the last time.
func (t *table) evaluate(ctx context.Context, k task, r *session) error {
	s, err := t.status(k)
	if err != nil {
		return err
	}
	e := s.evaluation
	if e == nil {
		first := t.evaluating(k, r.settings, s.best)
		e = &first
	}
	began, saved := time.Now(), time.Now()
	save := func() error {
		now := time.Now()
		e.Seconds += now.Sub(began).Seconds()
		began, saved = now, now
		b, err := json.MarshalIndent(e, "", " ")
		if err == nil {
			err = r.write(evaluationFile, append(b, '\n'))
		}
		if err != nil {
			return fmt.Errorf("cannot save the evaluation: %w", err)
		}
		return nil
	}
	total := t.runs * e.Images
	line := progress.New(t.stderr, func(time.Duration) string { return fmt.Sprintf("evaluating %v: %d of %d images", k, e.done(), total) })
	defer line.Clear()
	line.Begin(float64(e.done()) / float64(total))

	which := make([]int, e.Images)
	for i := range which {
		which[i] = i
	}
	for len(e.NLLs) < t.runs {
		if e.Part == nil {
			e.Part = new(part)
		}
		lo := e.Part.Images
		hi := min(lo+evaluateAtOnce, e.Images)
		fill := eval.Binarise(t.set.Test, which[lo:hi], e.Seed, len(e.NLLs))
		estimates, err := model.Evaluate(ctx, r.config, r.best, hi-lo, e.Samples, fill, func() {})
		if err != nil {
			line.Clear()
			if err := save(); err != nil {
				return fmt.Errorf("%w, and %w", context.Cause(ctx), err)
			}
			return fmt.Errorf("%w: %d of %d images of %v were evaluated; this is saved in %s, %s", context.Cause(ctx), e.done(), total, k, r.out, r.again)
		}
		for _, x := range estimates {
			e.Part.ELBO += x.ELBO / float64(e.Images)
			e.Part.NLL -= x.LogEvidence / float64(e.Images)
		}
		if v := e.Part.ELBO + e.Part.NLL; v-v != 0 {
			return eval.NotFinite(r.path(modelFile), e.Part.ELBO, e.Part.NLL)
		}
		if e.Part.Images = hi; hi == e.Images {
			e.ELBOs, e.NLLs, e.Part = append(e.ELBOs, e.Part.ELBO), append(e.NLLs, e.Part.NLL), nil
		}
		if len(e.NLLs) == t.runs || time.Since(saved) >= saveEvery {
			if err := save(); err != nil {
				return err
			}
		}
		line.Set(float64(e.done()) / float64(total))
	}
	return nil
}
