package main

import (
	"bytes"
	"fmt"
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
				return fmt.Errorf("%s of %s: %w", format, p.program, err)
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
	contents := map[string][]byte{"NOTICE": r.notice, "changelog.gz": gzipped(changelog), "changelog.yaml": r.entry()}
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		contents[filepath.Base(page)+".gz"] = gzipped(content)
	}
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(work, name), content, 0o600); err != nil {
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
	info = nfpm.WithDefaults(info) // with the time of SOURCE_DATE_EPOCH

	for _, c := range info.Contents { // nobody's umask counts
		if c.FileInfo == nil {
			c.FileInfo = &files.ContentFileInfo{Mode: 0o644}
		}
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return r.write(strings.ReplaceAll(packager.ConventionalFileName(info), "~", "-"), b.Bytes(), 0o644)
}
