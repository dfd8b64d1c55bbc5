package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"os"
	"path"
	"path/filepath"
	"time"
)

// A file is an entry of an archive; a folder if its name ends in a slash.
type file struct {
	name    string
	content []byte
	mode    int64
	owner   int
}

// archives writes for each platform an archive with the program and its documents; for Linux also the bare
// program.
func (r *release) archives() error {
	documents, err := r.documents()
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		program, err := os.ReadFile(p.program)
		if err != nil {
			return err
		}
		name := "holter_" + r.version + "_" + p.os + "_" + p.arch
		files := []file{{name: path.Join(name, filepath.Base(p.program)), content: program, mode: 0o755}}
		for _, d := range documents {
			if p.os == "linux" || d.name != "holter.yaml" && path.Dir(d.name) != "man" {
				d.name = path.Join(name, d.name)
				files = append(files, d)
			}
		}
		pack, extension := asTarGz, ".tar.gz"
		if p.os == "windows" {
			pack, extension = asZip, ".zip"
		}
		archive, err := pack(files, r.when)
		if err != nil {
			return err
		}
		if err := r.write(name+extension, archive, 0o644); err != nil {
			return err
		}
		if p.os == "linux" {
			if err := r.write(name, program, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// documents are the files beside the program: licences, changelog, completions; and of Linux, where all
// commands are, the example of a configuration and the manual pages.
func (r *release) documents() (files []file, failed error) {
	files = []file{{name: "NOTICE", content: r.notice, mode: 0o644}}
	add := func(folder string, sources ...string) {
		for _, source := range sources {
			content, err := os.ReadFile(source)
			failed = cmp.Or(failed, err)
			files = append(files, file{name: path.Join(folder, filepath.Base(source)), content: content, mode: 0o644})
		}
	}
	add("", filepath.Join(r.root, "LICENSE"), filepath.Join(r.root, "CHANGELOG.md"), filepath.Join(r.root, "deploy", "packaging", "holter.yaml"))
	for _, folder := range []string{"man", "completions"} {
		sources, err := filepath.Glob(filepath.Join(r.share, folder, "*"))
		failed = cmp.Or(failed, err)
		add(folder, sources...)
	}
	return files, failed
}

// write writes a file of dist.
func (r *release) write(name string, content []byte, mode os.FileMode) error {
	return os.WriteFile(filepath.Join(r.dist, name), content, mode)
}

// asTar returns a tar of files.
func asTar(files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, f := range files {
		err := t.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.content)), Mode: f.mode, Uid: f.owner, Gid: f.owner, ModTime: when, Format: tar.FormatUSTAR})
		if err != nil {
			return nil, err
		}
		_, _ = t.Write(f.content) // a Buffer takes everything
	}
	err := t.Close()
	return b.Bytes(), err
}

func asTarGz(files []file, when time.Time) ([]byte, error) {
	archive, err := asTar(files, when)
	return gzipped(archive), err
}

func asZip(files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when}
		header.SetMode(os.FileMode(f.mode)) //nolint:gosec // permissions
		entry, err := z.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		_, _ = entry.Write(f.content)
	}
	err := z.Close()
	return b.Bytes(), err
}

// gzipped returns content compressed, without a time.
func gzipped(content []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = z.Write(content)
	_ = z.Close()
	return b.Bytes()
}
