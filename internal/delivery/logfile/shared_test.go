package logfile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery/logfile"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
)

// put delivers a message with a number of its sender to a log file.
func put(t *testing.T, s sink.Sink, from string, n int) {
	t.Helper()
	data := fmt.Sprintf(`{"from":%q,"n":%d,"pad":"%060d"}`, from, n, 0)
	for _, r := range s.Deliver(t.Context(), []sink.Message{sinktest.Message(fmt.Sprint(from, n), data)}) {
		if r.Err != nil {
			t.Errorf("%s %d: %v", from, n, r.Err)
		}
	}
}

// logged returns how often each sender's lines are in the log files of a directory, all of which
// must be JSON.
func logged(t *testing.T, dir string) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !f.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var got struct{ From string }
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Errorf("%s: %q: %v", f.Name(), line, err)
			}
			counts[got.From]++
		}
	}
	return counts
}

// A file that somebody moves away or deletes, with its directory or without, is made anew: what
// counts as delivered is in the file that has the name.
func TestLogFileTakenAway(t *testing.T) {
	for _, c := range []struct {
		name  string
		take  func(dir, file string) error
		finds int // of the two lines before and the two after
	}{
		{"deleted", func(_, file string) error { return os.Remove(file) }, 2},
		{"moved", func(_, file string) error { return os.Rename(file, file+".old") }, 4},
		{"replaced", func(_, file string) error {
			return errors.Join(os.Rename(file, file+".old"), os.WriteFile(file, nil, 0o600))
		}, 4},
		{"overwritten by another", func(_, file string) error {
			return errors.Join(os.WriteFile(file+".new", nil, 0o600), os.Rename(file+".new", file))
		}, 2},
		{"truncated", func(_, file string) error { return os.Truncate(file, 0) }, 2},
		{"deleted with its directory", func(dir, _ string) error { return os.RemoveAll(dir) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "logs")
			file := filepath.Join(dir, "events.jsonl")
			s := sinktest.New(t, logfile.Kind(dir), "events.jsonl", "")
			put(t, s, "a", 1)
			put(t, s, "a", 2)
			if err := c.take(dir, file); err != nil {
				t.Fatal(err)
			}
			put(t, s, "a", 3)
			put(t, s, "a", 4)
			text, err := os.ReadFile(file)
			if err != nil || strings.Count(string(text), "\n") != 2 || !strings.Contains(string(text), `"n":3`) || !strings.Contains(string(text), `"n":4`) {
				t.Errorf("the file has %q, %v, want the last two lines", text, err)
			}
			if n := logged(t, dir)["a"]; n != c.finds {
				t.Errorf("%d lines in all files, want %d", n, c.finds)
			}
		})
	}
}

// Two endpoints that name one file, whatever they call it, have one writer: none of them moves on
// or overwrites what the other one has delivered, and the greater limits count.
func TestLogFileShared(t *testing.T) {
	for _, c := range []struct{ name, other, link string }{
		{"same name", "events.jsonl", ""},
		{"link", "link.jsonl", "events.jsonl"},
		{"link with a dot", "link.jsonl", "./events.jsonl"},
		{"link around", "link.jsonl", "../logs/events.jsonl"},
		{"link to a link", "link.jsonl", "second.jsonl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "logs")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, to := range map[string]string{c.other: c.link, "second.jsonl": "events.jsonl"} {
				if c.link == "" {
					continue
				}
				if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			kind := logfile.Kind(dir)
			a := sinktest.New(t, kind, "events.jsonl", `{"max_bytes":2000,"files":30}`)
			b := sinktest.New(t, kind, c.other, `{"max_bytes":1024,"files":0}`)
			put(t, a, "a", 0) // a has the file open
			for i := range 40 {
				put(t, b, "b", i)
			}
			var both sync.WaitGroup
			for from, s := range map[string]sink.Sink{"a": a, "b": b} {
				both.Go(func() {
					for i := range 100 {
						put(t, s, from, i)
					}
				})
			}
			both.Wait()
			if got := logged(t, dir); got["a"] != 101 || got["b"] != 140 || len(got) != 2 {
				t.Errorf("the files have %v, want 101 of a and 140 of b", got)
			}
			if _, err := os.Stat(filepath.Join(dir, "events.jsonl.5")); err != nil {
				t.Errorf("it was not moved on: %v", err)
			}
		})
	}
}

