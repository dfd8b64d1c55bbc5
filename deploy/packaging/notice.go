package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// allowed lists the licences, by SPDX, that what is inside a program may have.
func allowed() []string {
	return []string{
		"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense", "Zlib",
	}
}

// read lists files that no tool understands, or that are not allowed by themselves, and were read.
func read() []string {
	return []string{
		"github.com/eclipse/paho.mqtt.golang LICENSE",            // EPL-2.0 or EDL-1.0, which is BSD-3-Clause, as one likes: edl-v10 beside it is the one taken
		"github.com/wneessen/go-mail go.sum.license",             // MIT, by its SPDX identifier
		"github.com/wneessen/go-mail assets/gopher2.svg.license", // CC-BY-ND-4.0, of a picture that is in no program
		"modernc.org/memory LICENSE-LOGO",                        // of a picture that is in no program
		"modernc.org/sqlite LICENSE-SQLITE",                      // public domain
	}
}

// licenceFile matches the names of files that are passed on with a program.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|notice|patents|unlicense|edl)([-_.].*)?$|^.*[-_.]licen[cs]e(\.(txt|md))?$`)

// notice returns the licences of all modules, by path and version, of the standard library, and of
// what lies in the sources. It fails for a module without a licence, or with one that is not allowed.
func notice(root string, modules map[string]string) ([]byte, error) {
	env, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output() //nolint:noctx // answers at once
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	goroot, cache, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	var b bytes.Buffer
	fmt.Fprintln(&b, "Holter is licensed under the Apache License 2.0, see LICENSE.\nIts programs contain the work of others, under the licences below.")
	problems := []error{addLicences(&b, "Go "+strings.TrimPrefix(runtime.Version(), "go"), goroot, false)}
	for _, folder := range []string{"internal/console/npm", "internal/loadgen/report/uplot"} {
		problems = append(problems, addLicences(&b, folder, filepath.Join(root, folder), true))
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		name, err := module.EscapePath(path)
		version, wrong := module.EscapeVersion(modules[path])
		problems = append(problems, err, wrong, addLicences(&b, path+" "+modules[path], filepath.Join(cache, name+"@"+version), true))
	}
	return b.Bytes(), errors.Join(problems...)
}

// addLicences appends what a folder has of licences; deep: in folders below it, too.
func addLicences(b io.Writer, name, folder string, deep bool) error {
	files, err := licences(folder, deep)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	found := false
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f))
		if err != nil {
			return err
		}
		module, _, _ := strings.Cut(name, " ")
		base := strings.ToLower(filepath.Base(f))
		if !strings.HasPrefix(base, "notice") && !strings.HasPrefix(base, "patents") && !slices.Contains(read(), module+" "+f) {
			if err := check(text); err != nil {
				return fmt.Errorf("%s: %s: %w", name, f, err)
			}
			found = true
		}
		_, _ = fmt.Fprintf(b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), name, filepath.ToSlash(f), strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	if !found {
		return fmt.Errorf("%s: no licence in %s", name, folder)
	}
	return nil
}

// licences returns the files with licences in a folder and, if deep, below it, but for tests and examples.
func licences(folder string, deep bool) (files []string, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != folder && (!deep || slices.Contains([]string{"testdata", "examples", "_examples", "example", "vendor"}, e.Name())):
			return fs.SkipDir
		case !e.IsDir() && licenceFile.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go":
			relative, _ := filepath.Rel(folder, path)
			files = append(files, relative)
		}
		return nil
	})
	return files, err
}

// check fails if a text is no licence that is allowed.
func check(text []byte) error {
	coverage := licensecheck.Scan(text)
	if len(coverage.Match) == 0 {
		return errors.New("the text is no licence that is known; read it, and name it in deploy/packaging/notice.go")
	}
	for _, m := range coverage.Match {
		if !slices.Contains(allowed(), m.ID) {
			return fmt.Errorf("the licence %s is not allowed; see deploy/packaging/notice.go", m.ID)
		}
	}
	return nil
}
