package table

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
	"hvae/mnist/run"
)

// These tests check that the tables in ../results agree with the files of their runs, and that
// ../results/README.md agrees with the tables.

// equalBudgets returns the table in ../results/table, with 30 training epochs for each model.
func equalBudgets() *Table {
	return checkedIn(Table{
		Out:      "../results/table",
		Rows:     []string{"vae", "hvae-k1-none", "hvae-k1-fixed", "hvae-k5-none-varied", "hvae-k5-fixed-shared", "hvae-k5-fixed-varied", "hvae-k5-free-varied"},
		Seeds:    []uint64{85547, 12345, 98765},
		Protocol: run.Protocol{MaxEpochs: 30}, Limit: 2000, Runs: 1,
	})
}

// fullProtocol returns the table in ../results/full, for which VAEs were trained and evaluated as in the
// paper.
func fullProtocol() *Table {
	return checkedIn(Table{Out: "../results/full", Rows: []string{"vae"}, Seeds: []uint64{85547, 12345, 98765}, Protocol: run.Protocol{MaxEpochs: 2000}, Limit: 10000, Runs: 3})
}

// epochs2000 returns the table of the run in ../results/2000, which did not stop early.
func epochs2000() *Table {
	t := fullProtocol()
	t.Out, t.Seeds, t.tasks = "../results/2000", t.Seeds[:1], t.tasks[:1]
	return t
}

// epochs150 returns the table in ../results/150, with 150 training epochs for each model.
func epochs150() *Table {
	return checkedIn(Table{
		Out: "../results/150", Rows: []string{"vae", "hvae-k5-free-varied"}, Seeds: []uint64{85547, 12345, 98765},
		Protocol: run.Protocol{MaxEpochs: 150}, Limit: 10000, Runs: 1,
	})
}

// checkedIn sets the fields that all tables in ../results have in common. The dataset needs only its name
// and the right number of training images, which may be blank.
func checkedIn(t Table) *Table {
	t.Patience, t.Samples = 100, 1000
	t.set = data.Set{Name: "mnist", Train: data.Images{Pixels: make([]byte, 60000*784)}}
	t.tasks = plan(t.Rows, t.Seeds)
	return &t
}

var decimal = regexp.MustCompile(`\d+\.\d+`)

// alike reports whether two files are equal up to rounding errors, which differ on machines that fuse
// multiplications and additions. The tolerance for decimal numbers is 0.1 in SVG files and a relative 10⁻⁹
// in other files.
func alike(a, b string) bool {
	x, y := decimal.FindAllString(a, -1), decimal.FindAllString(b, -1)
	if len(x) != len(y) || decimal.ReplaceAllString(a, "") != decimal.ReplaceAllString(b, "") {
		return false
	}
	for i := range x {
		v, _ := strconv.ParseFloat(x[i], 64)
		w, _ := strconv.ParseFloat(y[i], 64)
		tolerance := 1e-9 * math.Abs(w)
		if strings.Contains(b, "<svg") {
			tolerance = 0.11
		}
		if !(math.Abs(v-w) <= tolerance) {
			return false
		}
	}
	return true
}

func TestCheckedInTablesMatchTheirRuns(t *testing.T) {
	for _, table := range []*Table{equalBudgets(), fullProtocol(), epochs150()} {
		want, err := table.report().files()
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range want {
			got, err := os.ReadFile(filepath.Join(table.Out, name))
			if err != nil || !alike(string(got), string(content)) {
				t.Errorf("%s in %s disagrees with the runs (%v): run the table command to write it again", name, table.Out, err)
			}
		}
		for _, k := range table.tasks {
			if s, err := table.status(k); err != nil || s.result == nil {
				t.Errorf("the run %s in %s is missing or unfinished (%v)", k.Run, table.Out, err)
			}
		}
		if runs, err := filepath.Glob(filepath.Join(table.Out, "*", run.MetricsFile)); err != nil || len(runs) != len(table.tasks) {
			t.Errorf("%s contains %d runs, want %d (%v)", table.Out, len(runs), len(table.tasks), err)
		}
	}
}

// signed formats a difference with its sign (+ or −), followed by ± err unless err is nil.
func signed(v float64, err *float64) string {
	sign := "+"
	if v < 0 {
		sign = "−"
	}
	return sign + eval.PlusMinus(2, math.Abs(v), err)
}

