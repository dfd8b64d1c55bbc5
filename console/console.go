// Package console is the web console: static files below /console/, which use the API like any other
// client.
package console

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed dist
var files embed.FS

// Handler serves the console at /console/ and below. api is the API of the same server.
func Handler(_ http.Handler) http.Handler {
	dist, err := fs.Sub(files, "dist")
	if err != nil { // cannot happen: the name is valid
		panic(err)
	}
	return http.StripPrefix("/console", http.FileServerFS(dist))
}
