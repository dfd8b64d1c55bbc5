package docs_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testprogram"
)

var update = flag.Bool("update", false, "write the generated parts of the pages")

// TestGenerated holds those pages that are made from the program against it. After a change:
//
//	go test ./docs -run TestGenerated -update
func TestGenerated(t *testing.T) {
	t.Setenv(programEnv, "1")
	api := startServer(t)
	t.Run("API", func(t *testing.T) {
		description := fetch(t, api+"/openapi.json")
		compareGenerated(t, "reference/api.md", operations(t, description))
		if testenv.Checks() {
			lint(t, description)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		compareGenerated(t, "reference/metrics.md", metrics(t, fetch(t, api+"/metrics")))
	})
}

// TestGeneratedSettings holds the tables of settings against those that there are. A table stands below a line that names it, or several.
func TestGeneratedSettings(t *testing.T) {
	reference := config.Reference()
	for _, page := range []string{"reference/configuration.md", "reference/playbooks.md"} {
		got := readPage(t, page)
		want := regexp.MustCompile(`(?m)^<!-- keys: (.*) -->\n\n(?:.+\n)*`).ReplaceAllStringFunc(got, func(part string) string {
			head, _, _ := strings.Cut(part, "\n")
			var b strings.Builder
			b.WriteString(head + "\n\nkey | default | meaning\n---|---|---\n")
			for name := range strings.FieldsSeq(strings.TrimSuffix(strings.TrimPrefix(head, "<!-- keys: "), " -->")) {
				for _, row := range reference[name] {
					b.WriteString(markdown(row))
				}
				delete(reference, name)
			}
			return b.String()
		})
		writeGenerated(t, page, got, want)
	}
	for name := range reference {
		t.Errorf("no page has a line <!-- keys: %s -->", name)
	}
}

func markdown(r config.Row) string {
	restart := ""
	if r.Restart {
		restart = " ⟳"
	}
	return fmt.Sprintf("`%s`%s | %s | %s\n", r.Key, restart, r.Default, r.Text)
}

// compareGenerated compares what stands in the page below its marker, or writes it there.
func compareGenerated(t *testing.T, page, want string) {
	t.Helper()
	const marker = "<!-- generated: go test ./docs -run TestGenerated -update -->\n"
	head, got, ok := strings.Cut(readPage(t, page), marker)
	if !ok {
		t.Fatalf("%s has no line %s", page, marker)
	}
	writeGenerated(t, page, head+marker+got, head+marker+"\n"+want)
}

// writeGenerated wants a page to be as it should, or writes it.
func writeGenerated(t *testing.T, page, got, want string) {
	t.Helper()
	switch {
	case got == want:
	case !*update:
		t.Errorf("%s is not what the program says now; run: go test ./docs -run TestGenerated -update", page)
	default:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
	}
}

// startServer starts a server with a bridge, whose broker does not answer, and returns the address
// of its API.
func startServer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(file, []byte("bridges:\n  - {url: \"mqtt://127.0.0.1:9\", presets: [raw]}\nmqtt: {route: cluster}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := testenv.FreeAddress(t)
	api := "http://" + address
	testprogram.Start(t, dir, api+"/readyz", os.Args[0], "serve", "--config", file, "--data", dir, "--listen", "any://127.0.0.1:0,udp+any://127.0.0.1:0",
		"--mqtt", "127.0.0.1:0", "--http", address, "--link", "127.0.0.1:0")
	return api
}

func fetch(t *testing.T, url string) []byte {
	t.Helper()
	code, body := testprogram.Get(url)
	if code != http.StatusOK {
		t.Fatalf("%s: %d", url, code)
	}
	return body
}

// operations returns a table of the operations for each tag of an OpenAPI description.
func operations(t *testing.T, description []byte) string {
	t.Helper()
	var api struct {
		Paths map[string]map[string]struct {
			Summary string
			Tags    []string
		}
	}
	if err := json.Unmarshal(description, &api); err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(api.Paths[path])) {
			o := api.Paths[path][method]
			rows[o.Tags[0]] = append(rows[o.Tags[0]], fmt.Sprintf("| `%s %s` | %s |\n", strings.ToUpper(method), path, o.Summary))
		}
	}
	var b strings.Builder
	for i, tag := range slices.Sorted(maps.Keys(rows)) {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n| | |\n|---|---|\n%s", tag, strings.Join(rows[tag], ""))
	}
	return b.String()
}

// metrics returns a table of Holter's own metrics.
func metrics(t *testing.T, text []byte) string {
	t.Helper()
	types := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (holter_\S+) (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		types[m[1]] = m[2]
	}
	var b strings.Builder
	b.WriteString("| metric | type | |\n|---|---|---|\n")
	for _, m := range regexp.MustCompile(`(?m)^# HELP (holter_\S+) (.*)$`).FindAllStringSubmatch(string(text), -1) {
		labels := map[string]bool{}
		for _, series := range regexp.MustCompile(`(?m)^`+m[1]+`(?:_bucket|_sum|_count)?\{([^}]*)\}`).FindAllStringSubmatch(string(text), -1) {
			for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(series[1], -1) {
				labels[l[1]] = true
			}
		}
		delete(labels, "le")
		name := m[1]
		if len(labels) > 0 {
			name += "{" + strings.Join(slices.Sorted(maps.Keys(labels)), ",") + "}"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, types[m[1]], m[2])
	}
	return b.String()
}
