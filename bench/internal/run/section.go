package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// section is a part of a Markdown file, between markers.
type section struct {
	title string // the heading that it gets when it is added
	name  string // in the markers
}

// write puts text between the section's markers in a file; the rest of the file stays as it is. If
// there are no markers, they are added at the end, below the title.
func (s section) write(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	document, err := s.replace(string(old), text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(document), 0o644)
}

// replace returns a document with text in the section.
func (s section) replace(document, text string) (string, error) {
	begin, end := "<!-- "+s.name+":begin -->", "<!-- "+s.name+":end -->"
	whole := begin + "\n" + text + end
	before, rest, begins := strings.Cut(document, begin)
	_, after, ends := strings.Cut(rest, end)
	switch {
	case begins && ends:
		return before + whole + after, nil
	case begins || strings.Contains(document, end):
		return "", fmt.Errorf("want both or none of %s and %s", begin, end)
	}
	if document = strings.TrimRight(document, "\n"); document != "" {
		document += "\n\n"
	}
	return document + s.title + "\n\n" + whole + "\n", nil
}
