package main

import (
	"bytes"
	"encoding/json"
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
	folders, err := moduleFolders(root, modules)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, "Holter is licensed under the Apache License 2.0, see LICENSE.\nIts programs contain the work of others, under the licences below.")
	var problems []error
	add := func(name, folder string) {
		if err := addLicences(&b, name, folder); err != nil {
			problems = append(problems, err)
		}
	}
	add("Go "+strings.TrimPrefix(runtime.Version(), "go"), goroot())
	for _, folder := range []string{"internal/console/npm", "internal/loadgen/report/uplot"} {
		add(folder, filepath.Join(root, folder))
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		add(path+" "+modules[path], folders[path])
	}
	return b.Bytes(), errors.Join(problems...)
}

// moduleFolders returns where the module cache has the modules.
func moduleFolders(root string, modules map[string]string) (map[string]string, error) {
	args := []string{"list", "-m", "-json"}
	args = append(args, slices.Sorted(maps.Keys(modules))...)
	cmd := exec.Command("go", args...) //nolint:gosec,noctx // paths of modules
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	folders := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir string }
		err := d.Decode(&m)
		switch {
		case err == io.EOF: // as Decode documents it
			return folders, nil
		case err != nil:
			return nil, err
		case m.Version != modules[m.Path]:
			return nil, fmt.Errorf("%s is %s in go.mod, and %s in a program; build it anew", m.Path, m.Version, modules[m.Path])
		}
		folders[m.Path] = m.Dir
	}
}

// goroot is the folder of the toolchain, whose licence is that of the standard library.
func goroot() string {
	out, err := exec.Command("go", "env", "GOROOT").Output() //nolint:noctx // answers at once
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// addLicences appends what a folder has of licences, in folders below it, too.
func addLicences(b io.Writer, name, folder string) error {
	files, err := licences(folder)
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

// licences returns the files with licences in a folder and below it, but for tests and examples. Of
// the toolchain's only those at the top count.
func licences(folder string) (files []string, err error) {
	if folder == "" {
		return nil, errors.New("it is not in the module cache; run go mod download")
	}
	top := folder == goroot()
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if path != folder && (top || slices.Contains([]string{"testdata", "examples", "_examples", "example", "vendor"}, e.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if licenceFile.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
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
