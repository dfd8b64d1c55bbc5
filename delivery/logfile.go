package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
)

// logFile is a sink that appends JSON lines to a file. When it gets too long it becomes NAME.1, that NAME.2, and so on.
type logFile struct {
	path  string
	max   int64
	files int

	mu   sync.Mutex // guards the fields below; held while writing
	file *os.File   // nil before the first delivery and after an error
	size int64
}

// logKind makes log files in a directory.
func logKind(dir string) Kind {
	return func(target string, settings json.RawMessage) (Sink, error) {
		if target == "" || target != filepath.Base(target) || strings.HasPrefix(target, ".") || strings.ContainsAny(target, "\x00/\\") || len(target) > 200 {
			return nil, fmt.Errorf("target: %.80q is no name of a file in the directory of log files; want one such as events.jsonl", target)
		}
		var s logSettings
		if err := DecodeSettings(settings, &s); err != nil {
			return nil, err
		}
		out := &logFile{path: filepath.Join(dir, target), max: s.MaxBytes, files: defaultLogFiles}
		if out.max == 0 {
			out.max = defaultLogBytes
		}
		if s.Files != nil {
			out.files = *s.Files
		}
		if out.max < 1024 || out.files < 0 || out.files > 1000 {
			return nil, errors.New("settings: max_bytes is below 1,024, or files is not 0 to 1,000")
		}
		return out, nil
	}
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
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.writeLocked(lines.Bytes())
	for i := range results {
		if results[i].Err == nil {
			results[i].Err = err
		}
	}
	return results
}

// writeLocked appends lines, all or none. Opening makes the directory.
func (f *logFile) writeLocked(lines []byte) error {
	if f.file != nil && f.size > 0 && f.size+int64(len(lines)) > f.max {
		if err := f.rotateLocked(); err != nil {
			return err
		}
	}
	if f.file == nil {
		if err := f.openLocked(); err != nil {
			return err
		}
	}
	n, err := f.file.Write(lines)
	if err == nil {
		err = f.file.Sync()
	}
	if err == nil {
		f.size += int64(n)
		return nil
	}
	err = errors.Join(err, f.file.Truncate(f.size), f.file.Close())
	f.file = nil
	return err
}

func (f *logFile) openLocked() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.size = file, info.Size()
	return nil
}

// rotateLocked moves the files on by one.
func (f *logFile) rotateLocked() error {
	err := f.file.Close()
	if f.file = nil; err != nil {
		return err
	}
	name := func(i int) string { return fmt.Sprintf("%s.%d", f.path, i) }
	if f.files == 0 {
		return os.Remove(f.path)
	}
	for i := f.files - 1; i > 0; i-- {
		if err := os.Rename(name(i), name(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(f.path, name(1))
}

// Close closes the file.
func (f *logFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
