// Package console is the web console of Holter: static files that show and change in a browser what the API offers. It has no
// access of its own to anything: what it does, a script can do.
package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:generate go -C build run . ..

//go:embed dist
var dist embed.FS

// Path is the path below which the console is served.
const Path = "/console/"

// policy lets pages load nothing from elsewhere, and be shown in no frame. The icon is in the page itself.
const policy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// file is a file as it is sent.
type file struct {
	kind         string
	body, zipped []byte
}

// Handler returns what serves the console below [Path]. Its files are compressed once, when it is made. api is asked for the
// plain list of devices, for browsers without JavaScript, on behalf of their requests. An error means that the console was not
// built.
func Handler(api http.Handler) (http.Handler, error) {
	files, err := load()
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	page := files["index.html"]
	if page == nil {
		return nil, errors.New("console: there is no page; go generate ./internal/console makes it")
	}
	plain, err := newPlain(api)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		name := strings.TrimPrefix(r.URL.Path, Path)
		switch f := files[name]; {
		case name == "plain":
			plain.ServeHTTP(w, r)
		case f != nil && f != page: // its name changes with what it holds
			header.Set("Cache-Control", "public, max-age=31536000, immutable")
			f.send(w, r)
		case path.Ext(name) != "" && !strings.Contains(name, "/"): // a file of another version
			http.NotFound(w, r)
		default: // the page reads its address itself
			header.Set("Cache-Control", "no-cache")
			page.send(w, r)
		}
	}), nil
}

// load reads and compresses the files.
func load() (map[string]*file, error) {
	files := make(map[string]*file)
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		body, err := dist.ReadFile("dist/" + e.Name())
		if err != nil {
			return nil, err
		}
		var zipped bytes.Buffer
		z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		_, _ = z.Write(body) // a buffer takes all
		_ = z.Close()
		files[e.Name()] = &file{mime.TypeByExtension(path.Ext(e.Name())), body, zipped.Bytes()}
	}
	return files, nil
}

func (f *file) send(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Add("Vary", "Accept-Encoding")
	body := f.body
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	_, _ = w.Write(body) // the browser may be gone
}
