package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A listed is a run in the list.
type listed struct {
	Task   int    `json:"task"`
	Run    string `json:"run"`
	State  string `json:"state"`  // done, running, stopped, missing or refused
	Epochs int    `json:"epochs"` // that are done
	Why    string `json:"why,omitempty"`
}

// printList prints the state of each run.
func (t *table) printList() error {
	count := map[string]int{}
	for i, k := range t.tasks {
		l := listed{Task: i, Run: k.String(), State: "missing"}
		s, err := t.status(k)
		switch {
		case err != nil:
			l.State, l.Why = "refused", err.Error()
		case s.done():
			l.State = "done"
		case s.running:
			l.State = "running"
		case s.begun:
			l.State = "stopped"
		}
		l.Epochs = len(s.metrics)
		count[l.State]++
		if t.asJSON {
			err = json.NewEncoder(t.stdout).Encode(l)
		} else {
			line := fmt.Sprintf("%3d  %-30s %-8s %5d epochs  %s", l.Task, l.Run, l.State, l.Epochs, l.Why)
			_, err = fmt.Fprintln(t.stdout, strings.TrimRight(line, " "))
		}
		if err != nil {
			return fmt.Errorf("cannot write results: %w", err)
		}
	}
	if t.asJSON {
		return nil
	}
	_, err := fmt.Fprintf(t.stdout, "%d runs: %d done, %d running, %d stopped, %d missing, %d refused\n",
		len(t.tasks), count["done"], count["running"], count["stopped"], count["missing"], count["refused"])
	return err
}
