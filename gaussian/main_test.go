package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gaussianCommand runs the program and returns what it printed and its exit status.
func gaussianCommand(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = program.Run(ctx, args, &out, &err)
	return out.String(), err.String(), status
}

var quick = []string{"-datasets", "3", "-n", "50", "-iters", "60", "-batch", "3"}

func TestBadInputIsOneClearLineAndStatus2(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // the line says it
	}{
		{[]string{"-d", "0"}, `"0" is not a dimension`},
		{[]string{"-d", "x"}, `"x" is not a dimension`},
		{[]string{"-d", "2,,3"}, `"" is not a dimension`},
		{[]string{"-d", "3,2,3"}, "dimension 3 is there twice"},
		{[]string{"-d", "999999999999999999999"}, "is not a dimension"},
		{[]string{"-d", "100001"}, "from 1 to 100000"},
		{[]string{"-methods", "foo"}, `unknown method "foo": the methods are hvae-k1, hvae-k10`},
		{[]string{"-methods", "vb,vb"}, "vb is there twice"},
		{[]string{"-two-modes", "-iters", "3", "-d", "2"}, "-two-modes is not about -d, -iters"},
		{[]string{"-datasets", "-1"}, "from 1 to"},
		{[]string{"-datasets", "0"}, "-datasets"},
		{[]string{"-n", "1"}, "from 2 to"},
		{[]string{"-iters", "-5"}, "-iters"},
		{[]string{"-batch", "many"}, "-batch"},
		{[]string{"-lr", "0"}, "a learning rate is a positive number"},
		{[]string{"-lr", "NaN"}, "-lr"},
		{[]string{"-lr", "+Inf"}, "-lr"},
		{[]string{"-seed", "-1"}, "-seed"},
		{[]string{"-foo"}, "-foo"},
		{[]string{"50"}, `stray argument "50"`},
	} {
		stdout, stderr, status := gaussianCommand(t.Context(), c.args...)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "gaussian: ") || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want status 2 and a line with %q", c.args, status, stdout, stderr, c.want)
		}
	}
}

func TestHelpListsEveryFlag(t *testing.T) {
	stdout, stderr, status := gaussianCommand(t.Context(), "-h")
	if status != 0 || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	for _, flag := range []string{"-d", "-methods", "-datasets", "-n", "-iters", "-batch", "-lr", "-seed", "-out", "-json"} {
		if !strings.Contains(stdout, "\n  "+flag+" ") && !strings.Contains(stdout, "\n  "+flag+"\n") {
			t.Errorf("-h does not list %s:\n%s", flag, stdout)
		}
	}
}

func TestUnwritableFolderIsStatus1BeforeAnyWork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"1", "1,2"} {
		stdout, stderr, status := gaussianCommand(t.Context(), "-d", d, "-out", file) // with 30,000 iterations
		if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, file) || !strings.Contains(stderr, "-out") {
			t.Errorf("-d %s: status %d, stdout %q, stderr %q", d, status, stdout, stderr)
		}
	}
	if kept, _ := os.ReadFile(file); string(kept) != "kept" {
		t.Errorf("the file in the way became %q", kept)
	}
}

func TestJSONHasTheContractsFields(t *testing.T) {
	stdout, stderr, status := gaussianCommand(t.Context(), append(quick, "-d", "2", "-json")...)
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	var methods []string
	for dec := json.NewDecoder(strings.NewReader(stdout)); ; {
		var o map[string]any
		if err := dec.Decode(&o); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		var fields []string
		for f := range o {
			fields = append(fields, f)
		}
		slices.Sort(fields)
		want := []string{"beta0", "d", "datasets", "delta_err", "elbo", "err", "err_se", "gap", "log_evidence", "method", "mle_delta_err", "mle_sigma_err", "seconds", "sigma_err"}
		if diff := cmp.Diff(want, fields); diff != "" {
			t.Error(diff)
		}
		number := func(f string) float64 { return o[f].(float64) }
		if !(math.Abs(number("delta_err")+number("sigma_err")-number("err")) <= 1e-9) {
			t.Errorf("err is not the sum of its parts: %v", o)
		}
		if !(math.Abs(number("log_evidence")-number("elbo")-number("gap")) <= 1e-6*math.Abs(number("elbo"))) || number("gap") < 0 {
			t.Errorf("gap is not log_evidence − elbo: %v", o)
		}
		method := o["method"].(string)
		switch beta0 := o["beta0"]; {
		case strings.HasPrefix(method, "hvae-notemp"):
			if beta0 != 1.0 {
				t.Errorf("%s: beta0 = %v, want 1", method, beta0)
			}
		case strings.HasPrefix(method, "hvae"):
			if b := beta0.(float64); b <= 0 || b >= 1 {
				t.Errorf("%s: beta0 = %v, want it in (0, 1)", method, beta0)
			}
		default:
			if beta0 != nil {
				t.Errorf("%s: beta0 = %v, want null", method, beta0)
			}
		}
		methods = append(methods, method)
	}
	if diff := cmp.Diff(strings.Split("hvae-k1 hvae-k10 hvae-notemp-k1 hvae-notemp-k10 nf-k1 nf-k30 vb", " "), methods); diff != "" {
		t.Error(diff)
	}
}

