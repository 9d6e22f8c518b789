package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/command"
)

// The scripts in testdata test the program through its command line, output and files. Each script runs in a new folder
// that contains the dataset "images" (40 training, 8 validation and 6 test images). Each line is a command:
//
//	mnist ARGS                run the program, which must exit with status 0
//	status N mnist ARGS       run the program, which must exit with status N
//	refused N mnist ARGS      like status, but the program must print a single line, and must not touch any file
//	at TEXT: COMMAND; …       execute the commands when the next run prints TEXT; the command interrupt cancels this run
//	stdout, stderr REGEXP     the output of the last run of the program must match
//	same A B                  the files A and B, or all files in the folders A and B, must be equal, except for times
//	COMMAND                   run any other line as a shell command
//
// A refused command must print its line to stderr. Lines that begin with "note:" do not count. $TRAIN stands for the
// train command with the flags of a short run, and $HVAE for the flags of an HVAE.
//
// In shell commands, PROGRAM=1 $MNIST runs the program as a process, and $SOURCE is the folder mnist. Each script runs
// in a process, because a process has only one working directory. Its environment contains SCRIPT=1, and the folder of
// the dataset in IMAGES.
func TestScripts(t *testing.T) {
	executable, err := os.Executable()
	noError(t, err)
	source, err := os.Getwd()
	noError(t, err)
	images := os.Getenv("IMAGES")
	if images == "" {
		images = ownImages(t, 48, 6).Folder
	}
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) < 4 {
		t.Fatalf("there are %d scripts (%v)", len(scripts), err)
	}
	for _, name := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text := string(read(t, name))
			if os.Getenv("SCRIPT") == "" {
				t.Parallel()
				c := exec.Command(executable, "-test.run=^TestScripts$/^"+strings.TrimSuffix(filepath.Base(name), ".txt")+"$")
				c.Env = append(os.Environ(), "SCRIPT=1", "MNIST="+executable, "SOURCE="+source, "IMAGES="+images)
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			t.Chdir(t.TempDir())
			noError(t, os.CopyFS("images", os.DirFS(images)))
			s := script{t: t}
			number := 0
			for line := range strings.Lines(text) {
				number++
				line = strings.TrimSpace(line)
				if line == "" || line[0] == '#' {
					continue
				}
				if err := s.do(strings.NewReplacer(
					"$TRAIN", "train -data images -latent 3 -train 24 -batch 12 -epochs 1",
					"$HVAE", "-model hvae -K 1 -tempering free -vary-eps",
				).Replace(line)); err != nil {
					t.Fatalf("%s:%d: %s: %v", name, number, line, err)
				}
			}
		})
	}
}

// TestMain runs the program instead of the tests if the environment contains PROGRAM.
func TestMain(m *testing.M) {
	if os.Getenv("PROGRAM") != "" {
		main()
	}
	os.Exit(m.Run())
}

// A script holds the state of a test script while it runs.
type script struct {
	t              *testing.T
	stdout, stderr string // output of the last run of the program
	text, action   string // arguments of the last command "at"
}

// A trigger is a writer that calls a function as soon as a given text has been written to it.
type trigger struct {
	printed bytes.Buffer
	text    string
	do      func()
	once    sync.Once
}

func (w *trigger) Write(b []byte) (int, error) {
	w.printed.Write(b)
	if w.text != "" && bytes.Contains(w.printed.Bytes(), []byte(w.text)) {
		w.once.Do(w.do)
	}
	return len(b), nil
}

func (s *script) do(line string) error {
	name, rest, _ := strings.Cut(line, " ")
	args := append(strings.Fields(rest), "", "")
	switch name {
	case "mnist":
		return s.program(0, strings.Fields(rest))
	case "status", "refused":
		status, err := strconv.Atoi(args[0])
		noError(s.t, err)
		before := files(s.t, ".", sizeAndTime)
		err = s.program(status, strings.Fields(rest)[2:])
		if name == "status" || err != nil {
			return err
		}
		lines := regexp.MustCompile(`(?m)^note: .*\n`).ReplaceAllString(s.stderr, "")
		if s.stdout != "" || strings.Count(lines, "\n") != 1 {
			return fmt.Errorf("stdout %q, stderr %q; want one line on stderr", s.stdout, s.stderr)
		}
		if !maps.Equal(before, files(s.t, ".", sizeAndTime)) {
			return errors.New("the command changed files")
		}
	case "at":
		s.text, s.action, _ = strings.Cut(rest, ": ")
	case "stdout", "stderr":
		output := map[string]string{"stdout": s.stdout, "stderr": s.stderr}[name]
		if !regexp.MustCompile(rest).MatchString(output) {
			return fmt.Errorf("it is %q", output)
		}
	case "same":
		if diff := cmp.Diff(files(s.t, args[0], withoutTimes), files(s.t, args[1], withoutTimes)); diff != "" {
			return errors.New(diff)
		}
	default:
		output, err := exec.Command("sh", "-c", line).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
	}
	return nil
}

// program runs the program, which must exit with the given status.
func (s *script) program(status int, args []string) error {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	action := s.action
	act := func() {
		for command := range strings.SplitSeq(action, "; ") {
			if command == "interrupt" {
				cancel()
			} else if err := s.do(command); err != nil {
				s.t.Errorf("%s: %v", command, err)
			}
		}
	}
	stdout, stderr := &trigger{text: s.text, do: act}, &trigger{text: s.text, do: act}
	s.text, s.action = "", ""
	got := command.Run(ctx, "mnist", program, args, stdout, stderr)
	s.stdout, s.stderr = stdout.printed.String(), stderr.printed.String()
	if got != status {
		return fmt.Errorf("status %d, stdout %q, stderr %q", got, s.stdout, s.stderr)
	}
	return nil
}

// files returns describe(path) for all files below a folder, keyed by relative path.
func files(t *testing.T, folder string, describe func(path string) (string, error)) map[string]string {
	t.Helper()
	all := map[string]string{}
	noError(t, filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		noError(t, err)
		all[name], err = describe(path)
		return err
	}))
	return all
}

// sizeAndTime describes a file by its size, mode and modification time, which change if the program replaces it.
func sizeAndTime(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(info.Size(), info.Mode(), info.ModTime()), nil
}

// withoutTimes returns the contents of a file without times, or the hash of a binary file.
func withoutTimes(path string) (string, error) {
	b, err := os.ReadFile(path)
	switch filepath.Base(path) {
	case stateFile:
		b, failed := command.Gunzip(b, maxSize)
		rest := bytes.NewBuffer(b)
		var header state
		err = errors.Join(err, failed, gob.NewDecoder(rest).Decode(&header))
		for i := range header.Metrics {
			header.Metrics[i].Seconds = 0
		}
		return fmt.Sprintf("%#v %x", header, maphash.Bytes(hashSeed, rest.Bytes())), err
	case metricsFile:
		return seconds.ReplaceAllString(string(b), ""), err
	case curveFile, evaluationFile:
		return string(b), err
	}
	return fmt.Sprintf("%x", maphash.Bytes(hashSeed, b)), err
}

var hashSeed = maphash.MakeSeed()

var seconds = regexp.MustCompile(`"seconds":[0-9.e+-]+`)
