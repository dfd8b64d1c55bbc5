package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// declared is a test in the source.
type declared struct {
	folder string // below the root
	level  string // of make test, check or soak: the first of them that runs it
}

// declaredTests returns all tests, benchmarks and fuzz targets by their names.
func declaredTests(t *testing.T) map[string][]declared {
	t.Helper()
	found := map[string][]declared{}
	begin := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(\w+ \*testing\.\w+\) \{\n((?:\t.*\n){0,3})`)
	err := filepath.WalkDir("..", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		folder, err := filepath.Rel("..", filepath.Dir(name))
		for _, m := range begin.FindAllStringSubmatch(readPage(t, name), -1) {
			level := "test"
			switch {
			case strings.Contains(m[2], "testenv.Soak("):
				level = "soak"
			case strings.Contains(m[2], "testenv.Check("):
				level = "check"
			}
			if strings.HasPrefix(m[1], "TestSoak") != (level == "soak") {
				t.Errorf("%s in %s: TestSoak… calls testenv.Soak first, and nothing else does", m[1], folder)
			}
			found[m[1]] = append(found[m[1]], declared{folder, level})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// claim is a test that a cell names, with what it says of it, "" if nothing.
type claim struct{ name, folder, level string }

// claims returns the tests that a cell names: after "check:" those that make check runs, and before "in gateway" those of this package.
func claims(cell string) (all []claim) {
	levelMark := regexp.MustCompile(`\b(test|check|soak)\b[*` + "`" + `]*:`)
	testName := regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z]\\w*)`")
	namesIn := regexp.MustCompile("((?:`\\w+`(?: \\([^)]*\\))?(?:, | and )?)+) in ([\\w/]+(?:(?:, | and )[\\w/]+)*)")
	separators := regexp.MustCompile(`, | and `)
	starts := append(levelMark.FindAllStringSubmatchIndex(cell, -1), []int{len(cell), len(cell), 0, 0})
	from, level := 0, ""
	for _, s := range starts {
		part := cell[from:s[0]]
		for _, m := range testName.FindAllStringSubmatch(part, -1) {
			all = append(all, claim{m[1], "", level})
		}
		for _, m := range namesIn.FindAllStringSubmatch(part, -1) {
			for _, name := range testName.FindAllStringSubmatch(m[1], -1) {
				for _, folder := range separators.Split(m[2], -1) {
					all = append(all, claim{name[1], folder, level})
				}
			}
		}
		from, level = s[1], cell[s[2]:s[3]]
	}
	return all
}

func TestClaims(t *testing.T) {
	got := claims("**test:** `TestA` (1 s) and `TestB` in a/b and c, `TestC`, the model test in d. **check:** `FuzzD`")
	want := []claim{
		{"TestA", "", "test"},
		{"TestB", "", "test"},
		{"TestC", "", "test"},
		{"TestA", "a/b", "test"},
		{"TestA", "c", "test"},
		{"TestB", "a/b", "test"},
		{"TestB", "c", "test"},
		{"FuzzD", "", "check"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("claims = %v, want %v", got, want)
	}
}

// TestPromises wants each test that the table of promises names to be there, in the package and at the level that it says.
func TestPromises(t *testing.T) {
	tests := declaredTests(t)
	rows := regexp.MustCompile(`(?m)^\| P\d \|.*$`).FindAllString(readPage(t, "know/promises.md"), -1)
	if len(rows) != 8 {
		t.Fatalf("%d promises", len(rows))
	}
	for _, row := range rows {
		for _, c := range claims(strings.Join(strings.Split(row, "|")[3:], "|")) {
			if !slices.ContainsFunc(tests[c.name], func(d declared) bool {
				return (c.level == "" || c.level == d.level) && (c.folder == "" || c.folder == d.folder)
			}) {
				t.Errorf("%s names %s %s %s; there are %v", row[:6], c.name, c.folder, c.level, tests[c.name])
			}
		}
	}
}
