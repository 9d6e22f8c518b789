package hvae

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"hvae/ad"
	"hvae/linalg"
)

// FitOptions holds the settings of Fit: the number of leapfrog steps (K = 0 means no flow), of optimiser steps in each
// of the two phases of training (Steps = 0 means 1,000), and of draws of log p̂ (Draws = 0 means 20,000), and the seed.
type FitOptions struct {
	K, Steps, Draws int
	Seed            uint64
}

// A Fitted holds two estimates of the evidence of a target: Evidence from draws with the fitted q⁰ and flow, and
// Annealed from AIS. Warning is empty if they differ by at most four standard errors, k̂ (TailShape) of Evidence is at
// most ½, and k̂ of Annealed is at most 0.7. Draw runs Algorithm 1 with this q⁰ and flow, with L draws for each column.
type Fitted struct {
	Evidence, Annealed Evidence
	Warning            string
	Draw               func(b *Block[float64], L int) Sample[float64]
}

// Fit estimates the evidence of a target in ℓ = dims dimensions. It first trains a normal q⁰ by the ELBO, and then q⁰
// and a flow with UntiedTempering by ImportanceBound. If ℓ > 30, the covariance of q⁰ is diagonal. Fit returns an error
// if ctx is done, or if a step or an estimate is not finite; if the flow diverges, use K = 0. The target must be safe
// for concurrent use. Fit uses only exported parts of this package: if it does not suit your target, start from a copy.
func Fit(ctx context.Context, target Target[float64], dims int, o FitOptions) (f Fitted, err error) {
	if dims < 1 || min(o.K, o.Steps, o.Draws) < 0 {
		panic(fmt.Sprintf("hvae: Fit: dims is %d, with %+v; dims must be at least 1, and no option negative", dims, o))
	}
	var params, flowParams Params[float64] // all start at 0
	mean, logSD := params.Add("mean", linalg.New[float64](dims, 1)), params.Add("log sd", linalg.New[float64](dims, 1))
	below := &Param[float64]{Name: "below", Value: linalg.New[float64](dims, min(dims, 30))}
	if dims <= 30 {
		params = append(params, below)
	}
	step := flowParams.Add("step size", linalg.New[float64](o.K, dims))
	alpha := flowParams.Add("log α", linalg.New[float64](o.K, dims))
	momentumSD := flowParams.Add("log s", linalg.New[float64](1, dims))
	K := 0 // number of leapfrog steps
	f.Draw = func(b *Block[float64], L int) Sample[float64] {
		var q0 Prior[float64] = DiagonalNormal[float64]{b.Var(mean), ad.Exp(b.Var(logSD))}
		if dims <= 30 {
			q0 = Normal[float64]{b.Var(mean), ad.Exp(b.Var(logSD)), b.Var(below)}
		}
		flow := &Flow[float64]{Target: Whitened[float64]{target, q0}, K: K}
		if K > 0 {
			flow.StepSize = Constrain(b.Var(step), 0, 0.2)
			flow.Tempering = UntiedTempering(ad.Exp(b.Var(alpha)), ad.Exp(b.Var(momentumSD)))
		}
		s := HIS(flow, StandardNormal[float64]{}, b.Noise(dims, L), b.Noise(dims, L))
		s.Start.Z, _ = q0.Draw(s.Start.Z)
		s.End.Z, _ = q0.Draw(s.End.Z)
		return s
	}
	bound := func(L int) Bound[float64] {
		return func(b *Block[float64]) *ad.Var[float64] { return ImportanceBound(f.Draw(b, L).LogEstimate(), L) }
	}
	steps := cmp.Or(o.Steps, 1000)
	for _, L := range []int{1, 8} {
		adamax := &Adamax[float64]{}
		trainer := NewTrainer(params, adamax, bound(L))
		trainer.Seed, trainer.BlockSize = o.Seed, 16/L
		for i := range steps {
			adamax.Rate = 0.05 * (1 - float64(i)/float64(steps))
			_, err = trainer.Step(ctx, Draws(16))
			if err != nil {
				return f, err
			}
		}
		if K < o.K { // the flow starts with the second phase, because it may diverge if q⁰ is not trained
			K = o.K
			params = append(params, flowParams...)
		}
	}
	f.Evidence, err = new(Evaluator[float64]).Evidence(ctx, cmp.Or(o.Draws, 20_000), o.Seed, bound(1))
	if err != nil {
		return f, err
	}
	var t ad.Tape[float64]
	covariances := ad.SumTo(ad.Square(t.Const(below.Value)), dims, 1) // elements on and above the diagonal are 0
	variances := ad.Add(ad.Exp(ad.Scale(t.Const(logSD.Value), 2)), covariances)
	ais := &AIS[float64]{Target: func(*ad.Tape[float64]) Target[float64] { return target }, Steps: 200, Leapfrogs: 5}
	ais.Mean, ais.SD = mean.Value, ad.Exp(ad.Scale(ad.Log(variances), 0.5)).Value
	f.Annealed, err = ais.Evidence(ctx, 400, o.Seed)
	if err != nil {
		return f, err
	}
	difference := math.Abs(f.Evidence.Log-f.Annealed.Log) / math.Hypot(f.Evidence.StandardError, f.Annealed.StandardError)
	if !(difference <= 4) {
		f.Warning = fmt.Sprintf("the two estimates differ by %.1f standard errors", difference)
	} else if !(f.Evidence.TailShape <= 0.5) { // NaN for fewer than 100 draws
		f.Warning = fmt.Sprintf("k̂ is %.2f, so the standard error is not reliable", f.Evidence.TailShape)
	} else if !(f.Annealed.TailShape <= 0.7) {
		f.Warning = fmt.Sprintf("k̂ of AIS is %.2f, so AIS does not confirm the estimate", f.Annealed.TailShape)
	}
	return f, nil
}
