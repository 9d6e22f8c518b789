package table

import (
	"encoding/json"
	"fmt"
	"maps"

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

// continues reports whether e can be continued to the given number of evaluations like want.
func (e evaluation) continues(want evaluation, runs int) bool {
	return e.Run == want.Run && maps.Equal(e.Settings, want.Settings) && e.Data == want.Data && e.Images == want.Images &&
		e.Samples == want.Samples && e.Seed == want.Seed && len(e.NLLs) <= runs
}

// readEvaluation reads a run's evaluation, nil if the file does not exist.
func readEvaluation(name string) (*evaluation, error) {
	b, err := run.ReadText(name)
	if b == nil || err != nil {
		return nil, err
	}
	e := new(evaluation)
	if err := json.Unmarshal(b, e); err != nil || len(e.ELBOs) != len(e.NLLs) {
		return nil, fmt.Errorf("%s is damaged: move it away to evaluate again", name)
	}
	return e, nil
}
