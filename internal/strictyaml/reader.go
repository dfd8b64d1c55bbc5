package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Reader reads the nodes of one document and collects what is wrong. Parse
// makes one. The path that most methods take leads to a node, as in
// groups[2].policy.timeout; messages begin with it.
type Reader struct {
	format  Format
	src     *source // nil: an option or a variable
	origin  string  // its name
	anchors map[string]ast.Node
	places  map[string]Place // of mappings and their values, by path
	found   []mistake
	dropped int // mistakes beyond maxMistakes
	items   int // of all lists so far
}

type mistake struct {
	Mistake

	line, column int
	err          error
}

// Mistake is what is wrong, and the path that leads to it, without the text of the file.
type Mistake struct{ Path, Message string }

// maxMistakes is how many mistakes of a file are shown.
const maxMistakes = 20

// maxItems is how many entries of lists are read. A short file can mean more, by its aliases.
const maxItems = 1_000_000

// Pair is one entry of a mapping.
type Pair struct {
	Key       string // as it is written, without its quotes
	At, Value ast.Node
}

// Place is where something was written. Its zero value is nowhere.
type Place struct {
	src          *source // nil: not in a file
	line, column int
	path         string // of keys; outside a file the name of an option or a variable
}

// Outside returns a place that is in no file: an option or a variable.
func Outside(name string) Place { return Place{path: name} }

// Given returns a Reader for the value of an option or a variable, and the value.
func Given(origin, text string) (*Reader, ast.Node) {
	plain := &token.Token{Type: token.StringType, Value: text, Position: &token.Position{Line: 1, Column: 1}}
	return &Reader{origin: origin, places: map[string]Place{}}, ast.String(plain)
}

// String returns the file and the line, or the name of an option or a variable.
func (p Place) String() string {
	if p.src == nil {
		return p.path
	}
	return fmt.Sprintf("%s:%d", p.src.name, p.line)
}

// Mistake returns the error for a mistake at a place, and shows the line.
func (p Place) Mistake(message string) error {
	if p.path != "" {
		message = p.path + ": " + message
	}
	if p.src == nil {
		return errors.New(message)
	}
	return p.src.mistake(p.line, p.column, message)
}

// Place returns where a node was written. No node is the beginning of the file.
func (r *Reader) Place(path string, n ast.Node) Place {
	if r.src == nil {
		return Outside(r.origin)
	}
	at := start(n)
	return Place{src: r.src, line: at.Line, column: at.Column, path: path}
}

// Note makes At find a node. Mapping notes itself and its values.
func (r *Reader) Note(path string, n ast.Node) { r.places[path] = r.Place(path, n) }

// At returns where a node was written, and whether it was noted; otherwise the place is that of what
// is around it.
func (r *Reader) At(path string) (at Place, found bool) {
	at, found = r.places[path]
	for above := path; at.src == nil && above != ""; {
		above = above[:max(0, strings.LastIndexAny(above, ".["))]
		at = r.places[above]
	}
	if r.src == nil {
		return Outside(r.origin), false
	}
	at.path = path
	return at, found
}

// Has reports whether At finds a path.
func (r *Reader) Has(path string) bool {
	_, found := r.At(path)
	return found
}

// Fail reports a mistake at a node. No node is the beginning of the file.
func (r *Reader) Fail(path string, n ast.Node, format string, args ...any) {
	r.fail(r.Place(path, n), fmt.Sprintf(format, args...))
}

// FailAt reports a mistake at the place that At returns.
func (r *Reader) FailAt(path, message string) {
	at, _ := r.At(path)
	r.fail(at, message)
}

func (r *Reader) fail(at Place, message string) {
	if len(r.found) >= maxMistakes {
		r.dropped++
		return
	}
	r.found = append(r.found, mistake{Mistake{at.path, message}, at.line, at.column, at.Mistake(message)})
}

// Mistakes returns how many there are so far.
func (r *Reader) Mistakes() int { return len(r.found) + r.dropped }

// Errs returns the mistakes in the order of the file: the first twenty that
// were reported, and how many more there were.
func (r *Reader) Errs() []error {
	slices.SortStableFunc(r.found, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	var errs []error
	for _, m := range r.found {
		errs = append(errs, m.err)
	}
	if r.dropped > 0 {
		errs = append(errs, fmt.Errorf("%s: and %d more mistakes", r.src.name, r.dropped))
	}
	return errs
}

// Found returns the mistakes in the order in which they were reported: the first twenty. It is for those
// who know the text and its lines by another name.
func (r *Reader) Found() []Mistake {
	list := make([]Mistake, len(r.found))
	for i := range r.found {
		list[i] = r.found[i].Mistake
	}
	return list
}

// Pairs returns the entries of a mapping in their order, without the ones that
// are wrong in themselves.
func (r *Reader) Pairs(path string, n ast.Node) []Pair {
	var values []*ast.MappingValueNode
	switch v := r.Resolve(path, n).(type) {
	case nil:
		return nil
	case *ast.NullNode:
		r.null(path, n)
		return nil
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{v}
	default:
		r.Fail(path, n, "must be a mapping (key: value)")
		return nil
	}
	pairs := make([]Pair, 0, len(values))
	lines := make(map[string]int, len(values))
	for _, v := range values {
		key, ok := r.key(path, v.Key)
		if !ok {
			continue
		}
		if line, repeated := lines[key]; repeated {
			r.Fail(path, v.Key, "the key %s is repeated; it is already in line %d", quoteKey(key), line)
			continue
		}
		lines[key] = start(v.Key).Line
		pairs = append(pairs, Pair{key, v.Key, v.Value})
	}
	return pairs
}

// Items returns the entries of a list. Where it must not be empty, todo says what else to do than remove
// it, as in "write an entry".
func (r *Reader) Items(path string, n ast.Node, todo string) []ast.Node {
	before := r.Mistakes()
	switch v := r.Resolve(path, n).(type) {
	case nil:
	case *ast.NullNode:
		r.null(path, n)
	case *ast.SequenceNode:
		if r.items += len(v.Values); r.items > maxItems {
			r.Fail(path, n, "the lists have more than %d entries, counted again for each alias", maxItems)
		} else if len(v.Values) > 0 {
			return v.Values
		}
	default:
		r.Fail(path, n, "must be a list ([a, b], or one entry a line after -)")
	}
	if todo != "" && r.Mistakes() == before {
		r.Fail(path, n, "the list is empty; %s, or remove it", todo)
	}
	return nil
}

const noValue = "has no value; write one, or remove it"

// null reports a mapping or a list without a value, where that is a mistake.
func (r *Reader) null(path string, n ast.Node) {
	if !r.format.NullIsEmpty {
		r.Fail(path, n, noValue)
	}
}

// Text returns the value of a scalar as it is written, without its quotes.
func (r *Reader) Text(path string, n ast.Node) (string, bool) {
	n = r.Resolve(path, n)
	if n == nil {
		return "", false
	}
	if n.Type() == ast.NullType {
		r.Fail(path, n, noValue)
		return "", false
	}
	text, ok := Scalar(n)
	if !ok {
		r.Fail(path, n, "must be a single value; put a text with brackets or braces in quotes")
	}
	return text, ok
}

// Join returns the path of a key below a path.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Element returns the path of an entry of a list; the first has index 0.
func Element(path string, index int) string { return fmt.Sprintf("%s[%d]", path, index) }
