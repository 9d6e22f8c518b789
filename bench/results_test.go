package bench

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The numbers in README.md are medians of the measurements in results/zen4.txt. Only the table of times on up to
// 16 processors is from results/xeon16.txt.
func TestREADMEMatchesTheMeasurements(t *testing.T) {
	b, err := os.ReadFile("results/zen4.txt")
	if err != nil {
		t.Fatal(err)
	}
	simd, plain, ok := strings.Cut(string(b), "$ HVAE_SIMD=none")
	if !ok {
		t.Fatal("results/zen4.txt contains no measurements of plain Go")
	}
	// median returns the median of the numbers that the group in pattern matches in text.
	median := func(text, pattern string) float64 {
		t.Helper()
		var all []float64
		for _, m := range regexp.MustCompile(`(?m)`+pattern).FindAllStringSubmatch(text, -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		if len(all) == 0 {
			t.Fatalf("results/zen4.txt does not contain %s", pattern)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	ms := func(text, name string) float64 {
		t.Helper()
		return median(text, `^`+name+`(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`) / 1e6
	}
	const executed = generator / 1_374_400.0 // share of the multiply-adds that are not multiplications by padding
	peak := func(name string) float64 {
		t.Helper()
		return median(simd, `^`+name+`(?:-\d+)?\s.*?([\d.]+) %peak`) * executed
	}
	b, err = os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := strings.Join(strings.Fields(string(b)), " ")
	contains := func(format string, args ...any) {
		t.Helper()
		if want := fmt.Sprintf(format, args...); !strings.Contains(readme, want) {
			t.Errorf("README.md does not contain %q", want)
		}
	}
	torch := func(K int) float64 {
		t.Helper()
		pattern := `^K=` + strconv.Itoa(K) + ` batch=100 threads=%d: median ([\d.]+) ms`
		return min(median(plain, fmt.Sprintf(pattern, 1)), median(plain, fmt.Sprintf(pattern, 2)))
	}
	vae, hvae, recompute := ms(simd, "BenchmarkTrainStep/VAE"), ms(simd, "BenchmarkTrainStep/HVAE-K10"), ms(simd, "BenchmarkTrainStepRecompute/HVAE-K10")
	contains("| VAE | %.1f ms | %.0f %% | %.0f ms | %.1f |", vae, peak("BenchmarkTrainStep/VAE"), torch(0), torch(0)/vae)
	contains("| HVAE, K = 10 | %.0f ms | %.0f %% | %.0f ms | %.1f |", hvae, peak("BenchmarkTrainStep/HVAE-K10"), torch(10), torch(10)/hvae)
	contains("| HVAE, K = 10, with `-recompute` | %.0f ms | %.0f %% | | |", recompute, peak("BenchmarkTrainStepRecompute/HVAE-K10"))
	fastest := func(K int) float64 {
		t.Helper()
		all := regexp.MustCompile(fmt.Sprintf(`K=%d .*min ([\d.]+)`, K)).FindAllStringSubmatch(plain, -1)
		if len(all) != 2 {
			t.Fatalf("results/zen4.txt contains %d measurements of PyTorch with K = %d, want 2", len(all), K)
		}
		a, _ := strconv.ParseFloat(all[0][1], 64)
		b, _ := strconv.ParseFloat(all[1][1], 64)
		return min(a, b)
	}
	contains("its fastest single steps take %.0f ms for the VAE and %.0f ms for the HVAE", fastest(0), fastest(10))
	contains("| NLL of two images with 1,000 samples, VAE | %.0f ms | %.0f %% | | |", ms(simd, "BenchmarkEvaluate/VAE"), peak("BenchmarkEvaluate/VAE"))
	contains("fused multiply-adds in registers: %.0f GFLOP/s", median(simd, `^BenchmarkPeak(?:-\d+)?\s.*?([\d.]+) GFLOP/s`))
	contains("a step takes %.0f %% more time", 100*(recompute/hvae-1))
	contains("Plain Go takes %.0f times as long", ms(plain, "BenchmarkGEMM/1024x1024x1024")/ms(simd, "BenchmarkGEMM/1024x1024x1024"))
	b, err = os.ReadFile("results/xeon16.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]string{"VAE": "VAE", "HVAE-K5": "HVAE, K = 5"} {
		line := "| " + row + " |"
		for _, processors := range []string{"", "-2", "-4", "-8", "-16"} {
			line += fmt.Sprintf(" %.1f ms |", median(string(b), `^BenchmarkTrainStep/`+name+processors+`\s+\d+\s+([\d.]+) ns/op`)/1e6)
		}
		contains("%s", line)
	}
	b, err = os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme = strings.Join(strings.Fields(string(b)), " ")
	contains("a training step of the VAE is %.0f times as fast as in PyTorch, and a step of an HVAE with K = 10 is %.0f times as fast", torch(0)/vae, torch(10)/hvae)
}
