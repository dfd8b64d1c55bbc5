package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	user     = 65532 // holter in the image; no user of the machine
	userText = "65532:65532"
)

// image writes a tar with an OCI layout of an image for each program for Linux. It has a manifest.json
// as well, for a docker that knows its own form only.
func (r *release) image() error {
	tag := "holter:" + strings.ReplaceAll(r.version, "+", "-")
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var manifest []dockerImage
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		img, err := r.build(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
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

// A dockerImage is an entry of manifest.json.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func dockerEntry(img v1.Image, tag string) (e dockerImage, err error) {
	config, err := img.ConfigName()
	if err != nil {
		return e, err
	}
	layers, err := img.Layers()
	if err != nil {
		return e, err
	}
	e = dockerImage{Config: "blobs/sha256/" + config.Hex, RepoTags: []string{tag}}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return e, err
		}
		e.Layers = append(e.Layers, "blobs/sha256/"+digest.Hex)
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
	base := []*tar.Header{
		{Name: "data/", Mode: 0o750, Uid: user, Gid: user},
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/ssl/", Mode: 0o755},
		{Name: "etc/ssl/certs/", Mode: 0o755},
		{Name: "tmp/", Mode: 0o1777},
	}
	first, err := r.layer(base, []file{
		{"etc/passwd", fmt.Appendf(nil, "root:x:0:0:root:/:/\nholter:x:%d:%d:Holter:/data:/\n", user, user), 0o644},
		{"etc/group", fmt.Appendf(nil, "root:x:0:\nholter:x:%d:\n", user), 0o644},
		{"etc/ssl/certs/ca-certificates.crt", authorities(), 0o644},
	})
	if err != nil {
		return nil, err
	}
	folders := []*tar.Header{{Name: "usr/", Mode: 0o755}, {Name: "usr/bin/", Mode: 0o755}, {Name: "usr/share/", Mode: 0o755}, {Name: "usr/share/doc/", Mode: 0o755}, {Name: "usr/share/doc/holter/", Mode: 0o755}}
	second, err := r.layer(folders, []file{
		{"usr/bin/holter", program, 0o755}, {"usr/share/doc/holter/LICENSE", licence, 0o644}, {"usr/share/doc/holter/NOTICE", r.notice, 0o644},
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), first, second)
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
		User: userText, WorkingDir: "/data", Env: []string{"HOLTER_DATA=/data", "PATH=/usr/bin"},
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

// layer returns a layer of folders and files.
func (r *release) layer(folders []*tar.Header, files []file) (v1.Layer, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, h := range folders {
		h.Typeflag, h.ModTime, h.Format = tar.TypeDir, r.when, tar.FormatUSTAR
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		if err := addFile(t, f, r.when); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}

// addFile appends a file to a tar.
func addFile(t *tar.Writer, f file, when time.Time) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.content)), Mode: f.mode, ModTime: when, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := t.Write(f.content)
	return err
}

// writeImage writes the tar.
func (r *release) writeImage(index v1.ImageIndex, manifest []dockerImage) error {
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
	return create(r.name("image.tar"), func(w io.Writer) error {
		t := tar.NewWriter(w)
		err := filepath.WalkDir(work, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(work, path)
			return addFile(t, file{filepath.ToSlash(name), content, 0o644}, r.when)
		})
		if err != nil {
			return err
		}
		return t.Close()
	})
}
