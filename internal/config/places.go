package config

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// place makes the error for a mistake in a value, with where it was written.
type place func(message string) error

// spot is where something was written. Its zero value is nowhere.
type spot = strictyaml.Place

// spots are where a mapping and the values of its keys were written.
type spots struct {
	whole spot
	keys  map[string]spot
}

// spotsOf returns where a mapping was written, with the values that Mapping
// returned for it.
func spotsOf(d *strictyaml.Reader, path string, n ast.Node, seen map[string]ast.Node) spots {
	s := spots{whole: d.Place(path, n), keys: make(map[string]spot, len(seen))}
	for key, v := range seen {
		s.keys[key] = d.Place(strictyaml.Join(path, key), v)
	}
	return s
}

// of returns the spot of a key; where it is missing, that of the mapping.
func (s spots) of(key string) spot {
	if at, ok := s.keys[key]; ok {
		return at
	}
	return s.whole.Below(key)
}
