package report

import (
	"os"
	"strings"
)

// View shows a run while it goes on. Its methods write, and so may block. Show and End are called
// by one goroutine; Close may be called by any, and again.
type View interface {
	// Show shows a sample, which it does not keep.
	Show(s *Sample) error
	// End shows how the run ended, after Close.
	End(f *Final) error
	// Close leaves the terminal as it was.
	Close() error
}

// Open chooses a view for a file: objects of JSON, one a line, if asked for them; one screen that
// is redrawn if the file is a terminal; otherwise one line a sample. NO_COLOR, TERM, COLUMNS, LINES
// and the locale are honoured.
func Open(out *os.File, run Run, asJSON bool) View {
	if asJSON {
		return NewObjects(out, run)
	}
	dimensions, ok := dimensionsOf(out)
	if !ok || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return NewLines(out, run)
	}
	return NewScreen(out, run, ScreenConfig{Size: dimensions, Plain: os.Getenv("NO_COLOR") != "", ASCII: !utf8Locale(os.Getenv)})
}

// utf8Locale reports whether the terminal understands UTF-8, which is assumed if no locale is set,
// as in containers.
func utf8Locale(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := env(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return true
}
