package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"hvae/mnist/model"
)

// rowName returns the name of the row of Table 1 for a model, such as vae, hvae-k1-none or hvae-k10-free-varied. If
// K > 1, the name ends in shared (all steps have the same ε) or varied (each has its own).
func rowName(c model.Config) string {
	switch {
	case c.Kind == "hvae" && c.K > 1:
		eps := map[bool]string{false: "shared", true: "varied"}[c.VaryEps]
		return fmt.Sprintf("hvae-k%d-%s-%s", c.K, c.Tempering, eps)
	case c.Kind == "hvae":
		return fmt.Sprintf("hvae-k%d-%s", c.K, c.Tempering)
	case c.Importance:
		return fmt.Sprintf("vae-l%d", c.Draws)
	case c.Draws > 0:
		return fmt.Sprintf("vae-m%d", c.Draws)
	}
	return c.Kind
}

// parseRow returns the settings of the named row.
func parseRow(name string) (model.Settings, error) {
	s, eps := model.Defaults(), ""
	s.Kind, _, _ = strings.Cut(name, "-")
	if s.Kind == "hvae" {
		fmt.Sscanf(strings.ReplaceAll(name, "-", " "), "hvae k%d %s %s", &s.K, &s.Tempering, &eps)
		s.VaryEps = eps == "varied"
	} else {
		n, _ := fmt.Sscanf(name, "vae-l%d", &s.Draws)
		s.Importance = n == 1
		fmt.Sscanf(name, "vae-m%d", &s.Draws)
	}
	if rowName(s.Config) != name || s.Check() != nil {
		return s, fmt.Errorf("there is no row %.40q: a row must be vae, vae-lL (L importance samples), vae-mL (mean of L draws), hvae-k1-TEMPERING or hvae-kK-TEMPERING-EPS, where K > 1, TEMPERING is none, fixed, free or untied, and EPS is shared or varied", name)
	}
	return s, nil
}

// differences compares two settings, except those whose flags are listed in free. It formats the name of the flag and
// both values of each setting that differs.
func differences(format string, a, b model.Settings, free []string) (all []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for _, field := range reflect.VisibleFields(x.Type()) {
		name := field.Tag.Get("json") // "" for the embedded struct
		u, v := x.FieldByIndex(field.Index), y.FieldByIndex(field.Index)
		if name != "" && !slices.Contains(free, name) && !u.Equal(v) {
			all = append(all, fmt.Sprintf(format, name, u, v))
		}
	}
	return all
}
