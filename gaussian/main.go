// Gaussian runs the experiment of section 5.1: it generates datasets from a Gaussian
// model, estimates the model's parameters by several variational methods, and prints
// how far each estimate is from the truth and each bound from the exact evidence.
//
//	go run ./gaussian -d 50
//
// The model and the methods are in the package gaussian/model; here are the command
// line (options.go), the runs side by side (run.go), the table (report.go), the figures
// (figure.go), and what -two-modes shows (twomodes.go, trajectory.go, and explore.go for
// the page). bench/command is the command-line front end that this program shares with mnist.
package main

import (
	"context"
	"io"

	"hvae/bench/command"
)

func main() { program.Main() }

var program = command.Program{
	Name: "gaussian",
	About: `Runs the Gaussian experiment of the HVAE paper (section 5.1) and prints, for each
method, the errors of the estimated parameters and the gap between its bound and
the exact evidence.`,
	Commands: []command.Command{{Run: start}},
}

// start does what the arguments ask for.
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