// What an endpoint wants to be kept is kept also while only others deliver to its file, as after a
// restart, and until it is closed.
func TestLogFileSharedWithIdle(t *testing.T) {
	dir := t.TempDir()
	kind := logfile.Kind(dir)
	before := sinktest.New(t, kind, "events.jsonl", "")
	for i := range 10 {
		put(t, before, "a", i)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	kind = logfile.Kind(dir)
	idle, b := sinktest.New(t, kind, "events.jsonl", ""), sinktest.New(t, kind, "events.jsonl", `{"max_bytes":1024,"files":0}`)
	for i := range 20 {
		put(t, b, "b", i)
	}
	if got := logged(t, dir); got["a"] != 10 || got["b"] != 20 {
		t.Errorf("the files have %v, want 10 of a and 20 of b", got)
	}
	if err := idle.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, b, "b", 20)
	if got := logged(t, dir); got["a"] != 0 || got["b"] != 1 {
		t.Errorf("without the one that wants more, the files have %v, want 1 of b", got)
	}
}

// A link that is pointed elsewhere is followed.
func TestLogFileLinkMoves(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link.jsonl")
	point := func(to string) {
		t.Helper()
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	s := sinktest.New(t, logfile.Kind(dir), "link.jsonl", "")
	for i, to := range []string{"one.jsonl", "two.jsonl", "one.jsonl"} {
		point(to)
		put(t, s, to, i)
	}
	for name, want := range map[string]int{"one.jsonl": 2, "two.jsonl": 1} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Count(string(text), name) != want {
			t.Errorf("%s has %q, %v, want %d lines", name, text, err, want)
		}
	}
}

// What a crash has left of a line does no harm to the next one.
func TestLogFileTorn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "events.jsonl")
	if err := os.WriteFile(file, []byte("{\"n\":1}\n{\"n\":"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sinktest.New(t, logfile.Kind(dir), "events.jsonl", "")
	for _, data := range []string{`{"n":3}`, `{"n":4}`} {
		if r := s.Deliver(t.Context(), []sink.Message{sinktest.Message("m", data)}); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{\"n\":1}\n{\"n\":\n{\"n\":3}\n{\"n\":4}\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// The name of an old file is not one of an endpoint's: another one would move it on and delete it.
func TestLogFileName(t *testing.T) {
	kind := logfile.Kind(t.TempDir())
	for name, want := range map[string]bool{
		"events.jsonl": true, "events": true, "7": true, "events.1a": true, "events.0": true, "events.01": true, "events.1001": true, "events.2026": true,
		"events.jsonl.1": false, "events.1000": false, "a.5": false,
	} {
		if _, err := kind(name, nil); (err == nil) != want {
			t.Errorf("%s: %v, want it to be taken: %v", name, err, want)
		}
	}
}

// What keeps nothing, such as a pipe that nobody reads, is no log file: it neither counts as
// delivered nor keeps anybody waiting.
func TestLogFileNotRegular(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device":    func(path string) error { return os.Symlink("/dev/null", path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "events.jsonl")
			if err := put(file); err != nil {
				t.Fatal(err)
			}
			s := sinktest.New(t, logfile.Kind(dir), "events.jsonl", "")
			big := sinktest.Message("a:1", `{"pad":"`+strings.Repeat("x", 200_000)+`"}`) // more than a pipe holds
			results := make(chan []sink.Result, 1)
			go func() { results <- s.Deliver(t.Context(), []sink.Message{big}) }()
			select {
			case got := <-results:
				if err := got[0].Err; err == nil || got[0].Permanent || !strings.Contains(err.Error(), "is not a regular file") {
					t.Errorf("%v, want that it is no file", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("it waits for ever")
				if f, err := os.Open(file); err == nil { // somebody to read it, so that the test can end
					t.Cleanup(func() { _ = f.Close() })
					_, _ = io.Copy(io.Discard, f)
				}
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if got := s.Deliver(t.Context(), []sink.Message{big}); got[0].Err != nil {
				t.Errorf("with a file again: %v", got[0].Err)
			}
		})
	}
}
