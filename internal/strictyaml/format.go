package strictyaml

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

// Format is what all files of one kind have in common.
type Format struct {
	MaxSize int // bytes, whole KiB; of larger files no more than MaxSize+1 bytes are read
	MaxKeys int // of all mappings together

	// Empty says what to write into a file that holds nothing: "write some settings, or {} for none".
	Empty string

	// NullIsEmpty says that a mapping or a list for which nothing is written
	// is an empty one. Otherwise that is a mistake.
	NullIsEmpty bool
}

// maxDepth is how many brackets, and how many entries of one line, may be
// inside each other: the parser recurses into them.
const maxDepth = 32

// ReadFile returns the text of a file, or of a larger one the beginning, which
// Parse rejects. Its error does not say the name.
func (f Format) ReadFile(name string) (string, error) {
	var text []byte
	file, err := os.Open(name)
	if err == nil {
		defer func() { _ = file.Close() }() // only read
		text, err = io.ReadAll(io.LimitReader(file, int64(f.MaxSize)+1))
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return string(text), err
}

// Parse returns the root of the one document that a text holds, and the Reader
// for it. Messages call the file by the name. An error is the only mistake.
func (f Format) Parse(name, text string) (*Reader, ast.Node, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	if len(text) > f.MaxSize {
		return nil, nil, fmt.Errorf("%s: is larger than %s", name, size(f.MaxSize))
	}
	src := newSource(name, text)
	if line := src.unreadable(); line > 0 {
		return nil, nil, fmt.Errorf("%s:%d: contains a NUL byte, or is not UTF-8", name, line)
	}
	tokens := lexer.Tokenize(text)
	if err := f.bounded(src, tokens); err != nil {
		return nil, nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // repeated keys: see Reader.Pairs
	if err != nil {
		return nil, nil, syntaxError(src, err)
	}
	root, err := f.onlyDocument(src, file)
	if err != nil {
		return nil, nil, err
	}
	r := &Reader{format: f, src: src, anchors: map[string]ast.Node{}, places: map[string]Place{}}
	ast.Walk(collector{r}, root)
	return r, root, nil
}

// size writes a number of bytes.
func size(bytes int) string {
	const kibi, mebi = 1 << 10, 1 << 20
	if bytes%mebi == 0 {
		return fmt.Sprintf("%d MiB", bytes/mebi)
	}
	return fmt.Sprintf("%d KiB", bytes/kibi)
}

// unreadable returns the number of the first line that is not text, or 0.
func (s *source) unreadable() int {
	for i, line := range s.lines {
		if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
			return i + 1
		}
	}
	return 0
}

// bounded rejects what would cost the parser too much.
func (f Format) bounded(src *source, tokens token.Tokens) error {
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
		if keys > f.MaxKeys {
			return src.mistake(line, t.Position.Column, fmt.Sprintf("more than %d keys", f.MaxKeys))
		}
	}
	return nil
}

// syntaxError gives an error of the parser our form. Its message may hold a
// single character of the file, never more.
func syntaxError(src *source, err error) error {
	syntax, ok := errors.AsType[*yaml.SyntaxError](err)
	if !ok || syntax.Token == nil || syntax.Token.Position == nil {
		return fmt.Errorf("%s: is not valid YAML", src.name)
	}
	at := syntax.Token.Position
	message := strings.ReplaceAll(syntax.Message, "\t", `\t`)
	return src.mistake(at.Line, at.Column, "is not valid YAML: "+message+hint(syntax.Message, src.starBefore(at)))
}

// hint says what to do about a message of the parser. A star before the place
// was taken for an alias.
func hint(message string, star bool) string {
	has := func(word string) bool { return strings.Contains(message, word) }
	switch {
	case star || has("alias"):
		return `; a text that begins with * goes in quotes, as in "*"`
	case has("tab"), has("\t"):
		return "; indent with spaces"
	case has("directive"), has("reserved"):
		return "; put a text that begins with % or @ in quotes"
	}
	return ""
}

// starBefore reports whether the character before a place is a star.
func (s *source) starBefore(at *token.Position) bool {
	if at.Line < 1 || at.Line > len(s.lines) {
		return false
	}
	line := []rune(s.lines[at.Line-1])
	return at.Column >= 2 && at.Column-2 < len(line) && line[at.Column-2] == '*'
}

// onlyDocument returns the body of the single document of a file.
func (f Format) onlyDocument(src *source, file *ast.File) (ast.Node, error) {
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
		return nil, fmt.Errorf("%s: is empty; %s", src.name, f.Empty)
	}
	return only, nil
}
