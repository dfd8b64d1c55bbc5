package strictyaml

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Flat calls visit with the path, the text and the place of each single value below a node, in their order. A list
// of single values counts as one, joined by commas. It does not go into what skip reports. The node must
// have been read without a mistake.
func (r *Reader) Flat(path string, n ast.Node, skip func(path string) bool, visit func(path, text string, at Place)) {
	if skip(path) {
		return
	}
	n = r.Resolve(path, n)
	if text, ok := Scalar(n); ok {
		if n.Type() != ast.NullType {
			visit(path, text, r.Place(path, n))
		}
		return
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		for _, p := range r.Pairs(path, n) {
			r.Flat(Join(path, p.Key), p.Value, skip, visit)
		}
		return
	}
	texts := make([]string, 0, len(list.Values))
	for _, item := range list.Values {
		if text, ok := Scalar(r.Resolve(path, item)); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) == len(list.Values) {
		visit(path, strings.Join(texts, ", "), r.Place(path, n))
		return
	}
	for i, item := range list.Values {
		r.Flat(Element(path, i), item, skip, visit)
	}
}
