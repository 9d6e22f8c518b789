package command

import (
	"maps"
	"testing"
)

// Set must accept the results of Values, because the experiments store them in files and restore the
// flags from these files.
func TestSetAcceptsValues(t *testing.T) {
	var n int
	var seed uint64
	var rate float64
	var text string
	var on bool
	f := NewFlags()
	f.Count(&n, "n", 3, 1, "")
	f.Seed(&seed, "")
	f.Rate(&rate, 0.5, "")
	f.StringVar(&text, "text", "a", "")
	f.BoolVar(&on, "on", false, "")
	if want := map[string]string{"n": "3", "seed": "1", "lr": "0.5", "text": "a", "on": "false"}; !maps.Equal(f.Values(), want) {
		t.Errorf("the default values are %v, want %v", f.Values(), want)
	}
	if err := f.Parse([]string{"-n", "1", "-seed", "18446744073709551615", "-lr", "0.00123456789012345", "-text", "b c", "-on"}); err != nil {
		t.Fatal(err)
	}
	values := f.Values()
	n, seed, rate, text, on = 0, 0, 0, "", false
	for name, v := range values {
		if err := f.Set(name, v); err != nil {
			t.Error(err)
		}
	}
	if n != 1 || seed != 1<<64-1 || rate != 0.00123456789012345 || text != "b c" || !on {
		t.Errorf("Set with the values %v sets %d, %d, %v, %q, %v", values, n, seed, rate, text, on)
	}
}