// differences returns the NLL of row a minus the NLL of row b for each seed that both rows have.
func differences(runs []result, a, b string) (d []float64) {
	for _, x := range runs {
		for _, y := range runs {
			if x.Row == a && y.Row == b && x.Seed == y.Seed {
				d = append(d, x.NLL-y.NLL)
			}
		}
	}
	return d
}

// difference formats the mean of differences and its standard error.
func difference(runs []result, a, b string) string {
	return signed(eval.MeanSE(differences(runs, a, b)))
}

func TestREADMEMatchesTheResults(t *testing.T) {
	b, err := os.ReadFile("../results/README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(b)))
	contains := func(line string) {
		t.Helper()
		if !slices.Contains(lines, strings.ReplaceAll(line, "| -", "| −")+"\n") {
			t.Errorf("../results/README.md lacks the line\n%s", line)
		}
	}
	minus := func(v float64) string { return strings.Replace(fmt.Sprintf("%.2f", v), "-", "−", 1) }
	full := fullProtocol().report()
	for _, k := range fullProtocol().tasks {
		line := fmt.Sprintf("| %d |", k.Seed)
		for _, r := range slices.Concat(published(), full.Results) {
			if r.Run == k.Run {
				line += fmt.Sprintf(" %d | %s ± %.2f | %s |", r.Epochs, minus(r.ELBO), *r.ELBOSD, eval.PlusMinus(2, r.NLL, r.NLLSD))
			}
		}
		contains(line)
	}
	mean := "| mean |"
	for _, s := range []*summary{full.Rows[0].Published, full.Rows[0].Obtained} {
		mean += fmt.Sprintf(" %.0f | %s | %s |", s.Epochs, minus(s.ELBO), eval.PlusMinus(2, s.NLL, s.SeedSD))
	}
	contains(mean)
	long := epochs2000().report().Results[0]
	contains(fmt.Sprintf("| 85547, in `2000/` | | | | %d | %s ± %.2f | %s |", long.Epochs, minus(long.ELBO), *long.ELBOSD, eval.PlusMinus(2, long.NLL, long.NLLSD)))
	// columns returns the columns of a table that show a row's ELBO, its NLL and its difference from the VAE.
	columns := func(s *summary) string {
		less := ""
		if s.ToVAE != nil {
			less = signed(*s.ToVAE, s.ToVAEError)
		}
		return fmt.Sprintf(" %d | %s | %s | %s |", s.Seeds, minus(s.ELBO), eval.PlusMinus(2, s.NLL, s.SeedSD), less)
	}
	for _, row := range epochs150().report().Rows {
		contains("| `" + row.Row + "` |" + columns(row.Obtained))
	}
	r := equalBudgets().report()
	for _, row := range r.Rows {
		contains("| `" + row.Row + "` |" + columns(row.Published) + columns(row.Obtained))
	}
	for _, c := range [][3]string{
		{"fixed against no tempering, K = 1", "hvae-k1-fixed", "hvae-k1-none"},
		{"fixed against no tempering, K = 5", "hvae-k5-fixed-varied", "hvae-k5-none-varied"},
		{"free against no tempering, K = 5", "hvae-k5-free-varied", "hvae-k5-none-varied"},
		{"free against fixed tempering, K = 5", "hvae-k5-free-varied", "hvae-k5-fixed-varied"},
		{"varied against shared ε, K = 5, fixed tempering", "hvae-k5-fixed-varied", "hvae-k5-fixed-shared"},
		{"K = 5 (varied ε) against 1, no tempering", "hvae-k5-none-varied", "hvae-k1-none"},
		{"K = 5 (varied ε) against 1, fixed tempering", "hvae-k5-fixed-varied", "hvae-k1-fixed"},
		{"K = 5 (shared ε) against 1, fixed tempering", "hvae-k5-fixed-shared", "hvae-k1-fixed"},
	} {
		contains(fmt.Sprintf("| %s | %s | %s |", c[0], difference(published(), c[1], c[2]), difference(r.Results, c[1], c[2])))
	}
	prose := strings.Join(strings.Fields(string(b)), " ")
	for text, rows := range map[string][2]string{
		"if K = 5: by %s nats with the fixed scheme":                                           {"hvae-k5-fixed-varied", "hvae-k5-none-varied"},
		"With the fixed scheme and one ε for all steps, K = 5 is %s nats better than K = 1":    {"hvae-k5-fixed-shared", "hvae-k1-fixed"},
		"Separate step sizes** for each step are associated with an NLL that is %s nats lower": {"hvae-k5-fixed-varied", "hvae-k5-fixed-shared"},
	} {
		text = fmt.Sprintf(text, strings.TrimPrefix(difference(r.Results, rows[0], rows[1]), "−"))
		if !strings.Contains(prose, text) {
			t.Errorf("../results/README.md lacks %q", text)
		}
	}
}

func TestCheckedInWeightsMatchTheirRuns(t *testing.T) {
	for _, c := range []struct {
		file  string
		run   task
		table *Table
	}{
		{"vae.safetensors", newTask("vae", 85547), epochs2000()},
		{"hvae150.safetensors", newTask("hvae-k5-free-varied", 98765), epochs150()},
	} {
		name := filepath.Join("..", "results", c.file)
		m, err := model.ReadCheckpoint(name)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := c.table.status(c.run); err != nil || m.Config != c.run.config || m.Seed != c.run.Seed || m.Epoch != s.best.Epoch || m.ELBO != s.best.ValELBO {
			t.Errorf("%s contains %+v, seed %d, epoch %d, validation ELBO %v, but the run is %+v with the best epoch %+v (error: %v)", name, m.Config, m.Seed, m.Epoch, m.ELBO, c.run, s.best, err)
		}
	}
}

// Numbers in the text of ../results/README.md and of the main README must follow from the results.
func TestNumbersInTheTextMatchTheResults(t *testing.T) {
	text := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(b)), " ")
	}
	results, project := text("../results/README.md"), text("../../README.md")
	contains := func(document, format string, args ...any) {
		t.Helper()
		if want := fmt.Sprintf(format, args...); !strings.Contains(document, want) {
			t.Errorf("no document contains %q", want)
		}
	}
	cost := func(row string) float64 {
		c, err := ParseRow(row)
		if err != nil {
			t.Fatal(err)
		}
		return float64(c.StepCost())
	}
	work := cost("hvae-k5-free-varied") / cost("vae")
	contains(results, "costs as many multiply-adds as %.1f epochs of the VAE", work)
	contains(project, "costs %.1f times as many multiply-adds", work)

	metrics := func(folder string, epochs int) []run.Metrics {
		all, err := run.ReadMetrics(filepath.Join("../results", folder, run.MetricsFile))
		if err != nil || len(all) < epochs {
			t.Fatalf("%s has %d epochs, want %d (%v)", folder, len(all), epochs, err)
		}
		return all
	}
	// elbo returns the validation ELBO of a run after an epoch.
	elbo := func(folder string, epoch int) float64 { return metrics(folder, epoch)[epoch-1].ValELBO }
	// best returns the best validation ELBO of a run up to an epoch.
	best := func(folder string, epoch int) float64 {
		b := math.Inf(-1)
		for i := range epoch {
			b = max(b, elbo(folder, i+1))
		}
		return b
	}
	r := equalBudgets().report()
	var elbos, slopes, excess []float64
	for _, row := range r.Rows {
		last, slope := 0.0, 0.0
		for _, seed := range []int{85547, 12345, 98765} {
			folder := fmt.Sprintf("table/%s-%d", row.Row, seed)
			last += elbo(folder, 30) / 3
			slope += (elbo(folder, 30) - elbo(folder, 25)) / 5 / 3
		}
		slopes, excess = append(slopes, slope), append(excess, row.Obtained.NLL-row.Published.NLL)
		if strings.HasPrefix(row.Row, "hvae-k5-f") { // fixed and free tempering
			elbos = append(elbos, -last)
		}
	}
	short, long := r.Rows[len(r.Rows)-1].Obtained, epochs150().report().Rows[1].Obtained // hvae-k5-free-varied
	contains(project, "is %.1f nats lower than the VAE's after 30 epochs, and %.1f nats lower after 150", -*short.ToVAE, -*long.ToVAE)
	contains(results, "the NLL of the HVAEs is %s nats lower than the NLL of the VAEs. After 30 epochs, the difference was %s nats", eval.PlusMinus(2, -*long.ToVAE, long.ToVAEError), eval.PlusMinus(2, -*short.ToVAE, short.ToVAEError))
	sameWork, bestVAE, bestHVAE := 0.0, 0.0, 0.0 // means over seeds
	for _, k := range fullProtocol().tasks {
		n := float64(len(fullProtocol().tasks))
		sameWork += elbo("full/"+k.Run, int(math.Round(30*work))) / n
		bestVAE += best("full/"+k.Run, int(math.Round(150*work))) / n
	}
	for _, seed := range []int{85547, 12345, 98765} {
		bestHVAE += best(fmt.Sprintf("150/hvae-k5-free-varied-%d", seed), 150) / 3
	}
	contains(results, "the VAEs in `full/` have a validation ELBO of −%.1f, and the HVAEs with K = 5 and tempering have −%.1f to −%.1f", -sameWork, slices.Min(elbos), slices.Max(elbos))
	contains(results, "the best validation ELBO of the VAEs in `full/` was −%.1f, and the best of the HVAEs was −%.1f (means over seeds)", -bestVAE, -bestHVAE)
	// The VAE in 2000/ was validated with the same noise in each epoch, but trained like the VAE in full/.
	stopped := metrics("full/vae-85547", 1)
	longer := metrics("2000/vae-85547", len(stopped))
	var noise []float64
	for i, m := range stopped {
		if d := m.TrainELBO - longer[i].TrainELBO; !(math.Abs(d) < 1e-5) {
			t.Errorf("epoch %d: the training ELBOs of vae-85547 in full/ and in 2000/ differ by %v", m.Epoch, d)
		}
		noise = append(noise, m.ValELBO-longer[i].ValELBO)
	}
	_, sd := eval.MeanSD(noise[500:])
	contains(results, "difference between their validation ELBOs has a standard deviation of %.3f nats", *sd)
	early, late := fullProtocol().report().Results[0], epochs2000().report().Results[0] // seed 85547
	contains(results, "Its ELBO is %.2f nats higher, and its NLL %.2f nats lower", late.ELBO-early.ELBO, early.NLL-late.NLL)
	contains(results, "still improves by %.1f to %.1f nats per epoch", slices.Min(slopes), slices.Max(slopes))
	contains(results, "the NLL is %.1f to %.1f nats above the published values", slices.Min(excess), slices.Max(excess))

	// two and one return P(|T| ≥ t) for Student's t with two and one degrees of freedom, respectively.
	two := func(t float64) float64 { return 1 - t/math.Sqrt(2+t*t) }
	one := func(t float64) float64 { return 1 - 2/math.Pi*math.Atan(t) }
	after30, after150 := r.Results, epochs150().report().Results
	for _, c := range []struct {
		text   string
		runs   []result
		a, b   string
		t      float64
		chance float64 // the text says 1 in chance
	}{
		{"fixed against no tempering, K = 5", after30, "hvae-k5-fixed-varied", "hvae-k5-none-varied", 12, 150},
		{"free against no tempering, K = 5", after30, "hvae-k5-free-varied", "hvae-k5-none-varied", 6.9, 50},
		{"K = 5 (shared ε) against 1, fixed tempering", after30, "hvae-k5-fixed-shared", "hvae-k1-fixed", 6.4, 40},
		{"K = 1 without tempering against the VAE", after30, "hvae-k1-none", "vae", 4.4, 21},
		{"varied against shared ε, K = 5, fixed tempering", after30, "hvae-k5-fixed-varied", "hvae-k5-fixed-shared", 1.8, 5},
		{"free tempering, K = 5, against the VAE, after 150 epochs", after150, "hvae-k5-free-varied", "vae", 5.7, 34},
	} {
		contains(results, "| %s | %v | 1 in %v |", c.text, c.t, c.chance)
		mean, se := eval.MeanSE(differences(c.runs, c.a, c.b))
		if got := math.Abs(mean / *se); !(math.Abs(got-c.t) <= 0.03*c.t) || !(math.Abs(1/two(c.t)-c.chance) <= 0.1*c.chance) {
			t.Errorf("%s minus %s is %.2f standard errors, by chance 1 in %.0f; the text says %v and 1 in %v", c.a, c.b, got, 1/two(got), c.t, c.chance)
		}
	}
	if !(math.Abs(1/one(5)-8) <= 0.1) {
		t.Errorf("five standard errors with one degree of freedom occur 1 in %.2f times, want 8", 1/one(5))
	}
}
