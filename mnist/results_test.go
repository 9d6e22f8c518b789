package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hvae/bench/plot"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// These tests check that the tables in mnist/results agree with the files of their runs, and that the tables in
// results/README.md agree with these tables.

var update = flag.Bool("update", false, "replace the tables and figures in results")

// stored returns the table that is stored in a folder of mnist/results, with the rows and seeds in its results.
func stored(t *testing.T, folder string) *table {
	t.Helper()
	r := jsonLines[report](t, strings.ReplaceAll(string(read(t, "results", folder, tableFile)), "\n", ""))[0]
	stored := &table{protocol: r.protocol, out: "results/" + folder, listOnly: true, set: &data.Set{Name: r.Data}}
	stored.set.Test.Pixels = make([]byte, 784*10_000) // only the number of images is used
	for _, x := range r.Rows {
		stored.rows = append(stored.rows, x.Row)
	}
	for _, x := range r.Results {
		if !slices.Contains(stored.seeds, x.Seed) {
			stored.seeds = append(stored.seeds, x.Seed)
		}
	}
	noError(t, stored.open())
	return stored
}

// after2000 returns the table of the run in results/2000, which did not stop early.
func after2000(t *testing.T) *table {
	table := stored(t, "full")
	table.out, table.seeds = "results/2000", table.seeds[:1]
	noError(t, table.open())
	return table
}

func TestCheckedInTablesMatchTheirRuns(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the last digits of numbers differ on machines that fuse multiplications and additions")
	}
	tables, err := filepath.Glob("results/*/" + tableFile)
	if err != nil || len(tables) < 3 {
		t.Fatalf("the tables are %v (%v)", tables, err)
	}
	for _, name := range tables {
		table := stored(t, filepath.Base(filepath.Dir(name)))
		r := table.report()
		if len(r.Results) != len(table.tasks) {
			t.Errorf("%s contains the results of %d runs, want %d", table.out, len(r.Results), len(table.tasks))
		}
		for name, want := range r.files() {
			if exists(table.out, name) { // full/ has no figures
				matches(t, filepath.Join(table.out, name), want)
			}
		}
	}
}

// matches checks that the named file has the given contents.
func matches(t *testing.T, name string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(name); !bytes.Equal(got, want) {
		t.Errorf("%s disagrees with the runs (%v); go test -update writes it again", name, err)
		if *update {
			os.WriteFile(name, want, 0o644)
		}
	}
}

// signed formats a difference with its sign (+ or −), followed by ± and the standard error unless se is NaN.
func signed(v, se eval.Number) string {
	if v < 0 {
		return "−" + eval.PlusMinus(-v, se)
	}
	return "+" + eval.PlusMinus(v, se)
}

func TestTablesInTheREADMEMatchTheResults(t *testing.T) {
	readme := string(read(t, "results/README.md"))
	contains := func(format string, args ...any) {
		t.Helper()
		line := strings.ReplaceAll(fmt.Sprintf(format, args...), "| -", "| −") + "\n"
		if !strings.Contains(readme, "\n"+line) {
			t.Errorf("results/README.md lacks the line\n%s", line)
		}
	}
	// columns returns four columns of a row of the table: the number of seeds, the ELBO, the NLL and the difference
	// from the VAE.
	columns := func(s summary) string {
		if s.Seeds == 0 { // the row is not in the paper
			return " – | – | – | – |"
		}
		less := ""
		if s.Pairs > 0 {
			less = signed(s.ToVAE, s.ToVAEError)
		}
		return fmt.Sprintf(" %d | %.2f | %s | %s |", s.Seeds, s.ELBO, eval.PlusMinus(s.NLL, s.SeedSD), less)
	}
	for _, row := range stored(t, "table").report().Rows {
		contains("| `%s` |%s%s", row.Row, columns(row.Published), columns(row.Obtained))
	}
	full, long := stored(t, "full").report(), stored(t, "150").report()
	for _, row := range long.Rows {
		sameWork := long.Epochs * row.config.StepCost() / full.Rows[0].config.StepCost()
		contains("| `%s` |%s %.1f | %.1f |", row.Row, columns(row.Obtained), bestELBO(long.Results, row.Row, long.Epochs), bestELBO(full.Results, "vae", sameWork))
	}
	evaluated := func(r result) string {
		return fmt.Sprintf(" %d | %.2f ± %.2f | %s |", r.Epochs, r.ELBO, r.ELBOSD, eval.PlusMinus(r.NLL, r.NLLSD))
	}
	for _, obtained := range full.Results {
		i := slices.IndexFunc(published(), func(r result) bool { return r.Run == obtained.Run })
		contains("| %d |%s%s", obtained.Seed, evaluated(published()[i]), evaluated(obtained))
	}
	mean := func(s summary) string {
		return fmt.Sprintf(" %.0f | %.2f | %s |", s.Epochs, s.ELBO, eval.PlusMinus(s.NLL, s.SeedSD))
	}
	contains("| mean |%s%s", mean(full.Rows[0].Published), mean(full.Rows[0].Obtained))
	contains("| 85547, in `2000/` | | | |%s", evaluated(after2000(t).report().Results[0]))
}

