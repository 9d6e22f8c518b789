package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync/atomic"
	"time"

	"hvae/bench/atomicfile"
	"hvae/bench/progress"
	"hvae/mnist/eval"
	"hvae/mnist/model"
	"hvae/mnist/run"
)

// An evaluation holds the finished evaluations of a run, in run.EvaluationFile. They are equal to
// those of the command eval with the same numbers of images and samples and the same seed.
type evaluation struct {
	Run      string            `json:"run"`
	Settings map[string]string `json:"settings"` // of the training
	Data     string            `json:"data"`
	Epoch    int               `json:"epoch"` // the best
	ValELBO  float64           `json:"val_elbo"`
	Images   int               `json:"images"`
	Samples  int               `json:"samples"`
	Seed     uint64            `json:"seed"`
	ELBOs    []float64         `json:"elbos"` // mean over images of each evaluation
	NLLs     []float64         `json:"nlls"`
	Seconds  float64           `json:"seconds"`
}

// newEvaluation returns the evaluation of a task before its first evaluation.
func (t *Table) newEvaluation(k task, s run.Settings, best run.Metrics) evaluation {
	return evaluation{
		Run: k.String(), Settings: t.identity(s.Stored()), Data: t.set.Name,
		Epoch: best.Epoch, ValELBO: best.ValELBO, Images: t.Limit, Samples: t.Samples, Seed: k.seed,
	}
}

// continues reports whether e can be continued to the given number of evaluations like want.
func (e evaluation) continues(want evaluation, runs int) bool {
	return e.Run == want.Run && maps.Equal(e.Settings, want.Settings) && e.Data == want.Data && e.Images == want.Images &&
		e.Samples == want.Samples && e.Seed == want.Seed && len(e.NLLs) <= runs
}

// readEvaluation reads a run's evaluation, nil if the file does not exist.
func readEvaluation(name string) (*evaluation, error) {
	b, err := atomicfile.Read(name, run.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e := new(evaluation)
	if err := json.Unmarshal(b, e); err != nil || len(e.ELBOs) != len(e.NLLs) {
		return nil, fmt.Errorf("%s is damaged: move it away to evaluate again", name)
	}
	return e, nil
}

// evaluate evaluates the best weights of a trained run, and saves each evaluation.
func (t *Table) evaluate(ctx context.Context, k task, r *run.Run, folder *run.Folder) error {
	s, err := t.status(k)
	if err != nil {
		return err
	}
	e := s.evaluation
	var done atomic.Int64
	done.Store(int64(len(e.NLLs) * e.Images))
	total := t.Runs * e.Images
	line := progress.New(t.Stderr, func(time.Duration) string {
		return fmt.Sprintf("evaluating %v: %d of %d images", k, done.Load(), total)
	})
	defer line.Clear()
	line.Begin(float64(done.Load()) / float64(total))
	for len(e.NLLs) < t.Runs {
		began := time.Now()
		fill := eval.Binarise(t.set.Test, eval.First(e.Images), e.Seed, len(e.NLLs))
		estimates, err := model.Evaluate(ctx, k.config, r.Best(), e.Images, e.Samples, fill, func() {
			line.Set(float64(done.Add(1)) / float64(total))
		})
		if err != nil {
			line.Clear()
			return fmt.Errorf("%w: %d of %d evaluations of %v are saved in %s, %s", context.Cause(ctx), len(e.NLLs), t.Runs, k, t.folder(k), advice)
		}
		elbo, nll := eval.Means(estimates)
		if v := elbo + nll; v-v != 0 {
			return eval.NotFinite(t.path(k, run.ModelFile), elbo, nll)
		}
		e.ELBOs, e.NLLs = append(e.ELBOs, elbo), append(e.NLLs, nll)
		e.Seconds += time.Since(began).Seconds()
		b, err := json.MarshalIndent(e, "", " ")
		if err == nil {
			err = folder.Write(run.EvaluationFile, append(b, '\n'))
		}
		if err != nil {
			return fmt.Errorf("cannot save the evaluation: %w", err)
		}
	}
	return nil
}
