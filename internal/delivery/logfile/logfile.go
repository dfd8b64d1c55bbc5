// Package logfile appends messages as JSON lines to files of one directory, and rotates them.
package logfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// settings are the settings of an endpoint of kind log.
type settings struct {
	sink.Settings

	// MaxBytes is the size at which a file is rotated. Default: 100 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Files is how many rotated files are kept. Default: 5.
	Files *int `json:"files,omitempty"`
}

const (
	defaultBytes = 100 << 20
	defaultFiles = 5
	maxFiles     = 1000
)

// directory is the directory of all log files. Endpoints that name the same file, perhaps by a
// symbolic link, share its writer.
type directory struct {
	path string

	mu      sync.Mutex // guards the fields below, and the users of each writer
	sinks   map[*logFile]bool
	writers map[string]*writer
}

// logFile is a sink that appends to a file.
type logFile struct {
	sink.Settings

	dir  *directory
	path string
	keep limits

	mu     sync.Mutex // guards writer; held while writing. Lock order: this, the writer's, the directory's
	writer *writer    // nil before the first delivery
}

// Kind returns the kind of sinks that append to the files of a directory. If dir is empty, there can
// be no such sink.
func Kind(dir string) sink.Kind {
	d := &directory{path: dir, sinks: make(map[*logFile]bool), writers: make(map[string]*writer)}
	return d.kind
}

func (d *directory) kind(target string, text json.RawMessage) (sink.Sink, error) {
	if d.path == "" {
		return nil, errors.New("kind: this process is not configured with a directory for log files")
	}
	if target == "" || target != filepath.Base(target) || strings.HasPrefix(target, ".") || strings.ContainsAny(target, "\x00/\\") || len(target) > 200 {
		return nil, fmt.Errorf("target: %.80q is no name of a file in the directory of log files; want one such as events.jsonl", target)
	}
	if isRotated(target) {
		return nil, fmt.Errorf("target: %.80q may be the name of another endpoint's rotated file; want a name that does not end in .1 to .%d", target, maxFiles)
	}
	files := defaultFiles
	s := settings{Files: &files}
	if err := sink.Decode(text, &s); err != nil {
		return nil, err
	}
	if s.MaxBytes == 0 {
		s.MaxBytes = defaultBytes
	}
	if s.Files == nil { // null
		s.Files = &files
	}
	if s.MaxBytes < 1024 || *s.Files < 0 || *s.Files > maxFiles {
		return nil, errors.New("settings: max_bytes is below 1,024, or files is not 0 to 1,000")
	}
	out := &logFile{Settings: s.Settings, dir: d, path: filepath.Join(d.path, target), keep: limits{bytes: s.MaxBytes, files: *s.Files}}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sinks[out] = true
	return out, nil
}

// isRotated reports whether a name may be that of a rotated file.
func isRotated(name string) bool {
	number := name[strings.LastIndexByte(name, '.')+1:]
	n, err := strconv.Atoi(number)
	return err == nil && n >= 1 && n <= maxFiles && strconv.Itoa(n) == number && number != name
}

// Deliver implements [sink.Sink]. It appends a line for each message, and returns once they are on
// the disk.
func (f *logFile) Deliver(_ context.Context, messages []sink.Message) []sink.Result {
	results := make([]sink.Result, 0, len(messages))
	for len(messages) > 0 {
		n := sink.Together(messages)
		results, messages = append(results, f.append(messages[:n])...), messages[n:]
	}
	return results
}

func (f *logFile) append(messages []sink.Message) []sink.Result {
	results := make([]sink.Result, len(messages))
	var lines bytes.Buffer
	for i := range messages {
		if err := json.Compact(&lines, messages[i].Data); err != nil { // which also removes line ends
			results[i] = sink.Result{Err: fmt.Errorf("message %s is not JSON: %w", messages[i].ID, err), Permanent: true}
			continue
		}
		lines.WriteByte('\n')
	}
	err := f.write(lines.Bytes())
	for i := range results {
		if results[i].Err == nil {
			results[i].Err = err
		}
	}
	return results
}

func (f *logFile) write(lines []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	path, err := realPath(f.path)
	if err != nil {
		return err
	}
	if f.writer == nil || f.writer.path != path {
		if err := f.leaveLocked(); err != nil {
			return err
		}
		f.writer = f.dir.join(path)
	}
	return f.writer.write(lines, f.keep, func() limits { return f.dir.limits(path) })
}

// Close implements [sink.Sink]. It closes the file unless another endpoint uses it.
func (f *logFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dir.forget(f)
	return f.leaveLocked()
}

func (f *logFile) leaveLocked() error {
	w := f.writer
	if f.writer = nil; w == nil {
		return nil
	}
	return f.dir.leave(w)
}

// realPath returns the path of a file without symbolic links. A missing file is created, and so is
// its directory.
func realPath(path string) (string, error) {
	name, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// join adds a user to the only writer of a file, and returns the writer.
func (d *directory) join(path string) *writer {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.writers[path]
	if w == nil {
		w = &writer{path: path}
		d.writers[path] = w
	}
	w.users++
	return w
}

// leave removes a user from a writer. The last one closes the file.
func (d *directory) leave(w *writer) error {
	d.mu.Lock()
	w.users--
	last := w.users == 0
	if last {
		delete(d.writers, w.path)
	}
	d.mu.Unlock()
	if !last {
		return nil
	}
	return w.close()
}

func (d *directory) forget(f *logFile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sinks, f)
}

// limits returns the greatest limits of all endpoints that name a file, including those that have not
// delivered anything yet.
func (d *directory) limits(path string) (most limits) {
	d.mu.Lock()
	sinks := slices.Collect(maps.Keys(d.sinks))
	d.mu.Unlock()
	for _, f := range sinks {
		if name, err := filepath.EvalSymlinks(f.path); err == nil && name == path {
			most.bytes, most.files = max(most.bytes, f.keep.bytes), max(most.files, f.keep.files)
		}
	}
	return most
}
