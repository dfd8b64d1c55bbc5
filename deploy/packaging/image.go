package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const user = 65532 // holter in the image; no user of the machine

// image writes a tar with an OCI layout of an image for each program for Linux. It has a manifest.json
// as well, for a docker that knows its own form only.
func (r *release) image() error {
	tag := "holter:" + strings.ReplaceAll(r.version, "+", "-")
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var manifest tarball.Manifest
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		img, err := r.build(p)
		if err != nil {
			return fmt.Errorf("image of %s: %w", p.program, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
		entry, err := dockerEntry(img, tag+"-"+p.arch)
		if err != nil {
			return err
		}
		if p.arch == "amd64" {
			entry.RepoTags = append(entry.RepoTags, tag)
		}
		manifest = append(manifest, entry)
	}
	// One entry at the top, so that nobody who loads it has to choose.
	top := mutate.IndexMediaType(mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{
		"io.containerd.image.name":          "docker.io/library/" + tag,
		"org.opencontainers.image.ref.name": strings.TrimPrefix(tag, "holter:"),
	}}}), types.OCIImageIndex)
	return r.writeImage(top, manifest)
}

// dockerEntry is an entry of manifest.json.
func dockerEntry(img v1.Image, tag string) (e tarball.Descriptor, err error) {
	m, err := img.Manifest()
	if err != nil {
		return e, err
	}
	blob := func(d v1.Descriptor) string { return "blobs/sha256/" + d.Digest.Hex }
	e = tarball.Descriptor{Config: blob(m.Config), RepoTags: []string{tag}}
	for _, l := range m.Layers {
		e.Layers = append(e.Layers, blob(l))
	}
	return e, nil
}

// build returns the image of one program: from nothing, with the authorities that are trusted, a user
// and /data in the first layer, and the program in the second. Time zones are inside the program.
func (r *release) build(p platform) (v1.Image, error) {
	program, err := os.ReadFile(p.program)
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	base, err := r.layer(
		file{name: "data/", mode: 0o750, owner: user},
		file{name: "etc/", mode: 0o755},
		file{name: "etc/ssl/", mode: 0o755},
		file{name: "etc/ssl/certs/", mode: 0o755},
		file{name: "tmp/", mode: 0o1777},
		file{name: "etc/passwd", content: fmt.Appendf(nil, "root:x:0:0:root:/:/\nholter:x:%d:%d:Holter:/data:/\n", user, user), mode: 0o644},
		file{name: "etc/group", content: fmt.Appendf(nil, "root:x:0:\nholter:x:%d:\n", user), mode: 0o644},
		file{name: "etc/ssl/certs/ca-certificates.crt", content: authorities(), mode: 0o644},
	)
	if err != nil {
		return nil, err
	}
	top, err := r.layer(
		file{name: "usr/", mode: 0o755},
		file{name: "usr/bin/", mode: 0o755},
		file{name: "usr/share/", mode: 0o755},
		file{name: "usr/share/doc/", mode: 0o755},
		file{name: "usr/share/doc/holter/", mode: 0o755},
		file{name: "usr/bin/holter", content: program, mode: 0o755},
		file{name: "usr/share/doc/holter/LICENSE", content: licence, mode: 0o644},
		file{name: "usr/share/doc/holter/NOTICE", content: r.notice, mode: 0o644},
	)
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), base, top)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, r.config(p, img))
}

// config is how the image is run. The command opens the ports to other machines, since nobody could
// connect otherwise; one's own command replaces it as a whole.
func (r *release) config(p platform, img v1.Image) *v1.ConfigFile {
	file, _ := img.ConfigFile()
	c := file.DeepCopy()
	c.OS, c.Architecture, c.Created = p.os, p.arch, v1.Time{Time: r.when}
	c.History = nil
	c.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/data", Env: []string{"HOLTER_DATA=/data", "PATH=/usr/bin"},
		Entrypoint:   []string{"/usr/bin/holter"},
		Cmd:          []string{"serve", "--listen", "0.0.0.0:7700", "--mqtt", "0.0.0.0:1883", "--http", "0.0.0.0:8080"},
		ExposedPorts: map[string]struct{}{"7700/tcp": {}, "1883/tcp": {}, "8080/tcp": {}},
		Volumes:      map[string]struct{}{"/data": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "holter", "org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source": "https://github.com/holter-iot/holter",
		},
	}
	return c
}

// authorities returns the certificates that the Go project takes from Mozilla, at the version of go.mod.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes everything
	}
	return b.Bytes()
}

// layer returns a layer of files.
func (r *release) layer(files ...file) (v1.Layer, error) {
	b, err := asTar(files, r.when)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, tarball.WithMediaType(types.OCILayer))
}

// writeImage writes the tar.
func (r *release) writeImage(index v1.ImageIndex, manifest tarball.Manifest) error {
	work, err := os.MkdirTemp("", "holter-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if _, err := layout.Write(work, index); err != nil {
		return err
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "manifest.json"), text, 0o600); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(work, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(work, path)
		files = append(files, file{name: filepath.ToSlash(name), content: content, mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	image, err := asTar(files, r.when)
	if err != nil {
		return err
	}
	return r.write("holter_"+r.version+"_image.tar", image, 0o644)
}
