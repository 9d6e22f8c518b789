package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hvae/mnist/model"
	"hvae/mnist/safetensors"
)

// slow is a context whose Err method sleeps before it returns.
type slow struct {
	interruption
	pause time.Duration
}

func (s *slow) Err() error {
	time.Sleep(s.pause)
	return s.interruption.Err()
}

func TestSecondsAddUpOverAnInterruption(t *testing.T) {
	dir := t.TempDir()
	args := strings.Fields("train -dataset own -latent 2 -train 26 -batch 2 -epochs 1 -data " + ownImages(t, 31, 1) + " -out " + dir)
	const pause = 20 * time.Millisecond
	interrupted := slow{interruption{t.Context(), 12}, pause}
	began := time.Now()
	if _, stderr, status := mnist(context.Context(&interrupted), args...); status != 130 {
		t.Fatalf("status %d, %s", status, stderr)
	}
	state, err := model.ReadState(filepath.Join(dir, "state.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var before position
	if err := json.Unmarshal([]byte(state.Progress), &before); err != nil {
		t.Fatal(err)
	}
	if most := time.Since(began).Seconds(); !(before.Seconds >= 8*pause.Seconds() && before.Seconds <= most) { // some calls of Err precede the first batch
		t.Errorf("the interrupted epoch has taken %v s, want %v to %v", before.Seconds, 8*pause.Seconds(), most)
	}
	began = time.Now()
	mustTrain(t, append(args, "-resume")...)
	least, most := before.Seconds, before.Seconds+time.Since(began).Seconds()
	if s := lines(t, filepath.Join(dir, "metrics.jsonl"))[0]["seconds"]; !(s > least && s <= most) {
		t.Errorf("the epoch took %v s, want %v to %v", s, least, most)
	}
}

func TestAnInterruptedStateWithAWrongStepCountIsRefused(t *testing.T) {
	dir := t.TempDir()
	folder := ownImages(t, 31, 1)
	args := strings.Fields("train -dataset own -latent 2 -train 26 -batch 2 -epochs 1 -data " + folder + " -out " + dir)
	if _, stderr, status := mnist(&interruption{t.Context(), 12}, args...); status != 130 {
		t.Fatalf("status %d, %s", status, stderr)
	}
	name := filepath.Join(dir, "state.safetensors")
	f, err := safetensors.ReadFile(name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var at position
	if err := json.Unmarshal([]byte(f.Metadata["progress"]), &at); err != nil || f.Metadata["optimiser.step"] != strconv.Itoa(at.Batch) {
		t.Fatalf("after batch %d the optimiser has taken %s steps (%v)", at.Batch, f.Metadata["optimiser.step"], err)
	}
	f.Metadata["optimiser.step"] = strconv.Itoa(at.Batch + 1)
	if err := os.WriteFile(name, f.Encode(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := mnist(t.Context(), append(args, "-resume")...); status != 1 || !strings.Contains(stderr, "contradicts itself") {
		t.Errorf("status %d, %s", status, stderr)
	}
	// With the right count it resumes, and a new rate holds from this batch.
	f.Metadata["optimiser.step"] = strconv.Itoa(at.Batch)
	if err := os.WriteFile(name, f.Encode(), 0o644); err != nil {
		t.Fatal(err)
	}
	mustTrain(t, append(args, "-resume", "-lr", "0.5e-3")...)
	if _, meta := tensors(t, name); !strings.Contains(meta["progress"], fmt.Sprintf(`"Rates":[{"Epoch":1,"Batch":%d,"Rate":0.0005}]`, at.Batch)) {
		t.Errorf("after batch %d: %s", at.Batch, meta["progress"])
	}
}
