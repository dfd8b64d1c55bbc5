package scenario

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. The YAML parser recurses into brackets, and needs time that grows with the square of the keys of one mapping.
const (
	maxFile  = 1 << 18
	maxDepth = 32
	maxKeys  = 12_000
)

// parse returns the one document of a file.
func parse(name, text string) (ast.Node, source, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	src := newSource(name, text)
	if len(text) > maxFile {
		return nil, src, fmt.Errorf("%s: is larger than 256 KiB", name)
	}
	if line := unreadable(src.lines); line > 0 {
		return nil, src, fmt.Errorf("%s:%d: contains a NUL byte, or is not UTF-8", name, line)
	}
	tokens := lexer.Tokenize(text)
	if err := bounded(src, tokens); err != nil {
		return nil, src, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // which reader.mapping reports
	if err != nil {
		return nil, src, syntaxError(src, err)
	}
	node, err := onlyDocument(src, file)
	return node, src, err
}

// unreadable returns the first line that is not text, or 0.
func unreadable(lines []string) int {
	for i, line := range lines {
		if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
			return i + 1
		}
	}
	return 0
}

// bounded rejects what would cost the parser too much.
func bounded(src source, tokens token.Tokens) error {
	depth, keys, entries, line := 0, 0, 0, 0
	for _, t := range tokens {
		at := spot{t.Position.Line, t.Position.Column}
		if at.line != line {
			entries, line = 0, at.line
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		case token.MappingValueType:
			keys++
		default:
		}
		if depth > maxDepth || entries > maxDepth {
			return src.mistake(at, fmt.Sprintf("more than %d levels of nesting", maxDepth))
		}
		if keys > maxKeys {
			return src.mistake(at, fmt.Sprintf("more than %d keys", maxKeys))
		}
	}
	return nil
}

// syntaxError gives an error of the parser our form.
func syntaxError(src source, err error) error {
	syntax, ok := errors.AsType[*yaml.SyntaxError](err)
	if !ok || syntax.Token == nil || syntax.Token.Position == nil {
		return fmt.Errorf("%s: is not valid YAML", src.name)
	}
	hint := ""
	switch {
	case strings.Contains(syntax.Message, "tab"), strings.Contains(syntax.Message, "\t"):
		hint = "; indent with spaces"
	case strings.Contains(syntax.Message, "alias"), strings.Contains(syntax.Message, "directive"), strings.Contains(syntax.Message, "reserved"):
		hint = "; put a text that begins with *, % or @ in quotes"
	}
	at := syntax.Token.Position
	message := strings.ReplaceAll(syntax.Message, "\t", `\t`)
	return src.mistake(spot{at.Line, at.Column}, "is not valid YAML: "+message+hint)
}

// onlyDocument returns the body of the single document of a file.
func onlyDocument(src source, file *ast.File) (ast.Node, error) {
	var only ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType || doc.Body.Type() == ast.CommentType {
			continue
		}
		if only != nil {
			at := start(doc.Body)
			return nil, src.mistake(spot{at.Line, at.Column}, "a second document begins; the file may hold only one (remove the line ---)")
		}
		only = doc.Body
	}
	if only == nil || only.Type() == ast.NullType {
		return nil, fmt.Errorf("%s: is empty; write at least one phase, as in phases: [{length: 5m}]", src.name)
	}
	return only, nil
}

// start returns where a node begins; for a mapping that is its first key.
func start(n ast.Node) *token.Position {
	switch v := n.(type) {
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
