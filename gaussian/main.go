// Gaussian runs the experiment of section 5.1 of the paper: it generates datasets from a Gaussian
// model, estimates the parameters with several variational methods, and prints the error of each
// estimate and the gap between each bound and the exact evidence.
//
//	go run ./gaussian -d 50
//
// Model and methods are in gaussian/model. This package contains the command line (options.go),
// concurrent runs (run.go), the table (report.go), the figures (figure.go) and -two-modes
// (twomodes.go, trajectory.go, and explore.go for the page).
package main

import (
	"context"
	"io"

	"hvae/bench/command"
)

func main() { program.Main() }

var program = command.Program{
	Name: "gaussian",
	About: `Runs the Gaussian experiment of the HVAE paper (section 5.1). Prints for each method
the errors of the estimated parameters and the gap between its bound and the exact
evidence.`,
	Commands: []command.Command{{Run: start}},
}

func start(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	switch {
	case o.http != "":
		return explore(ctx, o, stdout)
	case o.twoModes:
		return showTwoModes(ctx, o, stdout, stderr)
	}
	return run(ctx, o, stdout, stderr)
}