func TestStandardErrorOfOneDatasetIsNull(t *testing.T) {
	stdout, _, _ := gaussianCommand(t.Context(), append(quick, "-datasets", "1", "-d", "1", "-methods", "vb", "-json")...)
	if !strings.Contains(stdout, `"err_se":null`) {
		t.Errorf("printed %s", stdout)
	}
	stdout, _, _ = gaussianCommand(t.Context(), append(quick, "-datasets", "1", "-d", "1", "-methods", "vb")...)
	if strings.Contains(stdout, "NaN") {
		t.Errorf("the table has a NaN:\n%s", stdout)
	}
}

func TestOutputDoesNotDependOnGOMAXPROCS(t *testing.T) {
	run := func(procs int) []row {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		stdout, stderr, status := gaussianCommand(t.Context(), append(quick, "-d", "2,3", "-json", "-out", t.TempDir())...)
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		var rows []row
		for dec := json.NewDecoder(strings.NewReader(stdout)); dec.More(); {
			var r row
			if err := dec.Decode(&r); err != nil {
				t.Fatal(err)
			}
			r.Seconds = 0
			rows = append(rows, r)
		}
		return rows
	}
	want := run(1)
	if len(want) != 14 {
		t.Fatalf("%d rows, want 14", len(want))
	}
	for _, procs := range []int{2, 5} {
		if diff := cmp.Diff(want, run(procs), cmp.AllowUnexported(row{})); diff != "" {
			t.Errorf("GOMAXPROCS %d: %s", procs, diff)
		}
	}
}

func TestTableHasALineForEachMethodAndTheFloor(t *testing.T) {
	stdout, _, status := gaussianCommand(t.Context(), append(quick, "-d", "2,1", "-methods", "vb,hvae-k1", "-out", t.TempDir())...)
	if status != 0 {
		t.Fatal("failed")
	}
	var starts []string
	for line := range strings.Lines(stdout) {
		if f := strings.Fields(line); len(f) > 0 {
			starts = append(starts, f[0])
		}
	}
	want := []string{"d", "method", "vb", "hvae-k1", "max.", "d", "method", "vb", "hvae-k1", "max."}
	if diff := cmp.Diff(want, starts); diff != "" || strings.Contains(stdout, "NaN") {
		t.Errorf("%s\n%s", diff, stdout)
	}
}

func TestSeveralDimensionsDrawTheFigures(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "folder")
	_, stderr, status := gaussianCommand(t.Context(), append(quick, "-d", "3,1", "-out", out)...)
	if status != 0 || !strings.Contains(stderr, "figure1a.svg") || !strings.Contains(stderr, "figure1b.svg") {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	files, err := os.ReadDir(out)
	if err != nil || len(files) != 3 {
		t.Fatalf("the folder has %v (%v), want three figures", files, err)
	}
	for name, want := range map[string][]string{
		"figure1a.svg": {"HVAE, K = 10", "planar flow, K = 30", "mean-field VB", "dimension d", "‖θ − θ̂‖²", "max. likelihood"},
		"figure1b.svg": {"HVAE, K = 1", "K = 10, no tempering", "dimension d"},
		"figure1c.svg": {"HVAE, K = 1", "K = 10, no tempering", "‖σ − σ̂‖²", "max. likelihood"},
	} {
		svg, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
			if _, err := dec.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s is not XML: %v", name, err)
			}
		}
		for _, w := range want {
			if !strings.Contains(string(svg), w) {
				t.Errorf("%s does not say %q", name, w)
			}
		}
	}
}

