package archtest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw the map of CONTRIBUTING.md anew")

// TestMap holds the picture of the packages in CONTRIBUTING.md against the imports, and the table of folders
// below it against the picture.
func TestMap(t *testing.T) {
	const begin, end = "```mermaid\n", "```\n"
	file := filepath.Join(moduleRoot(t), "CONTRIBUTING.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(page), begin)
	got, tail, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no picture in a block of mermaid", file)
	}
	want := drawMap(loadModule(t))
	table, _, _ := strings.Cut(tail, "\n## ")
	for _, folder := range strings.Fields(want)[2:] {
		if folder != "-->" && !strings.Contains(table, "`"+folder+"`") {
			t.Errorf("the table of folders below the picture does not name `%s`", folder)
		}
	}
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("the imports have changed; draw the picture of %s anew: go test ./internal/archtest -run TestMap -update", filepath.Base(file))
	}
	if err := os.WriteFile(file, []byte(head+begin+want+end+tail), 0o644); err != nil { //nolint:gosec // a page for everybody
		t.Fatal(err)
	}
}

// drawMap returns a flowchart of the folders of the module and of who imports whom, outside of
// tests. What a folder also reaches by way of another has no arrow of its own, and small packages
// below internal are left out.
func drawMap(pkgs []pkg) string {
	edges := map[string][]string{}
	for _, p := range pkgs {
		from := room(p.path)
		if from == "" {
			continue
		}
		if edges[from] == nil {
			edges[from] = []string{}
		}
		for _, imp := range p.code {
			if to := room(imp); to != "" && to != from && !slices.Contains(edges[from], to) {
				edges[from] = append(edges[from], to)
			}
		}
	}
	rooms := make([]string, 0, len(edges))
	for r := range edges {
		rooms = append(rooms, r)
	}
	slices.Sort(rooms)
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, r := range rooms {
		slices.Sort(edges[r])
		direct := slices.DeleteFunc(slices.Clone(edges[r]), func(to string) bool {
			return slices.ContainsFunc(edges[r], func(by string) bool { return by != to && reaches(edges, by, to) })
		})
		for _, to := range direct {
			fmt.Fprintf(&b, "  %s --> %s\n", r, to)
		}
		if len(direct) == 0 && !imported(edges, r) {
			fmt.Fprintf(&b, "  %s\n", r)
		}
	}
	return b.String()
}

// room returns the folder that stands for a package in the picture, or "".
func room(path string) string {
	folders := strings.Split(path, "/")
	switch {
	case folders[0] == "internal" && len(folders) > 1 && slices.Contains(insideRooms(), folders[1]):
		return "internal/" + folders[1]
	case folders[0] == "internal", folders[0] == "docs", folders[0] == ".":
		return ""
	case path == "cmd/holter":
		return path
	}
	return folders[0]
}

// insideRooms lists the folders below internal that are in the picture: the program, its faces, and its services.
func insideRooms() []string {
	return []string{
		"cli", "server", "doctor", "config", "httpapi", "console", "playbook", "cron", "delivery", "jobs", "replay", "store", "sqldb", "cluster", "mqttstore",
	}
}

func reaches(edges map[string][]string, from, to string) bool {
	return slices.ContainsFunc(edges[from], func(next string) bool { return next == to || reaches(edges, next, to) })
}

func imported(edges map[string][]string, name string) bool {
	for _, to := range edges {
		if slices.Contains(to, name) {
			return true
		}
	}
	return false
}

func TestDrawMap(t *testing.T) {
	got := drawMap([]pkg{
		{path: "cmd/holter", code: []string{"gateway", "timer"}},
		{path: "gateway", code: []string{"internal/net/shm", "liveness"}},
		{path: "gateway/codec"},
		{path: "liveness", code: []string{"timer"}},
		{path: "timer"},
		{path: "dag"},
		{path: "internal/net/shm"},
	})
	want := "flowchart TD\n  cmd/holter --> gateway\n  dag\n  gateway --> liveness\n  liveness --> timer\n"
	if got != want {
		t.Errorf("drawMap:\n%s\nwant\n%s", got, want)
	}
}
