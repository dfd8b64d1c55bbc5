package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// TestLinks follows each link between the pages of this repository, down to the heading, and to their pictures.
func TestLinks(t *testing.T) {
	for _, page := range pages(t, "..") {
		text := readPage(t, page)
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)|src(?:set)?="([^"]+)"`).FindAllStringSubmatch(withoutCode(text), -1) {
			link := m[1] + m[2]
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			if err := follow(t, page, link); err != "" {
				t.Errorf("%s: link %s: %s", page, link, err)
			}
		}
	}
}

func follow(t *testing.T, page, link string) string {
	t.Helper()
	name, anchor, _ := strings.Cut(link, "#")
	target := page
	if name != "" {
		target = filepath.Join(filepath.Dir(page), filepath.FromSlash(name))
	}
	if _, err := os.Stat(target); err != nil {
		return "there is no such file"
	}
	if anchor != "" && strings.HasSuffix(target, ".md") && !anchors(readPage(t, target))[anchor] {
		return "there is no such heading"
	}
	return ""
}

// anchors returns what GitHub makes of the headings of a page: lower case, without punctuation,
// with hyphens for spaces.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(withoutCode(text)) {
		heading := strings.TrimLeft(line, "#")
		if len(heading) == len(line) || !strings.HasPrefix(heading, " ") {
			continue
		}
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))] = true
	}
	return found
}

// withoutCode drops fenced blocks and spans of code, where brackets are no links.
func withoutCode(text string) string {
	text = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllStringFunc(text, func(code string) string { return strings.Trim(code, "`[]()") })
}

// pages lists the Markdown files below root.
func pages(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "holter-data") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			found = append(found, name)
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("pages: %v, %d found", err, len(found))
	}
	return found
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadmeIsShort holds the length of the README.
func TestReadmeIsShort(t *testing.T) {
	if words := len(strings.Fields(readPage(t, "../README.md"))); words > 900 {
		t.Errorf("the README has %d words, want at most 900: details belong below docs", words)
	}
}

// TestNamedTests wants each test, benchmark and target of make that a page names to be there.
func TestNamedTests(t *testing.T) {
	code := map[string]bool{}
	err := filepath.WalkDir("..", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`).FindAllStringSubmatch(readPage(t, name), -1) {
			code[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, makefile := range []string{"../Makefile", "../deploy/packaging/release.mk"} {
		for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(readPage(t, makefile), -1) {
			code["make "+m[1]] = true
		}
	}
	for _, page := range pages(t, "..") {
		for _, name := range regexp.MustCompile("\\b(?:Test|Benchmark|Fuzz)[A-Z]\\w+|`make [a-z0-9-]+").FindAllString(readPage(t, page), -1) {
			if name = strings.TrimPrefix(name, "`"); !code[name] {
				t.Errorf("%s names %s, which is not there", page, name)
			}
		}
	}
}