func TestTwoModesAreShownAsATableAndAFigure(t *testing.T) {
	out := t.TempDir()
	stdout, stderr, status := gaussianCommand(t.Context(), "-two-modes", "-out", out)
	if status != 0 || !strings.Contains(stderr, "tempering.svg") || !strings.Contains(stderr, "trajectory.svg") {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	if n := strings.Count(stdout, "\n"); n != 2+2*len(modeSteps) {
		t.Errorf("%d lines of output, want two and one for each of %d flows:\n%s", n, 2*len(modeSteps), stdout)
	}
	for _, name := range []string{"tempering.svg", "trajectory.svg"} {
		sameFigure(t, filepath.Join("figures", name), filepath.Join(out, name))
	}
	for name, want := range map[string][]string{
		"tempering.svg":  {"no tempering", "temperature 9", "leapfrog steps K", "variance of log p̂"},
		"trajectory.svg": {"no tempering", "temperature 9", "start z₀", "end z_K", "ends in the other"},
	} {
		svg, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(svg), w) {
				t.Errorf("%s does not say %q", name, w)
			}
		}
	}
	stdout, _, status = gaussianCommand(t.Context(), "-two-modes", "-json", "-out", out)
	var rows []map[string]float64
	for dec := json.NewDecoder(strings.NewReader(stdout)); dec.More(); {
		var row map[string]float64
		if err := dec.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if status != 0 || len(rows) != 2*len(modeSteps) || rows[0]["k"] != 4 || rows[0]["inv_sqrt_beta0"] != 3 || !(rows[0]["elbo"] < 0) {
		t.Errorf("status %d, %d rows, the first %v", status, len(rows), rows[0])
	}
}

// sameFigure holds a figure against the one that is checked in: numbers may differ by a
// tenth of a pixel, as other processors round otherwise.
func sameFigure(t *testing.T, want, got string) {
	t.Helper()
	number := regexp.MustCompile(`[0-9]+\.[0-9]`)
	var text [2]string
	var numbers [2][]string
	for i, name := range []string{want, got} {
		svg, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[i], numbers[i] = number.ReplaceAllString(string(svg), "0"), number.FindAllString(string(svg), -1)
	}
	if text[0] != text[1] {
		t.Errorf("%s is drawn otherwise than %s, which was checked in:\n%s", got, want, cmp.Diff(text[0], text[1]))
		return
	}
	for i := range numbers[0] {
		a, errA := strconv.ParseFloat(numbers[0][i], 64)
		b, errB := strconv.ParseFloat(numbers[1][i], 64)
		if errA != nil || errB != nil || !(math.Abs(a-b) <= 0.11) {
			t.Fatalf("%s has %s where %s, which was checked in, has %s", got, numbers[1][i], want, numbers[0][i])
		}
	}
}

func TestDivergenceStopsWithStatus1AndNoNaN(t *testing.T) {
	stdout, stderr, status := gaussianCommand(t.Context(), append(quick, "-d", "2", "-methods", "vb,hvae-k1", "-lr", "1e5")...)
	if status != 1 || strings.Contains(stdout, "NaN") || !strings.Contains(stderr, "diverged at iteration") || !strings.Contains(stderr, "log_sigma = [") {
		t.Errorf("status %d\nstdout %s\nstderr %s", status, stdout, stderr)
	}
}

func TestInterruptExits130AndSaysWhatIsKept(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stdout, stderr, status := gaussianCommand(ctx, "-d", "5")
	if status != 130 || stdout != "" || !strings.Contains(stderr, "of 70 runs were finished") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

func TestAFullDiskIsStatus1(t *testing.T) {
	var stderr bytes.Buffer
	status := program.Run(t.Context(), append(quick, "-d", "2", "-methods", "vb"), brokenWriter{}, &stderr)
	if status != 1 || !strings.Contains(stderr.String(), "cannot write results: disk full") {
		t.Errorf("status %d, stderr %q", status, stderr.String())
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func FuzzParse(f *testing.F) {
	f.Add("-d", "1,2,3")
	f.Add("-methods", "vb,hvae-k1")
	f.Add("-lr", "1e-3")
	f.Fuzz(func(t *testing.T, flag, value string) {
		o, err := parse([]string{flag, value})
		if err != nil {
			return
		}
		// What is accepted can be run.
		if len(o.dims) == 0 || len(o.methods) == 0 || o.datasets < 1 || o.config.Points < 2 || o.config.Iterations < 1 || o.config.Draws < 1 || !(o.config.Rate > 0) {
			t.Errorf("%q %q gives %+v", flag, value, o)
		}
		for _, d := range o.dims {
			if d < 1 || d > maxDims {
				t.Errorf("%q %q gives the dimension %d", flag, value, d)
			}
		}
	})
}
