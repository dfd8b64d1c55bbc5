package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"
)

// A file is an entry of an archive.
type file struct {
	name    string
	content []byte
	mode    int64
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
		files := []file{{filepath.Base(p.program), program, 0o755}}
		for _, d := range documents {
			if p.os == "linux" || d.name != "holter.yaml" && path.Dir(d.name) != "man" {
				files = append(files, d)
			}
		}
		top := "holter_" + r.version + "_" + p.String()
		if p.os == "windows" {
			err = create(r.name("%s.zip", p), func(w io.Writer) error { return writeZip(w, top, files, r.when) })
		} else {
			err = create(r.name("%s.tar.gz", p), func(w io.Writer) error { return writeTarGz(w, top, files, r.when) })
		}
		if err != nil {
			return err
		}
		if p.os == "linux" {
			if err := os.WriteFile(r.name("%s", p), program, 0o755); err != nil { //nolint:gosec // a program
				return err
			}
		}
	}
	return nil
}

// documents are the files beside the program: licences, changelog, completions; and of Linux, where all
// commands are, the example of a configuration and the manual pages.
func (r *release) documents() ([]file, error) {
	files := []file{{"NOTICE", r.notice, 0o644}}
	sources := []string{
		filepath.Join(r.root, "LICENSE"), filepath.Join(r.root, "CHANGELOG.md"), filepath.Join(r.root, "deploy", "packaging", "holter.yaml"),
	}
	for _, folder := range []string{"man", "completions"} {
		entries, err := os.ReadDir(filepath.Join(r.share, folder))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			sources = append(sources, filepath.Join(r.share, folder, e.Name()))
		}
	}
	for i, source := range sources {
		content, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(source)
		if i > 2 {
			name = path.Join(filepath.Base(filepath.Dir(source)), name)
		}
		files = append(files, file{name, content, 0o644})
	}
	return files, nil
}

// create writes a file of dist.
func create(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644) //nolint:gosec // for everybody
}

func writeTarGz(w io.Writer, top string, files []file, when time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		f.name = path.Join(top, f.name)
		if err := addFile(t, f, when); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

func writeZip(w io.Writer, top string, files []file, when time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: path.Join(top, f.name), Method: zip.Deflate, Modified: when}
		header.SetMode(os.FileMode(f.mode)) //nolint:gosec // permissions
		entry, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.content); err != nil {
			return err
		}
	}
	return z.Close()
}

// plainOrGzip writes content, compressed if the name ends in .gz. The compressed form has no time.
func plainOrGzip(w io.Writer, name string, content []byte) error {
	if filepath.Ext(name) != ".gz" {
		_, err := w.Write(content)
		return err
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(content); err != nil {
		return err
	}
	return z.Close()
}
