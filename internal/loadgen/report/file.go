package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Names of the files that [WriteFiles] writes.
const (
	JSONFile = "report.json"
	HTMLFile = "report.html"
	TextFile = "summary.txt"
)

// WriteFiles writes all of a report into a directory, which it makes, and returns their paths. What
// is there already is replaced. A file that cannot be written does not keep the others from being
// written.
func WriteFiles(dir string, f *Final) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("report: make the directory %s: %w", dir, err)
	}
	var paths []string
	var errs []error
	for _, file := range []struct {
		name  string
		write func(io.Writer, *Final) error
	}{{JSONFile, WriteJSON}, {HTMLFile, WriteHTML}, {TextFile, WriteSummary}} {
		path := filepath.Join(dir, file.name)
		if err := writeFile(path, f, file.write); err != nil {
			errs = append(errs, err)
			continue
		}
		paths = append(paths, path)
	}
	return paths, errors.Join(errs...)
}

func writeFile(path string, f *Final, write func(io.Writer, *Final) error) error {
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	buffered := bufio.NewWriter(out)
	if err := errors.Join(write(buffered, f), buffered.Flush(), out.Close()); err != nil {
		return fmt.Errorf("report: write %s: %w", path, err)
	}
	return nil
}

// WriteJSON writes all that is known of a run, for programs; [Schema] says in which form.
func WriteJSON(out io.Writer, f *Final) error {
	return json.NewEncoder(out).Encode(f)
}
