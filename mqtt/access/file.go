package access

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/holter-iot/holter/internal/filestate"
)

// errChanging is why a file is read again a little later.
var errChanging = errors.New("it is just being written; try again")

// file is a file that is read again when it has changed.
type file struct {
	kind  string      // users or rules
	path  string      // "" if there is none
	most  int         // bytes
	seen  os.FileInfo // of what was read last, right or wrong
	wrong string      // what is wrong with it, and was logged
}

// load reads a file.
func load[T any](f *file, parse func(path, text string) (T, error)) (v T, err error) {
	text, err := f.read()
	if err != nil {
		return v, fmt.Errorf("access: %s file %s: %w", f.kind, f.path, err)
	}
	return parse(f.path, text)
}

// reload reads a file again if it has changed. changed is false if it has not, or what it holds
// cannot be taken, which is logged.
func reload[T any](f *file, log *slog.Logger, parse func(path, text string) (T, error)) (v T, changed bool) {
	if f.path == "" {
		return v, false
	}
	if info, err := os.Stat(f.path); err == nil && filestate.Same(info, f.seen) {
		return v, false
	}
	v, err := load(f, parse)
	switch {
	case err == nil:
		f.wrong = ""
		log.Info("file of the MQTT server read again", "kind", f.kind, "path", f.path)
		return v, true
	case !errors.Is(err, errChanging) && err.Error() != f.wrong:
		f.wrong = err.Error()
		log.Warn("cannot take the changed file of the MQTT server; what it said before stays in effect", "kind", f.kind, "error", err)
	}
	return v, false
}

// read returns what the file holds. Its errors do not say the path.
func (f *file) read() (string, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return "", withoutPath(err)
	}
	text, err := readAtMost(f.path, f.most)
	if err != nil {
		return "", withoutPath(err)
	}
	if now, err := os.Stat(f.path); err != nil || !filestate.Same(now, info) {
		return "", errChanging
	}
	f.seen = info
	if len(text) > f.most {
		return "", fmt.Errorf("it has more than %d bytes", f.most)
	}
	return string(text), nil
}

// readAtMost returns a file, or the first most+1 bytes of a larger one.
func readAtMost(path string, most int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	return io.ReadAll(io.LimitReader(file, int64(most)+1))
}

func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
