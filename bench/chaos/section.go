package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// writeSection puts text between the markers of a database's section in a file, at one stroke; the rest of the file stays as it is. If
// there are no markers, they are added at the end.
func writeSection(path, database, text string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	document, err := replaceSection(string(old), database, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(document)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func replaceSection(document, database, text string) (string, error) {
	name, _, _ := strings.Cut(database, ":")
	begin, end := fmt.Sprintf("<!-- chaos %s:begin -->", name), fmt.Sprintf("<!-- chaos %s:end -->", name)
	section := begin + "\n" + text + end
	before, rest, begins := strings.Cut(document, begin)
	_, after, ends := strings.Cut(rest, end)
	switch {
	case begins && ends:
		return before + section + after, nil
	case begins || strings.Contains(document, end):
		return "", fmt.Errorf("want both or none of %s and %s", begin, end)
	}
	if document = strings.TrimRight(document, "\n"); document != "" {
		document += "\n\n"
	}
	return document + "## Chaos: " + name + "\n\n" + section + "\n", nil
}
