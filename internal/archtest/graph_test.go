package archtest_test

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/holter-iot/holter"

// A pkg is one package of this module.
type pkg struct {
	path    string   // below the module, "." for its root
	name    string   // as its files call it
	imports []string // packages of this module, sorted, each below the module
	code    []string // those of them that it imports outside of tests
}

// loadGraph reads the packages of the module in root, but not those of the
// modules nested in it. It opens the files itself, rather than ask the go
// command, so that `go test` knows when its cached result is out of date.
func loadGraph(root string) ([]pkg, error) {
	var pkgs []pkg
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if dir != root && skipped(dir, d.Name()) {
			return filepath.SkipDir
		}
		b, err := build.ImportDir(dir, 0)
		if _, empty := errors.AsType[*build.NoGoError](err); empty {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read package: %w", err)
		}
		path, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		pkgs = append(pkgs, pkg{
			path:    filepath.ToSlash(path),
			name:    b.Name,
			imports: ours(b.Imports, b.TestImports, b.XTestImports),
			code:    ours(b.Imports),
		})
		return nil
	})
	return pkgs, err
}

// skipped reports whether the go command would pass over dir, or dir is a
// module of its own.
func skipped(dir, name string) bool {
	if name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// ours returns the imports that lie in this module, each below the module.
func ours(lists ...[]string) []string {
	var found []string
	for _, path := range slices.Concat(lists...) {
		if path == module {
			found = append(found, ".")
		} else if below, ok := strings.CutPrefix(path, module+"/"); ok {
			found = append(found, below)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// part returns the part of the module that path belongs to: the longest entry
// of the table that path equals or lies below. It is "" where there is none.
func (t table) part(path string) string {
	longest := ""
	for entry := range t {
		if within(path, entry) && len(entry) > len(longest) {
			longest = entry
		}
	}
	return longest
}

// within reports whether path is folder or lies below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// violations returns a sentence for each import that the table does not allow,
// and for each package that it does not know.
func (t table) violations(pkgs []pkg) []string {
	var found []string
	for _, p := range pkgs {
		from := t.part(p.path)
		if from == "" {
			found = append(found, fmt.Sprintf(
				"package %s is not in the table: say in directions() what it may import, and who may import it", p.path))
			continue
		}
		for _, imp := range p.imports {
			to := t.part(imp)
			helper := to == "internal" && within(imp, "internal/test") && !slices.Contains(p.code, imp) // for everybody's tests
			if to == from || helper || slices.Contains(t[from], to) {
				continue
			}
			found = append(found, fmt.Sprintf(
				"%s imports %s, but %s may import of this module only %v: declare a small interface in %s and let cmd wire it, or move the code down",
				p.path, imp, from, t[from], p.path))
		}
	}
	return found
}

// vague returns a sentence for each package whose path or name is of no use.
func vague(pkgs []pkg, names []string) []string {
	var found []string
	for _, p := range pkgs {
		for _, word := range append(strings.Split(p.path, "/"), p.name) {
			if slices.Contains(names, word) {
				found = append(found, fmt.Sprintf(
					"package %s is called %s: name it for what it provides", p.path, word))
				break
			}
		}
	}
	return found
}

// strangers returns a sentence for each dependency that is not one of the
// allowed packages, nor below one.
func strangers(of string, deps, allowed []string) []string {
	var found []string
	for _, dep := range deps {
		if !slices.ContainsFunc(allowed, func(a string) bool { return within(dep, a) }) {
			found = append(found, fmt.Sprintf(
				"a program that imports %s pulls in %s: leave it out, or take it as an argument from who needs it", of, dep))
		}
	}
	return found
}
