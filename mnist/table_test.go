package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hvae/bench/command"
)

// table1.sh must run the program for each row and seed, and must not leave a running program behind.
func TestTable1Script(t *testing.T) {
	path, err := filepath.Abs("table1.sh")
	noError(t, err)
	t.Chdir(t.TempDir())
	// The program stands for mnist. It adds its arguments to a log, and writes an evaluation. Seed 3 waits for a signal.
	noError(t, os.WriteFile("program", []byte(`#!/bin/sh
trap 'echo ended >>log; exit 143' TERM
echo "$*" >>log
case $1-$5 in
train-2) exit 1 ;;
train-3) while :; do sleep 0.01; done ;;
eval-*) mkdir -p "$3" && echo {} >"$3/evaluation.json" ;;
esac
`), 0o755))
	noError(t, os.Symlink(path, "link"))
	noError(t, os.MkdirAll("d/vae-8", 0o755))
	noError(t, os.MkdirAll("d/vae-9", 0o755))
	write(t, []byte("{}"), "d/vae-8/evaluation.json")
	write(t, nil, "d/vae-9/evaluation.json")
	const usage = "usage: table1.sh DIR [ROWS [SEEDS]]\n"
	train := func(row string, seed int) string {
		return fmt.Sprintf("train -row %s -seed %d -out d/%s-%[2]d -resume -lr 0.1\n", row, seed, row)
	}
	both := func(row string, seed int) string {
		return train(row, seed) + fmt.Sprintf("eval -checkpoint d/%s-%d -seed %[2]d -o d/%[1]s-%[2]d/evaluation.json -limit 7\n", row, seed)
	}
	for _, c := range []struct {
		args, output, log string
		status            int
	}{
		{"", usage, "", 2},
		{"-d", usage, "", 2},
		{"d vae 1", "", both("vae", 1) + "table d\n", 0},
		{"d vae 1", "", "table d\n", 0},
		{"d vae,hvae 2,4", "", train("vae", 2) + train("hvae", 2) + both("vae", 4) + both("hvae", 4) + "table d\n", 1},
		{"d vae 8,9", "", both("vae", 9) + "table d\n", 0}, // an empty evaluation is not valid
		{"d vae 3,5", "", train("vae", 3) + "ended\n", 143},
	} {
		os.Remove("log")
		var args []string
		for arg := range strings.FieldsSeq(c.args) {
			args = append(args, strings.ReplaceAll(arg, ",", " "))
		}
		script := exec.Command("sh", append([]string{"./link"}, args...)...)
		script.Env = append(os.Environ(), "MNIST=./program", "TRAIN=-lr 0.1", "EVAL=-limit 7")
		var output strings.Builder
		script.Stdout, script.Stderr = &output, &output
		noError(t, script.Start())
		for c.status == 143 && script.ProcessState == nil {
			log, _ := os.ReadFile("log")
			if len(log) > 0 {
				script.Process.Signal(syscall.SIGTERM)
				break
			}
			time.Sleep(time.Millisecond)
		}
		script.Wait()
		log, _ := os.ReadFile("log")
		status := script.ProcessState.ExitCode()
		if status != c.status || output.String() != c.output || string(log) != c.log {
			t.Errorf("table1.sh %s: status %d, output %q, log:\n%s\nwant status %d, %q:\n%s",
				c.args, status, output.String(), log, c.status, c.output, c.log)
		}
	}
	all := exec.Command("sh", "./link", "d", "", "1")
	all.Env = append(os.Environ(), "MNIST=./program")
	os.Remove("log")
	err = all.Run()
	log := string(read(t, "log"))
	if err != nil || strings.Count(log, "train") != 26 { // all rows of Table 1 except vae
		t.Errorf("error %v, log:\n%s", err, log)
	}
}

type full struct{ io.Writer }

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestTableThatCannotBePrintedIsAFailure(t *testing.T) {
	folder := t.TempDir()
	noError(t, os.CopyFS(folder, os.DirFS("results/fixed-validation-noise")))
	var stderr strings.Builder
	status := command.Run(t.Context(), "mnist", program, []string{"table", folder}, full{}, &stderr)
	if status != 1 || stderr.String() != "mnist: no space left on device\n" {
		t.Errorf("status %d, stderr %q", status, stderr.String())
	}
}
