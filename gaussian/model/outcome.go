package model

import "hvae/linalg"

// An Outcome is the result of a Run, or an average over datasets. Values that do not apply are 0 and omitted from JSON.
type Outcome struct {
	Run
	Datasets    int     `json:"datasets"`
	DeltaErr    float64 `json:"delta_err"` // ‖Δ − Δ̂‖²
	SigmaErr    float64 `json:"sigma_err"` // ‖σ − σ̂‖²
	SigmaErrSE  float64 `json:"sigma_err_se,omitzero"`
	Err         float64 `json:"err"`                 // ‖Δ − Δ̂‖² + ‖σ − σ̂‖²
	ErrSE       float64 `json:"err_se,omitzero"`     // standard error of Err, estimated from the datasets
	Beta0       float64 `json:"beta0,omitzero"`      // inverse temperature β₀ = 1/s², where s is the s.d. of ρ₀; only for HVAE
	Volume      float64 `json:"volume,omitzero"`     // s·Π α_k, which is 1 unless the tempering is untied; only for HVAE
	ELBO        float64 `json:"elbo"`                // ELBO at θ̂, averaged over 10,000 draws
	LogEvidence float64 `json:"log_evidence"`        // exact log p_θ̂(D)
	Gap         float64 `json:"gap"`                 // LogEvidence − ELBO
	TiedLimit   float64 `json:"tied_limit"`          // lower limit of the gap of an HVAE with tied tempering at θ̂
	MLEDeltaErr float64 `json:"mle_delta_err"`       // DeltaErr of the maximum-likelihood estimate
	MLESigmaErr float64 `json:"mle_sigma_err"`       // SigmaErr of the maximum-likelihood estimate
	MLEErrSE    float64 `json:"mle_err_se,omitzero"` // standard error of mleErr
	MLEEvidence float64 `json:"mle_log_evidence"`    // log p(D) for the maximum-likelihood estimate
	Seconds     float64 `json:"seconds"`             // total training and evaluation time

	Theta  Theta   `json:"-"` // θ̂; not averaged
	mleErr float64 // MLEDeltaErr + MLESigmaErr
}

// numbers returns pointers to the numeric results in o, each paired with a pointer to its standard error, or with nil.
func (o *Outcome) numbers() [][2]*float64 {
	return [][2]*float64{
		{&o.DeltaErr}, {&o.SigmaErr, &o.SigmaErrSE}, {&o.Err, &o.ErrSE}, {&o.Beta0}, {&o.Volume}, {&o.ELBO}, {&o.LogEvidence}, {&o.Gap},
		{&o.TiedLimit}, {&o.MLEDeltaErr}, {&o.MLESigmaErr}, {&o.mleErr, &o.MLEErrSE}, {&o.MLEEvidence}, {&o.Seconds},
	}
}

// Average returns the mean outcome of a method over several datasets, with standard errors. Running times are summed,
// not averaged.
func Average(outcomes []Outcome) Outcome {
	mean := Outcome{Run: Run{Method: outcomes[0].Method, Dims: outcomes[0].Dims}, Datasets: len(outcomes)}
	for i, number := range mean.numbers() {
		var values []float64
		for _, o := range outcomes {
			values = append(values, *o.numbers()[i][0])
		}
		average, se := linalg.MeanSE(values)
		*number[0] = average
		if number[1] != nil && len(outcomes) > 1 {
			*number[1] = se
		}
	}
	mean.Seconds *= float64(len(outcomes))
	return mean
}
