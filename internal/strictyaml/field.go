package strictyaml

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Field is a key of a mapping and what becomes of its value.
type Field struct {
	Key     string // with dots where it is in mappings inside, as in tls.cert
	Set     Setter
	Need    string // ends the message about a mapping without the key, as in "a group needs one"; "": it may be missing
	Default string // what holds without it, in words
	Doc     string // what it is, for the reference
}

// Key returns a Field that may be missing.
func Key(key string, set Setter, byDefault, doc string) Field {
	return Field{Key: key, Set: set, Default: byDefault, Doc: doc}
}

// Needed returns the field with a Need.
func (f Field) Needed(need string) Field {
	f.Need = need
	return f
}

// Below returns fields as they are seen from the mapping in which theirs has a key.
func Below(key string, fields []Field) []Field {
	all := slices.Clone(fields)
	for i := range all {
		all[i].Key = Join(key, all[i].Key)
	}
	return all
}

// Find returns the setter of a key, with its dots; false if there is none.
func Find(fields []Field, key string) (set Setter, ok bool) {
	for _, f := range fields {
		if f.Key == key {
			return f.Set, true
		}
	}
	return Setter{}, false
}

// Mapping stores each value of a mapping, and returns the values by key; nil if it found nothing but
// mistakes.
func (r *Reader) Mapping(path string, n ast.Node, fields []Field) map[string]ast.Node {
	before := r.Mistakes()
	seen := map[string]ast.Node{}
	r.Note(path, n)
	for _, p := range r.Pairs(path, n) {
		inside := below(fields, p.Key)
		if len(inside) == 0 {
			r.unknown(path, p, fields)
			continue
		}
		seen[p.Key] = p.Value
		at := Join(path, p.Key)
		r.Note(at, p.Value)
		if inside[0].Key == "" {
			inside[0].Set.Read(r, at, p.Value)
		} else {
			r.Mapping(at, p.Value, inside)
		}
	}
	if len(seen) == 0 && r.Mistakes() > before {
		return nil
	}
	for _, f := range fields {
		if f.Need != "" && !strings.Contains(f.Key, ".") && seen[f.Key] == nil {
			r.Fail(path, n, "%s is missing; %s", f.Key, f.Need)
		}
	}
	return seen
}

// below returns what a key of a file stands for: one field without a key, or the fields in its mapping.
func below(fields []Field, key string) (inside []Field) {
	if strings.Contains(key, ".") {
		return nil // a file nests
	}
	for _, f := range fields {
		if rest, ok := strings.CutPrefix(f.Key, key); ok && (rest == "" || rest[0] == '.') {
			f.Key = strings.TrimPrefix(rest, ".")
			inside = append(inside, f)
		}
	}
	return inside
}

func (r *Reader) unknown(path string, p Pair, fields []Field) {
	var allowed []string
	for _, f := range fields {
		if first, _, _ := strings.Cut(f.Key, "."); !slices.Contains(allowed, first) {
			allowed = append(allowed, first)
		}
	}
	near := DidYouMean(p.Key, allowed)
	slices.Sort(allowed)
	r.Fail(path, p.At, "unknown key %s%s (allowed here: %s)", quoteKey(p.Key), near, strings.Join(allowed, ", "))
}
