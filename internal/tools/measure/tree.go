package main

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// size holds the measures of one package, or of several added up.
type size struct {
	files     []int // lines of each file that is not a test
	functions []int // lines of each function in them
	code      int   // lines with code
	comments  int   // lines with a comment and no code
	names     int   // exported types, functions, variables and constants
	methods   int   // exported methods
	testLines int
}

func (s *size) add(o size) {
	s.files = append(s.files, o.files...)
	s.functions = append(s.functions, o.functions...)
	s.code += o.code
	s.comments += o.comments
	s.names += o.names
	s.methods += o.methods
	s.testLines += o.testLines
}

// pkg is one folder with Go files.
type pkg struct {
	folder   string // relative to the root, with slashes
	size     size
	exported []string
}

// tree holds the packages below a root, ordered by folder.
type tree struct {
	packages []*pkg
	used     map[string]map[string]bool // import path's end → name → used outside its package, not by a test
}

func load(root string) (*tree, error) {
	t := &tree{used: map[string]map[string]bool{}}
	byFolder := map[string]*pkg{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		p := byFolder[folder]
		if p == nil {
			p = &pkg{folder: filepath.ToSlash(folder)}
			byFolder[folder] = p
			t.packages = append(t.packages, p)
		}
		return t.read(p, name)
	})
	slices.SortFunc(t.packages, func(a, b *pkg) int { return strings.Compare(a.folder, b.folder) })
	return t, err
}

// read adds the file to the measures of p.
func (t *tree) read(p *pkg, name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := bytes.Count(text, []byte("\n"))
	if strings.HasSuffix(name, "_test.go") {
		p.size.testLines += lines
		return nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.size.files = append(p.size.files, lines)
	code, comments := countLines(files, file, text)
	p.size.code += code
	p.size.comments += comments
	for _, decl := range file.Decls {
		p.declare(files, decl)
	}
	t.use(file)
	return nil
}

func (p *pkg) declare(files *token.FileSet, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		p.size.functions = append(p.size.functions, files.Position(d.End()).Line-files.Position(d.Pos()).Line+1)
		switch {
		case !d.Name.IsExported():
		case d.Recv != nil:
			p.size.methods++
		default:
			p.export(d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				p.export(s.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					p.export(name)
				}
			}
		}
	}
}

func (p *pkg) export(name *ast.Ident) {
	if name.IsExported() {
		p.size.names++
		p.exported = append(p.exported, name.Name)
	}
}

// use notes which names of imported packages the file mentions. A local variable that hides a
// package's name makes a name count as used, no more.
func (t *tree) use(file *ast.File) {
	local := map[string]string{}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		local[name] = imported
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && local[x.Name] != "" {
			imported := local[x.Name]
			if t.used[imported] == nil {
				t.used[imported] = map[string]bool{}
			}
			t.used[imported][selector.Sel.Name] = true
		}
		return true
	})
}

// unused returns the exported names of p that no other package mentions outside of tests.
func (t *tree) unused(p *pkg) []string {
	var names []string
	for _, name := range p.exported {
		if !t.mentioned(p.folder, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (t *tree) mentioned(folder, name string) bool {
	for imported, names := range t.used {
		if strings.HasSuffix(imported, "/"+folder) && names[name] {
			return true
		}
	}
	return false
}

// countLines returns how many lines of the file hold code, and how many hold only a comment.
func countLines(files *token.FileSet, file *ast.File, text []byte) (code, comments int) {
	commented := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			for line := files.Position(c.Pos()).Line; line <= files.Position(c.End()).Line; line++ {
				commented[line] = true
			}
		}
	}
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for line := 1; scanner.Scan(); line++ {
		trimmed := strings.TrimSpace(scanner.Text())
		switch {
		case trimmed == "":
		case commented[line] && (strings.HasPrefix(trimmed, "//") || strings.HasPrefix(trimmed, "/*")):
			comments++
		default:
			code++
		}
	}
	return code, comments
}
