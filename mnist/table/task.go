package table

import (
	"fmt"
	"slices"

	"hvae/mnist/model"
)

// A task is a run of the table: a row and a seed.
type task struct {
	row    string
	config model.Config
	seed   uint64
}

func (t task) String() string { return fmt.Sprintf("%s-%d", t.row, t.seed) }

// plan returns the tasks, ordered by seed so that rows can be compared early. With nil rows or
// seeds they are the published runs.
func plan(rows []string, seeds []uint64) (tasks []task) {
	if rows == nil {
		for _, r := range published() {
			if !slices.Contains(rows, r.Row) {
				rows = append(rows, r.Row)
			}
		}
	}
	all := seeds
	if all == nil {
		all = []uint64{85547, 12345, 98765}
	}
	for _, seed := range all {
		for _, row := range rows {
			isPublished := slices.ContainsFunc(published(), func(r result) bool { return r.Row == row && r.Seed == seed })
			isRow := slices.ContainsFunc(published(), func(r result) bool { return r.Row == row })
			c, _ := ParseRow(row) // checked by the flag
			if k := (task{row, c, seed}); (seeds != nil || isPublished || !isRow && seed != 98765) && !slices.Contains(tasks, k) {
				tasks = append(tasks, k)
			}
		}
	}
	return tasks
}
