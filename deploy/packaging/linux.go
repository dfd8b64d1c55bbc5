package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// packages writes a package of Debian and one of RPM for each program for Linux. What is in them is
// said in nfpm.yaml.
func (r *release) packages() error {
	work, err := os.MkdirTemp("", "holter-packages-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := r.stage(work); err != nil {
		return err
	}
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(work, p, format); err != nil {
				return fmt.Errorf("%s for %s: %w", format, p, err)
			}
		}
	}
	return nil
}

// stage writes what packages have and no folder has as they have it: compressed pages, changelogs.
func (r *release) stage(work string) error {
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(r.share, "man", "*.1"))
	if err != nil || len(pages) == 0 {
		return fmt.Errorf("%s/man has no manual pages: %v", r.share, err) //nolint:errorlint // of a constant pattern
	}
	contents := map[string][]byte{"NOTICE": r.notice, "changelog.gz": changelog, "changelog.yaml": r.entry()}
	for _, page := range pages {
		if contents[filepath.Join("man", filepath.Base(page)+".gz")], err = os.ReadFile(page); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(work, "man"), 0o755); err != nil { //nolint:gosec // for everybody
		return err
	}
	for name, content := range contents {
		if err := create(filepath.Join(work, name), func(w io.Writer) error { return plainOrGzip(w, name, content) }); err != nil {
			return err
		}
	}
	return nil
}

// entry is this release in the changelogs that are packages' own. What changed is in CHANGELOG.md.
func (r *release) entry() []byte {
	return fmt.Appendf(nil, `- semver: %s
  date: %s
  packager: The Holter maintainers <holter-iot@users.noreply.github.com>
  deb: {urgency: medium, distributions: [stable]}
  changes:
    - note: "Release; what changed is in /usr/share/doc/holter/changelog.gz"
`, r.version, r.when.Format("2006-01-02T15:04:05Z07:00"))
}

// pack writes one package.
func (r *release) pack(work string, p platform, format string) error {
	spec, err := os.ReadFile(filepath.Join(r.root, "deploy", "packaging", "nfpm.yaml"))
	if err != nil {
		return err
	}
	values := map[string]string{"VERSION": r.version, "ARCH": p.arch, "PROGRAM": p.program, "ROOT": r.root, "SHARE": r.share, "WORK": work}
	config, err := nfpm.Parse(strings.NewReader(os.Expand(string(spec), func(name string) string { return values[name] })))
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = r.when
	info = nfpm.WithDefaults(info)
	for _, c := range info.Contents { // nobody's umask counts
		if c.FileInfo == nil {
			c.FileInfo = &files.ContentFileInfo{}
		}
		c.FileInfo.MTime = r.when
		if c.FileInfo.Mode == 0 && c.Type != "symlink" {
			c.FileInfo.Mode = 0o644
		}
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	name := filepath.Join(r.dist, strings.ReplaceAll(packager.ConventionalFileName(info), "~", "-"))
	return create(name, func(w io.Writer) error { return packager.Package(info, w) })
}
