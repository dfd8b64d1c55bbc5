package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. The YAML parser recurses into brackets, and needs time
// that grows with the square of the keys of one mapping.
const (
	maxFile  = 1 << 20
	maxDepth = 32
	maxKeys  = 60_000
)

// readFile returns the text of a file of up to maxFile bytes.
func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fileError(name, err)
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return "", fmt.Errorf("%s: is a directory; --config takes a YAML file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", fileError(name, err)
	}
	return string(text), nil
}

func fileError(name string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("%s: cannot read the configuration file: %w", name, err)
}

// parse returns the one document of a file.
func parse(name, text string) (ast.Node, source, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	src := newSource(name, text)
	if len(text) > maxFile {
		return nil, src, fmt.Errorf("%s: is larger than 1 MiB", name)
	}
	if i := invalid(text); i >= 0 {
		line := 1 + strings.Count(text[:i], "\n")
		return nil, src, fmt.Errorf("%s:%d: contains a NUL byte, or is not UTF-8", name, line)
	}
	tokens := lexer.Tokenize(text)
	if err := bounded(src, tokens); err != nil {
		return nil, src, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // repeated keys: see decoder.mapping
	if err != nil {
		return nil, src, syntaxError(src, err)
	}
	document, err := onlyDocument(src, file)
	return document, src, err
}

// invalid returns where text stops being UTF-8 without NUL, or -1.
func invalid(text string) int {
	for i, c := range text {
		if c == 0 {
			return i
		}
		if c == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") {
			return i
		}
	}
	return -1
}

// bounded rejects what would cost the parser too much.
func bounded(src source, tokens token.Tokens) error {
	depth, keys, entries, line := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			entries, line = 0, t.Position.Line
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
			return src.mistake(line, t.Position.Column, fmt.Sprintf("more than %d levels of nesting", maxDepth))
		}
		if keys > maxKeys {
			return src.mistake(line, t.Position.Column, fmt.Sprintf("more than %d keys", maxKeys))
		}
	}
	return nil
}

// syntaxError gives an error of the parser our form. Its message may hold a
// single character of the file, never more.
func syntaxError(src source, err error) error {
	syntax, ok := errors.AsType[*yaml.SyntaxError](err)
	if !ok || syntax.Token == nil || syntax.Token.Position == nil {
		return fmt.Errorf("%s: is not valid YAML", src.name)
	}
	at, hint := syntax.Token.Position, ""
	switch {
	case strings.Contains(syntax.Message, "alias"), src.starBefore(at):
		hint = `; a text that begins with * goes in quotes, as in "*"`
	case strings.Contains(syntax.Message, "tab"), strings.Contains(syntax.Message, "\t"):
		hint = "; indent with spaces"
	}
	message := strings.ReplaceAll(syntax.Message, "\t", `\t`)
	return src.mistake(at.Line, at.Column, "is not valid YAML: "+message+hint)
}

// starBefore reports whether the character before a place is a star, which
// YAML takes for an alias.
func (s source) starBefore(at *token.Position) bool {
	if at.Line < 1 || at.Line > len(s.lines) {
		return false
	}
	line := []rune(s.lines[at.Line-1])
	return at.Column >= 2 && at.Column-2 < len(line) && line[at.Column-2] == '*'
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
			return nil, src.mistake(at.Line, at.Column, "a second document begins; the file may hold only one (remove the line ---)")
		}
		only = doc.Body
	}
	if only == nil || only.Type() == ast.NullType {
		return nil, fmt.Errorf("%s: is empty; write some settings, or {} for none", src.name)
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
