package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	sectionTitle = "## Gateway"
	sectionBegin = "<!-- gateway:begin -->"
	sectionEnd   = "<!-- gateway:end -->"
)

// writeSection puts text between the markers of a file, at one stroke; the rest of the file stays as it is. If there are no markers,
// they are added at the end.
func writeSection(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	document, err := replaceSection(string(old), text)
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

func replaceSection(document, text string) (string, error) {
	section := sectionBegin + "\n" + text + sectionEnd
	before, rest, begins := strings.Cut(document, sectionBegin)
	_, after, ends := strings.Cut(rest, sectionEnd)
	switch {
	case begins && ends:
		return before + section + after, nil
	case begins || strings.Contains(document, sectionEnd):
		return "", fmt.Errorf("want both or none of %s and %s", sectionBegin, sectionEnd)
	}
	if document = strings.TrimRight(document, "\n"); document != "" {
		document += "\n\n"
	}
	return document + sectionTitle + "\n\n" + section + "\n", nil
}
