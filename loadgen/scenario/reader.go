package scenario

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// format is that of a scenario file.
func format() strictyaml.Format {
	return strictyaml.Format{
		MaxSize: 256 << 10,
		MaxKeys: 12_000,
		Empty:   "write at least one phase, as in phases: [{length: 5m}]",
	}
}

// reader knows where each value stands, for what turns out wrong only later.
type reader struct {
	*strictyaml.Reader

	places map[string]ast.Node // the value of a path
}

func (r *reader) note(path string, n ast.Node) { r.places[path] = n }

func (r *reader) said(path string) bool {
	_, ok := r.places[path]
	return ok
}

// place returns what stands at a path, or what that is in; nil is the file.
func (r *reader) place(path string) ast.Node {
	for path != "" {
		if n, ok := r.places[path]; ok {
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return nil
}

// mapping stores each value of a mapping, notes where they stand and returns them by key.
func (r *reader) mapping(path string, n ast.Node, fields []strictyaml.Field) map[string]ast.Node {
	seen := r.Mapping(path, n, fields)
	for key, value := range seen {
		r.note(strictyaml.Join(path, key), value)
	}
	return seen
}

// items returns the entries of a list that must not be empty.
func (r *reader) items(path string, n ast.Node) []ast.Node {
	return r.SomeItems(path, n, "write an entry")
}
