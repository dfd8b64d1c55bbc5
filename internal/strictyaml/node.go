package strictyaml

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

const (
	noTags  = "tags (!) are not supported; write the plain value"
	noMerge = "merge keys (<<) are not supported; repeat the keys, or refer to the whole mapping with *name"
)

// collector notes the anchors of a document.
type collector struct{ r *Reader }

// Visit implements ast.Visitor.
func (c collector) Visit(n ast.Node) ast.Visitor {
	if anchor, ok := n.(*ast.AnchorNode); ok && anchor.Name != nil {
		name := anchor.Name.GetToken().Value
		if c.r.anchors[name] != nil {
			c.r.Fail("", n, "the anchor &%s is defined a second time", Shorten(name))
		}
		c.r.anchors[name] = anchor.Value
	}
	return c
}

// Resolve follows anchors and aliases to the node they stand for. It returns
// nil where there is none, which it reports, or where n is nil.
func (r *Reader) Resolve(path string, n ast.Node) ast.Node {
	for range maxDepth {
		switch v := n.(type) {
		case nil:
			return nil
		case *ast.TagNode:
			r.Fail(path, n, noTags)
			return nil
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			if r.anchors[name] == nil {
				r.Fail(path, n, "there is no anchor &%s; a text that begins with * goes in quotes", Shorten(name))
			}
			n = r.anchors[name]
		default:
			return n
		}
	}
	r.Fail(path, n, "anchors refer to each other")
	return nil
}

// key returns the text of a key. Numbers stay as they are written: 0123.
func (r *Reader) key(path string, at ast.Node) (string, bool) {
	n := at
	if k, ok := n.(*ast.MappingKeyNode); ok {
		n = k.Value
	}
	if text, ok := Scalar(n); ok {
		return text, true
	}
	message := "a key must be a plain text"
	switch n.(type) {
	case *ast.TagNode:
		message = noTags
	case *ast.MergeKeyNode:
		message = noMerge
	}
	r.Fail(path, at, "%s", message)
	return "", false
}

// Scalar returns the text of a single value as it is written, without its
// quotes; that of null is null, or empty. It follows no alias.
func Scalar(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		if v.Value == nil {
			return "", true
		}
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.NullNode:
		if t := n.GetToken(); t != nil {
			return t.Value, true
		}
	}
	return "", false
}

// start returns where a node begins; for a mapping that is its first key.
func start(n ast.Node) *token.Position {
	switch v := n.(type) {
	case nil:
		return &token.Position{Line: 1, Column: 1}
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return start(v.Values[0])
		}
	case *ast.MappingValueNode:
		return start(v.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position
	}
	return &token.Position{Line: 1, Column: 1}
}
