package strictyaml

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxJSON is how many bytes a value has at most as JSON. An alias is written
// out, so a short file can mean a long value.
const maxJSON = 1 << 20

// JSON stores any value as JSON that says just what the file does: keys stay in
// their order, numbers as they are written. What YAML reads otherwise than it
// looks is a mistake: 0123 would be 83.
func JSON(dst *json.RawMessage) Setter {
	return Setter{To: dst, Read: func(r *Reader, path string, n ast.Node) {
		w := jsonWriter{r: r}
		before := r.Mistakes()
		w.value(path, n)
		if len(w.out) > maxJSON {
			r.Fail(path, n, "is larger than %s as JSON", size(maxJSON))
		}
		if r.Mistakes() == before {
			*dst = w.out
		}
	}}
}

type jsonWriter struct {
	r    *Reader
	out  []byte
	open []ast.Node // the mappings and lists around a value
}

// value writes a value. Each takes a byte at least, also one that is wrong, so
// that the number of values is bounded as their length is.
func (w *jsonWriter) value(path string, n ast.Node) {
	if len(w.out) > maxJSON {
		return
	}
	v := w.r.Resolve(path, n)
	switch v.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		w.collection(path, n, v)
	default:
		w.out = append(w.out, w.scalar(path, n, v)...)
	}
}

func (w *jsonWriter) collection(path string, n, v ast.Node) {
	switch {
	case slices.Contains(w.open, v):
		w.r.Fail(path, n, "the alias stands for what it is a part of")
	case len(w.open) == maxDepth:
		w.r.Fail(path, n, "more than %d levels of nesting", maxDepth)
	default:
		w.open = append(w.open, v)
		defer func() { w.open = w.open[:len(w.open)-1] }()
		if _, list := v.(*ast.SequenceNode); list {
			w.list(path, v)
		} else {
			w.mapping(path, v)
		}
		return
	}
	w.out = append(w.out, '0')
}

func (w *jsonWriter) list(path string, v ast.Node) {
	w.out = append(w.out, '[')
	for i, item := range w.r.Items(path, v, "") {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.value(Element(path, i), item)
	}
	w.out = append(w.out, ']')
}

func (w *jsonWriter) mapping(path string, v ast.Node) {
	w.out = append(w.out, '{')
	for i, p := range w.r.Pairs(path, v) {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(append(w.out, jsonText(p.Key)...), ':')
		w.value(Join(path, strings.Trim(quoteKey(p.Key), `"`)), p.Value)
	}
	w.out = append(w.out, '}')
}

// scalar returns a single value as JSON; n is what stands for it. Messages
// leave the value to the line below them, where secrets are hidden.
func (w *jsonWriter) scalar(path string, n, v ast.Node) []byte {
	text, ok := Scalar(v)
	fail := func(format string, args ...any) []byte {
		w.r.Fail(path, n, format, args...)
		return []byte("0")
	}
	switch {
	case v == nil && n != nil:
		return []byte("0") // that was said
	case v == nil || v.GetToken().Type == token.ImplicitNullType:
		return fail("has no value; write one, null among them, or remove it")
	case !ok:
		return fail("must be a single value, a list or a mapping")
	}
	switch s := v.(type) {
	case *ast.NullNode:
		return []byte("null")
	case *ast.BoolNode:
		is, err := Bool(text)
		if err != nil {
			return fail("%v", err)
		}
		return fmt.Append(nil, is)
	case *ast.InfinityNode, *ast.NanNode:
		return fail("is no number that JSON has; put it in quotes if it is a text")
	case *ast.LiteralNode:
		return jsonText(text)
	case *ast.StringNode:
		if quoted(s) || !likeNumber.MatchString(text) {
			return jsonText(text)
		}
	}
	if !json.Valid([]byte(text)) {
		return fail("is no number as JSON has them (no 0 or + before it, no 0x, no _); put it in quotes if it is a text")
	}
	return []byte(text)
}

// likeNumber is what looks like a number, be it one for the parser or not.
var likeNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$|^[-+]?0[xob][0-9A-Fa-f_]+$`)

func jsonText(text string) []byte {
	out, err := json.Marshal(text)
	if err != nil { // there is no text that cannot be written
		return []byte(`""`)
	}
	return out
}
