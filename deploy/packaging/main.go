// Command packaging makes of the programs of a release what people download: archives, packages of
// Debian and of RPM, an image, and the licences of what is inside. It prints the version. `make release`
// calls it.
//
// The same programs give the same bytes, wherever and whenever it runs: each time in what it writes is
// SOURCE_DATE_EPOCH, the time of the commit.
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
)

// A release is what is packed.
type release struct {
	root  string // the sources
	bin   string // programs: OS-ARCH/holter
	share string // manual pages in man, completions in completions
	dist  string // where everything goes
	when  time.Time

	sizeLimit int64 // bytes of a program for Linux; 0: none

	version   string // as the toolchain stamped it, without the v
	platforms []platform
	notice    []byte
}

// A platform is one program of a release.
type platform struct{ os, arch, program string }

func main() {
	var r release
	flag.StringVar(&r.root, "root", "../..", "folder of the sources")
	flag.StringVar(&r.bin, "bin", "", "folder of the programs, OS-ARCH/holter")
	flag.StringVar(&r.share, "share", "", "folder of what holter manual and holter completion wrote")
	flag.StringVar(&r.dist, "dist", "", "folder to write to")
	flag.Int64Var(&r.sizeLimit, "size-limit", 0, "fail if a program for Linux has more bytes")
	flag.Parse()
	if err := r.make(); err != nil {
		fmt.Fprintf(os.Stderr, "packaging: %v\n", err)
		os.Exit(1)
	}
	_, _ = fmt.Fprintln(os.Stdout, r.version)
}

// make writes everything.
func (r *release) make() error {
	if err := r.open(); err != nil {
		return err
	}
	for _, step := range []func() error{r.archives, r.packages, r.image} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// open looks at what is there, and collects the licences.
func (r *release) open() error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH is to be the time of the commit in seconds, as git log -1 --format=%ct prints it")
	}
	r.when = time.Unix(seconds, 0).UTC()
	programs, err := filepath.Glob(filepath.Join(r.bin, "*", "holter*"))
	if err != nil || len(programs) == 0 {
		return fmt.Errorf("%s has no programs: %v", r.bin, err) //nolint:errorlint // of a constant pattern
	}
	modules := map[string]string{}
	for _, program := range programs {
		system, arch, _ := strings.Cut(filepath.Base(filepath.Dir(program)), "-")
		r.platforms = append(r.platforms, platform{system, arch, program})
		if err := r.look(program, modules); err != nil {
			return err
		}
	}
	if err := r.accept(); err != nil {
		return err
	}
	if r.notice, err = notice(r.root, modules); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dist, 0o755); err != nil { //nolint:gosec // for everybody
		return err
	}
	return r.write("NOTICE", r.notice, 0o644)
}

// look reads from a program its version and the modules inside.
func (r *release) look(program string, modules map[string]string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(info.Main.Version, "v")
	if version == "" || version == "(devel)" {
		version = "0.0.0-devel" // no repository, or a work tree of one, in which Go finds none
	}
	if r.version != "" && r.version != version {
		return fmt.Errorf("%s has version %s, and others have %s; build all of them anew", program, version, r.version)
	}
	r.version = version
	for _, m := range info.Deps {
		if m.Replace != nil {
			return fmt.Errorf("%s has a replaced module: %s", program, m.Path)
		}
		modules[m.Path] = m.Version
	}
	return nil
}

// accept fails if a program is too large, or if the changelog has nothing on the version of a tag.
func (r *release) accept() error {
	for _, p := range r.platforms {
		info, err := os.Stat(p.program)
		if err != nil {
			return err
		}
		if p.os == "linux" && r.sizeLimit > 0 && info.Size() > r.sizeLimit {
			return fmt.Errorf("%s has %d bytes, and may have %d; see docs/contribute/release.md", p.program, info.Size(), r.sizeLimit)
		}
	}
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if isTag(r.version) && !strings.Contains(string(changelog), "\n## ["+r.version+"]") {
		return fmt.Errorf("CHANGELOG.md has no section \"## [%s]\"; name what is under Unreleased so, and tag that commit", r.version)
	}
	return nil
}

// isTag reports whether a version is that of a tag, not one that the toolchain made of a time and a
// commit, or of changed files.
func isTag(version string) bool {
	return version != "0.0.0-devel" && !module.IsPseudoVersion("v"+strings.TrimSuffix(version, "+dirty")) && !strings.HasSuffix(version, "+dirty")
}
