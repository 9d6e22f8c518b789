package command

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A device or a FIFO must be refused without reading from it, because the read may not end.
func TestReadFileReadsOnlyRegularFilesUpToTheLimit(t *testing.T) {
	t.Chdir(t.TempDir())
	err := errors.Join(os.WriteFile("file", []byte("12345"), 0o600), os.Mkdir("folder", 0o755), os.Symlink("file", "link"))
	if runtime.GOOS != "windows" {
		err = errors.Join(err, exec.Command("mkfifo", "fifo").Run(), os.Symlink("/dev/zero", "device"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{ // part of the error; empty if the file is read
		"file": "", "link": "", "folder": "folder: it is not a regular file", "missing": "open missing",
		"fifo": "fifo: it is not a regular file", "device": "device: it is not a regular file",
	} {
		if _, err := os.Lstat(name); err != nil && name != "missing" {
			continue // Windows
		}
		b, info, err := ReadFile(name, 5)
		accepted := err == nil && string(b) == "12345" && info.Size() == 5
		refused := err != nil && strings.Contains(err.Error(), want)
		if want == "" && !accepted || want != "" && !refused {
			t.Errorf("%s: %q, error %v; want an error with %q", name, b, err, want)
		}
	}
	if _, _, err := ReadFile("file", 4); err == nil || !strings.Contains(err.Error(), "file: it has 5 bytes, but should have at most 4") {
		t.Errorf("a file above the limit: error %v", err)
	}
}

func TestGunzipStopsAtTheLimitAndIgnoresPadding(t *testing.T) {
	member := func(data string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write([]byte(data))
		z.Close()
		return b.Bytes()
	}
	digits, zeros := member("12345"), make([]byte, 600)
	damaged := slices.Clone(digits)
	damaged[len(damaged)-5]++ // in the checksum
	for _, c := range []struct {
		file      []byte
		limit     int64
		want, err string // contents, or part of the error
	}{
		{digits, 5, "12345", ""},
		{slices.Concat(digits, zeros), 5, "12345", ""},
		{slices.Concat(digits, member(""), digits, zeros[:1]), 10, "1234512345", ""},
		{digits, 4, "", "more than 4 bytes"},
		{slices.Concat(digits, digits), 9, "", "more than 9 bytes"},
		{member(strings.Repeat("x", 1<<20))[:500], 1000, "", "more than 1000 bytes"}, // the end is not reached
		{slices.Concat(digits, zeros, digits), 10, "", "invalid header"},
		{damaged, 5, "", "invalid checksum"},
		{digits[:len(digits)-1], 5, "", "unexpected EOF"},
		{nil, 5, "", "EOF"},
	} {
		b, err := Gunzip(c.file, c.limit)
		if string(b) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%x, limit %d: %q, error %v; want %q, %q", c.file[:min(len(c.file), 99)], c.limit, b, err, c.want, c.err)
		}
	}
}

func TestWriteFileReplacesOrCreatesAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("folder", 0o755); err != nil {
		t.Fatal(err)
	}
	file := strings.Repeat("x", 251) + ".svg" // the longest name that most file systems allow
	killed := errors.New("killed")
	kill := func(temporary, _ string) error {
		matches, _ := filepath.Glob(Temporary)
		if len(matches) != 1 || matches[0] != temporary {
			t.Errorf("the temporary file is %s, but the pattern matches %v", temporary, matches)
		}
		return killed
	}
	for _, c := range []struct {
		name, data string
		mode       fs.FileMode // of the file, before and after; 0 if there is no file
		place      func(temporary, name string) error
		writable   string // part of the error from Writable; empty for no error
		want       string // contents of the file afterwards
	}{
		{file, "first, and longer", 0, os.Rename, "", "first, and longer"},
		{file, "second", 0o600, os.Rename, "", "second"},
		{file, "third", 0o666, os.Rename, "", "third"},
		{file, "fourth", 0o666, os.Link, "", "third"},
		{file, "fifth", 0o666, kill, "", "third"},
		{file, "sixth", 0o444, os.Rename, "xxx.svg: it is write-protected", "third"},
		{"folder", "", 0, os.Rename, "cannot write folder: it is not a regular file", "third"},
		{"missing/file", "", 0, os.Rename, "cannot write missing/file", "third"},
		{"xx" + file, "", 0, os.Rename, "cannot write xx", "third"}, // too long
	} {
		if c.mode != 0 {
			os.Chmod(file, c.mode)
		}
		err := Writable(c.name)
		if (err == nil) != (c.writable == "") || err != nil && !strings.Contains(err.Error(), c.writable) {
			t.Errorf("%.9s: error %v, want %q", c.name, err, c.writable)
		}
		err = WriteFile(c.name, []byte(c.data), c.place)
		b, _ := os.ReadFile(file)
		info, _ := os.Stat(file)
		entries, _ := os.ReadDir(".")
		if (err == nil) != (string(b) == c.data) || string(b) != c.want || len(entries) != 2 {
			t.Errorf("%s: error %v, contents %q, folder %v; want %q", c.data, err, b, entries, c.want)
		}
		if c.mode != 0 && info.Mode() != c.mode && runtime.GOOS != "windows" {
			t.Errorf("%s: the mode is %v, want %v", c.data, info.Mode(), c.mode)
		}
	}
}
