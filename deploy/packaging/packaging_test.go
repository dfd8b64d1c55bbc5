package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestDebianPackage builds the package for this machine, and looks at what is in it.
func TestDebianPackage(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg-deb")
	switch {
	case err != nil && os.Getenv("HOLTER_TEST_TOOLS") == "all":
		t.Fatal("dpkg-deb is not installed (HOLTER_TEST_TOOLS=all asks for it)")
	case err != nil || runtime.GOOS != "linux":
		t.Skip("NOT TESTED: dpkg-deb is not installed, or this is not Linux")
	}
	r := build(t)
	if err := r.make(); err != nil {
		t.Fatal(err)
	}
	debs, err := filepath.Glob(filepath.Join(r.dist, "*.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatalf("packages: %v, %v; want one", debs, err)
	}
	listing := output(t, dpkg, "-c", debs[0])
	for _, name := range []string{
		"-rwxr-xr-x root/root ./usr/bin/holter", "-rw-r--r-- root/root ./etc/holter/holter.yaml",
		"-rw-r--r-- root/root ./usr/lib/systemd/system/holter.service", "-rw-r--r-- root/root ./usr/lib/sysusers.d/holter.conf",
		"-rw-r--r-- root/root ./usr/share/man/man1/holter.1.gz", "-rw-r--r-- root/root ./usr/share/man/man1/holter-devices-list.1.gz",
		"-rw-r--r-- root/root ./usr/share/bash-completion/completions/holter", "-rw-r--r-- root/root ./usr/share/zsh/vendor-completions/_holter",
		"-rw-r--r-- root/root ./usr/share/fish/vendor_completions.d/holter.fish",
		"-rw-r--r-- root/root ./usr/share/doc/holter/NOTICE", "-rw-r--r-- root/root ./usr/share/doc/holter/copyright", "-rw-r--r-- root/root ./usr/share/doc/holter/changelog.gz",
	} {
		if !lists(listing, name) {
			t.Errorf("the package has no %s:\n%s", name, listing)
		}
	}
	if got := output(t, dpkg, "-f", debs[0], "Version"); !strings.HasPrefix(got, "0.") && !strings.HasPrefix(got, "1.") {
		t.Errorf("Version: %q", got)
	}
	system := t.TempDir()
	output(t, dpkg, "-x", debs[0], system)
	output(t, filepath.Join(system, "usr/bin/holter"), "config", "check", filepath.Join(system, "etc/holter/holter.yaml"))
}

// lists reports whether a listing of dpkg-deb has a line with the mode, the owner and the name.
func lists(listing, want string) bool {
	for line := range strings.Lines(listing) {
		if f := strings.Fields(line); len(f) == 6 && f[0]+" "+f[1]+" "+f[5] == want {
			return true
		}
	}
	return false
}

// build builds the program of this machine, its manual and its completions. The flags are those of other
// tests, but for the linker's, so that nothing is compiled anew.
func build(t *testing.T) *release {
	t.Helper()
	dir := t.TempDir()
	r := &release{root: filepath.Join("..", ".."), bin: filepath.Join(dir, "bin"), share: filepath.Join(dir, "share"), dist: filepath.Join(dir, "dist")}
	program := filepath.Join(r.bin, runtime.GOOS+"-"+runtime.GOARCH, "holter")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", program, "./cmd/holter")
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	output(t, program, "manual", filepath.Join(r.share, "man"))
	if err := os.MkdirAll(filepath.Join(r.share, "completions"), 0o750); err != nil {
		t.Fatal(err)
	}
	for shell, name := range map[string]string{"bash": "holter.bash", "zsh": "_holter", "fish": "holter.fish"} {
		if err := os.WriteFile(filepath.Join(r.share, "completions", name), []byte(output(t, program, "completion", shell)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	return r
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestArchives packs what stands for programs. Only Linux has all commands, and their manual.
func TestArchives(t *testing.T) {
	dir := t.TempDir()
	r := &release{root: filepath.Join(dir, "root"), share: filepath.Join(dir, "share"), dist: dir, version: "1.2.3"}
	for name, text := range map[string]string{
		"root/LICENSE": "l", "root/CHANGELOG.md": "c", "root/deploy/packaging/holter.yaml": "y", "share/man/holter.1": "m", "share/completions/_holter": "z",
		"linux-arm64/holter": "L", "darwin-arm64/holter": "D", "windows-amd64/holter.exe": "W",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	r.platforms = []platform{
		{"linux", "arm64", filepath.Join(dir, "linux-arm64", "holter")},
		{"darwin", "arm64", filepath.Join(dir, "darwin-arm64", "holter")},
		{"windows", "amd64", filepath.Join(dir, "windows-amd64", "holter.exe")},
	}
	if err := r.archives(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"holter_1.2.3_linux_arm64":   "holter NOTICE LICENSE CHANGELOG.md holter.yaml man/holter.1 completions/_holter",
		"holter_1.2.3_darwin_arm64":  "holter NOTICE LICENSE CHANGELOG.md completions/_holter",
		"holter_1.2.3_windows_amd64": "holter.exe NOTICE LICENSE CHANGELOG.md completions/_holter",
	} {
		var got []string
		if strings.Contains(name, "windows") {
			got = zipped(t, filepath.Join(dir, name+".zip"))
		} else {
			got = strings.Fields(output(t, "tar", "-tzf", filepath.Join(dir, name+".tar.gz")))
		}
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], name+"/")
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != strings.Contains(name, "linux") {
			t.Errorf("the bare program %s: %v", name, err)
		}
	}
}

// zipped returns the names of the files in an archive.
func zipped(t *testing.T, name string) (names []string) {
	t.Helper()
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	return names
}

func TestIsTag(t *testing.T) {
	for version, want := range map[string]bool{
		"0.1.0":                               true,
		"1.0.0-rc.1":                          true,
		"0.1.0+dirty":                         false,
		"0.0.0-devel":                         false,
		"0.0.0-20261127155441-95d13086c410":   false,
		"0.1.1-0.20261127155441-95d13086c410": false,
		"0.1.1-0.20261127155441-95d13086c410+dirty": false,
	} {
		if got := isTag(version); got != want {
			t.Errorf("isTag(%q) = %v, want %v", version, got, want)
		}
	}
}

func TestAccept(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "holter")
	write(t, program, "12345678")
	for _, test := range []struct {
		name, version, changelog string
		limit                    int64
		want                     string // in the error; empty: none
	}{
		{"a tag with its section", "0.1.0", "# Changelog\n\n## [0.1.0] - 2026-12-01\n", 0, ""},
		{"a tag without one", "0.1.0", "# Changelog\n\n## [Unreleased]\n", 0, `no section "## [0.1.0]"`},
		{"a commit without a tag", "0.0.0-20261127155441-95d13086c410", "# Changelog\n", 0, ""},
		{"too large", "0.1.0", "\n## [0.1.0]\n", 7, "has 8 bytes, and may have 7"},
		{"just so large", "0.1.0", "\n## [0.1.0]\n", 8, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			write(t, filepath.Join(dir, "CHANGELOG.md"), test.changelog)
			r := &release{root: dir, version: test.version, sizeLimit: test.limit, platforms: []platform{{"linux", "amd64", program}}}
			err := r.accept()
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("accept() = %v, want %q", err, test.want)
			}
		})
	}
}

func TestLicences(t *testing.T) {
	mit := "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the \"Software\"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:\n\nThe above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.\n"
	gpl := "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.\n"
	for _, test := range []struct{ name, file, text, want string }{
		{"allowed", "LICENSE", mit, ""},
		{"in a folder below", "deep/LICENSE.txt", mit, ""},
		{"forbidden", "COPYING", gpl, "is not allowed"},
		{"unknown", "LICENSE", "Do what you like on Tuesdays.\n", "no licence that is known"},
		{"none", "README.md", mit, "no licence in"},
		{"only of a test", "testdata/LICENSE", mit, "no licence in"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, test.file), test.text)
			var b strings.Builder
			err := addLicences(&b, "example.com/module v1.0.0", dir, true)
			switch {
			case test.want != "":
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("addLicences() = %v, want an error with %q", err, test.want)
				}
			case err != nil:
				t.Errorf("addLicences() = %v", err)
			case !strings.Contains(b.String(), strings.TrimSpace(mit)):
				t.Errorf("the notice lacks the text:\n%s", b.String())
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
