package delivery

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
)

// logSettings are the settings of an endpoint of kind log.
type logSettings struct {
	Common

	// MaxBytes is how long a file grows before the next one is begun. Default: 100 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Files is how many old files are kept beside it. Default: 5.
	Files *int `json:"files,omitempty"`
}

const (
	defaultLogBytes = 100 << 20
	defaultLogFiles = 5
	maxLogFiles     = 1000
)

// logs are the files of the endpoints of kind log. Endpoints that name one file, be it by a
// symbolic link, share its writer.
type logs struct {
	dir string

	mu      sync.Mutex // guards the fields below, and the users of each writer
	sinks   map[*logFile]bool
	writers map[string]*logWriter
}

func newLogs(dir string) *logs {
	return &logs{dir: dir, sinks: make(map[*logFile]bool), writers: make(map[string]*logWriter)}
}

// logFile is a sink that appends JSON lines to a file.
type logFile struct {
	logs *logs
	path string
	keep logLimits

	mu     sync.Mutex // guards writer; held while writing, and taken before that of the writer, and that before that of logs
	writer *logWriter // nil before the first delivery
}

// kind makes log files of the settings of endpoints.
func (l *logs) kind(target string, settings json.RawMessage) (Sink, error) {
	if target == "" || target != filepath.Base(target) || strings.HasPrefix(target, ".") || strings.ContainsAny(target, "\x00/\\") || len(target) > 200 {
		return nil, fmt.Errorf("target: %.80q is no name of a file in the directory of log files; want one such as events.jsonl", target)
	}
	if isOld(target) {
		return nil, fmt.Errorf("target: %.80q is what an old file of another endpoint may be called; want a name that does not end in .1 to .%d", target, maxLogFiles)
	}
	var s logSettings
	if err := DecodeSettings(settings, &s); err != nil {
		return nil, err
	}
	out := &logFile{logs: l, path: filepath.Join(l.dir, target), keep: logLimits{bytes: s.MaxBytes, files: defaultLogFiles}}
	if out.keep.bytes == 0 {
		out.keep.bytes = defaultLogBytes
	}
	if s.Files != nil {
		out.keep.files = *s.Files
	}
	if out.keep.bytes < 1024 || out.keep.files < 0 || out.keep.files > maxLogFiles {
		return nil, errors.New("settings: max_bytes is below 1,024, or files is not 0 to 1,000")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sinks[out] = true
	return out, nil
}

// isOld reports whether a name is that of an old file beside a log file.
func isOld(name string) bool {
	number := name[strings.LastIndexByte(name, '.')+1:]
	n, err := strconv.Atoi(number)
	return err == nil && n >= 1 && n <= maxLogFiles && strconv.Itoa(n) == number && number != name
}

// Deliver appends a line for each message, and returns once they are on the disk.
func (f *logFile) Deliver(_ context.Context, messages []Message) []Result {
	results := make([]Result, 0, len(messages))
	for len(messages) > 0 {
		n := together(messages)
		results, messages = append(results, f.append(messages[:n])...), messages[n:]
	}
	return results
}

func (f *logFile) append(messages []Message) []Result {
	results := make([]Result, len(messages))
	var lines bytes.Buffer
	for i := range messages {
		if err := json.Compact(&lines, messages[i].Data); err != nil { // a line must not have line ends
			results[i] = Result{Err: fmt.Errorf("message %s is not JSON: %w", messages[i].ID, err), Permanent: true}
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
		f.writer = f.logs.join(path)
	}
	return f.writer.write(lines, f.keep, func() logLimits { return f.logs.limits(path) })
}

// Close closes the file, unless another endpoint has it too.
func (f *logFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs.forget(f)
	return f.leaveLocked()
}

func (f *logFile) leaveLocked() error {
	w := f.writer
	if f.writer = nil; w == nil {
		return nil
	}
	return f.logs.leave(w)
}

// realPath returns where a file is when all symbolic links are followed. One that is missing is
// made, and so is its directory.
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

// join returns the only writer of a file, for one more user.
func (l *logs) join(path string) *logWriter {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.writers[path]
	if w == nil {
		w = &logWriter{path: path}
		l.writers[path] = w
	}
	w.users++
	return w
}

// leave is the inverse of join. The last one closes the file.
func (l *logs) leave(w *logWriter) error {
	l.mu.Lock()
	w.users--
	last := w.users == 0
	if last {
		delete(l.writers, w.path)
	}
	l.mu.Unlock()
	if !last {
		return nil
	}
	return w.close()
}

func (l *logs) forget(f *logFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sinks, f)
}

// limits returns how much is kept of a file: as much as any endpoint wants that names it, whether
// it has delivered something or not.
func (l *logs) limits(path string) (most logLimits) {
	l.mu.Lock()
	sinks := slices.Collect(maps.Keys(l.sinks))
	l.mu.Unlock()
	for _, f := range sinks {
		if name, err := filepath.EvalSymlinks(f.path); err == nil && name == path {
			most.bytes, most.files = max(most.bytes, f.keep.bytes), max(most.files, f.keep.files)
		}
	}
	return most
}
