package scenario

import (
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

// reader reads the nodes of a scenario.
type reader struct{ *strictyaml.Reader }

// said reports whether the file has a key.
func (r *reader) said(key string) bool {
	_, found := r.At(key)
	return found
}

// items returns the entries of a list that must not be empty.
func (r *reader) items(path string, n ast.Node) []ast.Node {
	return r.SomeItems(path, n, "write an entry")
}