// bestELBO returns the best validation ELBO of the first n epochs, averaged over the runs of a row.
func bestELBO(results []result, row string, n int) eval.Number {
	var best []float64
	for _, r := range results {
		if r.Row == row {
			best = append(best, model.Best(r.metrics[:min(n, len(r.metrics))]).ValELBO)
		}
	}
	mean, _ := eval.MeanSD(best)
	return mean
}

func TestCheckedInWeightsMatchTheirRuns(t *testing.T) {
	for _, c := range []struct {
		file  string
		run   task
		table *table
	}{
		{"vae.safetensors", newTask("vae", 85547), after2000(t)},
		{"hvae150.safetensors", newTask("hvae-k5-free-varied", 98765), stored(t, "150")},
	} {
		name := filepath.Join("results", c.file)
		m, err := model.ReadCheckpoint(name)
		noError(t, err)
		want, err := parseRow(c.run.Row)
		noError(t, err)
		metrics, err := readMetrics(openRun(t, c.table, c.run))
		if best := model.Best(metrics); err != nil || m.Config != want || m.Seed != c.run.Seed || m.Epoch != best.Epoch || m.ELBO != best.ValELBO {
			t.Errorf("%s contains %+v, seed %d, epoch %d, validation ELBO %v, but the run is %+v with the best epoch %+v (error: %v)", name, m.Config, m.Seed, m.Epoch, m.ELBO, c.run, best, err)
		}
	}
}

