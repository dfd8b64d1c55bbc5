//go:build !race

// With the race detector this would take a minute; `make cross` runs it without.

package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestClientBuildsElsewhere checks the types of the program as other systems have it. That is also what keeps the
// server, whose event loops are those of Linux, out of the commands for operators.
//
// It compiles nothing: packages that are not of this module are read without the bodies of their functions, which
// takes seconds where a build for another system takes minutes.
func TestClientBuildsElsewhere(t *testing.T) {
	for _, platform := range []string{"darwin/arm64", "windows/amd64"} { // darwin/amd64 has the same files of ours
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			system, arch, _ := strings.Cut(platform, "/")
			cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./cmd/holter")
			cmd.Dir, cmd.Env = moduleRoot(t), append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("list the dependencies: %v", err)
			}
			mistakes, err := typeCheck(out, arch)
			if err != nil {
				t.Fatal(err)
			}
			for _, mistake := range mistakes {
				t.Error(mistake)
			}
		})
	}
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // of what the standard library brings along
	Module          *struct{ Main bool }
}

// typeCheck returns the mistakes in packages of this module. It reads what go list wrote, where each package
// comes after what it imports.
func typeCheck(list []byte, arch string) (mistakes []error, err error) {
	done := map[string]*types.Package{"unsafe": types.Unsafe}
	ours := 0
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF) && ours == 0:
			return nil, errors.New("go list named no package of this module")
		case errors.Is(err, io.EOF):
			return mistakes, nil
		case err != nil:
			return nil, err
		}
		if p.isOurs() {
			ours++
		}
		if done[p.ImportPath] == nil {
			mistakes = append(mistakes, p.check(arch, done)...)
		}
	}
}

func (p *listed) isOurs() bool { return p.Module != nil && p.Module.Main }

// check adds a package to those that are done. Of packages that are not ours it returns no mistakes: the assembler
// and the linker complete them.
func (p *listed) check(arch string, done map[string]*types.Package) (mistakes []error) {
	var files []*ast.File
	fset := token.NewFileSet()
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return []error{err}
		}
		files = append(files, file)
	}
	config := types.Config{
		IgnoreFuncBodies: !p.isOurs(),
		Sizes:            types.SizesFor("gc", arch),
		Importer: importer(func(path string) (*types.Package, error) {
			if vendored := p.ImportMap[path]; vendored != "" {
				path = vendored
			}
			return done[path], nil
		}),
		Error: func(err error) {
			if p.isOurs() {
				mistakes = append(mistakes, err)
			}
		},
	}
	done[p.ImportPath], _ = config.Check(p.ImportPath, fset, files, nil) // Error has its errors
	return mistakes
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