func openRun(t *testing.T, table *table, k task) *os.Root {
	t.Helper()
	root, err := table.root.OpenRoot(k.Run)
	noError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

func TestTableOfUntiedRunsMatchesTheResults(t *testing.T) {
	readme, seeds := string(read(t, "results/README.md")), []string{"-85547", "-12345", "-98765"}
	for _, c := range []struct {
		name, untied, tied string
		folders            []string // ends of the names of the run folders
	}{
		{"`hvae-k1-untied`", "untied/hvae-k1-untied", "table/hvae-k1-fixed", seeds},
		{"`hvae-k5-untied-varied`", "untied/hvae-k5-untied-varied", "table/hvae-k5-free-varied", seeds},
		{"the same, 150 epochs, all images", "untied/150", "150/hvae-k5-free-varied-85547", []string{""}},
	} {
		var elbos, nlls, differences, volumes []string
		for _, end := range c.folders {
			var untied, tied record
			err := errors.Join(json.Unmarshal(read(t, "results", c.untied+end, evaluationFile), &untied), json.Unmarshal(read(t, "results", c.tied+end, evaluationFile), &tied))
			noError(t, err)
			metrics := jsonLines[model.Metrics](t, string(read(t, "results", c.untied+end, metricsFile)))
			last := metrics[len(metrics)-1]
			elbos, nlls = append(elbos, fmt.Sprintf("%.2f", untied.ELBO)), append(nlls, fmt.Sprintf("%.2f", untied.NLL))
			differences = append(differences, fmt.Sprintf("%+.2f", untied.NLL-tied.NLL))
			volumes = append(volumes, fmt.Sprintf("%.2f", last.Alpha*last.MomentumSD))
		}
		line := fmt.Sprintf("| %s | %s | %s | %s | %s |", c.name, strings.Join(elbos, ", "), strings.Join(nlls, ", "), strings.Join(differences, ", "), strings.Join(volumes, ", "))
		if line = strings.ReplaceAll(line, " -", " −"); !strings.Contains(readme, line) {
			t.Errorf("results/README.md lacks the line\n%s", line)
		}
	}
}

// The table and the figure of runs at equal work must agree with worth.jsonl, which contains the evaluations of all
// runs. The runs of each model are in the same order of seeds.
func TestTableOfEqualWorkMatchesTheResults(t *testing.T) {
	type run struct {
		Arm    string
		Result struct {
			ELBO, NLL, Lower float64
			Samples          int
		}
	}
	readme, arms := string(read(t, "results/README.md")), map[string][]run{}
	for _, r := range jsonLines[run](t, string(read(t, "results/worth.jsonl"))) {
		arms[r.Arm] = append(arms[r.Arm], r)
	}
	chart := plot.Chart{Title: "Training start further, with equal work", XLabel: "work (epochs of a VAE)", YLabel: "annealed NLL ± s.d. over seeds (nats)", XTicks: []float64{0, 130}}
	for _, arm := range []string{"start", "vae", "mean", "importance", "tied", "untied"} {
		var elbos, nlls, annealed, differences []float64
		for i, r := range arms[arm] {
			elbos, nlls, annealed = append(elbos, r.Result.ELBO), append(nlls, r.Result.NLL), append(annealed, -r.Result.Lower)
			differences = append(differences, arms["importance"][i].Result.Lower-r.Result.Lower)
		}
		mean := func(x []float64) string { return strings.ReplaceAll(eval.PlusMinus(eval.MeanSD(x)), "-", "−") }
		line := fmt.Sprintf("| `%s` | %d | %s | %s | %s |", arm, len(elbos), mean(elbos), mean(nlls), mean(annealed))
		if arm != "start" {
			after, sd := eval.MeanSD(annealed)
			chart.Series = append(chart.Series, plot.Series{Label: arm, X: []float64{0, 130}, Y: []float64{-arms["start"][0].Result.Lower, float64(after)}, Error: []float64{0, float64(sd)}})
			if arm != "importance" {
				line += " " + signed(eval.MeanSE(differences)) + " |"
			}
		}
		if !strings.Contains(readme, line) {
			t.Errorf("results/README.md lacks the line\n%s", line)
		}
	}
	matches(t, "results/worth.svg", chart.SVG())
	controls := map[string][]string{} // the NLLs of each model, and an ELBO if there is one run
	long := map[string][4]string{}    // the ELBO and NLL of each model after 150 epochs, its NLL from 12,000 samples and its annealed NLL
	runs := jsonLines[run](t, string(read(t, "results/controls.jsonl")))
	for name, folder := range map[string]string{"`hvae150`": "150/hvae-k5-free-varied-98765", "untied": "untied/150"} {
		r := run{Arm: "150 epochs: " + name}
		noError(t, json.Unmarshal(read(t, "results", folder, evaluationFile), &r.Result))
		runs = append(runs, r)
	}
	for _, r := range runs {
		if name, ok := strings.CutPrefix(r.Arm, "150 epochs: "); ok {
			cells := long[name]
			switch {
			case r.Result.Lower != 0:
				cells[3] = fmt.Sprintf("%.2f", -r.Result.Lower)
			case r.Result.Samples == 12000:
				cells[2] = fmt.Sprintf("%.2f", r.Result.NLL)
			default:
				cells[0], cells[1] = fmt.Sprintf("−%.2f", -r.Result.ELBO), fmt.Sprintf("%.2f", r.Result.NLL)
			}
			long[name] = cells
			continue
		}
		controls[r.Arm] = append(controls[r.Arm], fmt.Sprintf("%.2f", r.Result.NLL))
		if r.Arm != "vae" && r.Arm != "k0" {
			controls[r.Arm] = []string{fmt.Sprintf("ELBO −%.2f and NLL %.2f", -r.Result.ELBO, r.Result.NLL)}
		}
	}
	for name, cells := range long {
		if line := fmt.Sprintf("| %s | %s |", name, strings.Join(cells[:], " | ")); !strings.Contains(readme, line) {
			t.Errorf("results/README.md lacks the line\n%s", line)
		}
	}
	for model, values := range controls {
		if text := strings.Join(values, ", "); !strings.Contains(strings.Join(strings.Fields(readme), " "), text) {
			t.Errorf("results/README.md lacks the values %s of %s", text, model)
		}
	}
}

// A result must be refused if it is damaged, if values are missing, or if it does not match its table or the metrics of
// its run.
func TestDamagedResultsAreRefused(t *testing.T) {
	table := stored(t, "full")
	results, metrics := read(t, table.out, table.tasks[0].Run, evaluationFile), read(t, table.out, table.tasks[0].Run, metricsFile)
	table.out = t.TempDir()
	folder := filepath.Join(table.out, table.tasks[0].Run)
	noError(t, errors.Join(os.Mkdir(folder, 0o755), table.open()))
	state := func(results, metrics []byte) (status, error) {
		write(t, results, folder, evaluationFile)
		write(t, metrics, folder, metricsFile)
		return table.read(0)
	}
	s, err := state(results, metrics)
	if s.State != "done" || err != nil {
		t.Fatalf("a valid result is %s (error %v)", s.State, err)
	}
	replaced := func(b []byte, old, new string) []byte {
		if !bytes.Contains(b, []byte(old)) {
			t.Fatalf("the file lacks %s", old)
		}
		return bytes.Replace(b, []byte(old), []byte(new), 1)
	}
	number, epochs, last := fmt.Sprint(s.NLLs[1]), fmt.Sprintf("\"epochs\": %d", s.Epochs), bytes.LastIndex(metrics, []byte("{"))
	for name, c := range map[string][2][]byte{
		"truncated":                    {results[:len(results)/2], metrics},
		"null in an array":             {replaced(results, number, "null"), metrics},
		"an empty array":               {replaced(results, "\"nlls\": [", "\"nlls\": [],\n \"x\": ["), metrics},
		"fewer numbers":                {replaced(results, number+",\n  ", ""), metrics},
		"a lost digit":                 {replaced(results, number, number[:len(number)-1]), metrics},
		"a missing field":              {replaced(results, epochs+",", ""), metrics},
		"null as a number":             {replaced(results, epochs, "\"epochs\": null"), metrics},
		"another data name":            {replaced(results, "\"mnist\"", "\"synthetic\""), metrics},
		"another run":                  {read(t, "results/full/vae-12345", evaluationFile), read(t, "results/full/vae-12345", metricsFile)},
		"another table":                {read(t, "results/table/vae-85547", evaluationFile), read(t, "results/table/vae-85547", metricsFile)},
		"fewer epochs":                 {results, metrics[:last]},
		"another epoch":                {results, replaced(metrics, "\"epoch\":1,", "\"epoch\":2,")},
		"a changed learning rate":      {results, replaced(metrics, "}\n", ",\"lr\":0.0001}\n")},
		"another best validation ELBO": {results, replaced(metrics, "\"val_elbo\":-", "\"val_elbo\":-1")},
	} {
		if s, err := state(c[0], c[1]); s.State != "open" || err == nil || strings.ContainsAny(err.Error(), "{\n") {
			t.Errorf("%s: the state is %s and the error %v, want one line without Go values", name, s.State, err)
		}
	}
}
