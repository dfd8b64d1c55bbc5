// Command build makes the files of internal/console/dist from the sources in internal/console/src. It is a module of its own, so
// that the product does not depend on what it is built with.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if err := build(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

// build makes the console below root, the directory of package console.
func build(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	// The worker is built by itself: it shares no file with the page, which would be one more to load.
	files, err := bundle(root, "src/main.tsx", "src/style.css")
	if err != nil {
		return err
	}
	worker, err := bundle(root, "src/worker.ts")
	if err != nil {
		return err
	}
	files = append(files, worker...)
	text, err := os.ReadFile(filepath.Join(root, "src", "index.html"))
	if err != nil {
		return err
	}
	page := string(text)
	dist := filepath.Join(root, "dist")
	if err := errors.Join(os.RemoveAll(dist), os.Mkdir(dist, 0o755)); err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Base(f.Path)
		source, _, _ := strings.Cut(name, "-")
		page = strings.ReplaceAll(page, "{"+source+"}", name)
		if source == "main" {
			page = strings.ReplaceAll(page, "{preload}", preload(f.Contents))
		}
		if err := os.WriteFile(f.Path, f.Contents, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dist, "index.html"), []byte(page), 0o644)
}

// bundle returns the files that are made of some sources.
func bundle(root string, sources ...string) ([]api.OutputFile, error) {
	result := api.Build(api.BuildOptions{
		AbsWorkingDir:     root,
		EntryPoints:       sources,
		NodePaths:         []string{filepath.Join(root, "npm")},
		Outdir:            filepath.Join(root, "dist"),
		Bundle:            true,
		Format:            api.FormatESModule,
		Splitting:         true,
		Target:            api.ES2022,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone,
		Charset:           api.CharsetUTF8,
		EntryNames:        "[name]-[hash]",
		ChunkNames:        "part-[hash]",
		LogLevel:          api.LogLevelWarning,
	})
	if len(result.Errors) > 0 {
		return nil, fmt.Errorf("%d errors", len(result.Errors))
	}
	return result.OutputFiles, nil
}

// preload returns the tags that let the browser load what a script imports at once together with it.
func preload(script []byte) string {
	var tags strings.Builder
	for _, m := range regexp.MustCompile(`from"\./(part-[A-Z0-9]+\.js)"`).FindAllSubmatch(script, -1) {
		fmt.Fprintf(&tags, "<link rel=\"modulepreload\" href=\"/console/%s\">\n", m[1])
	}
	return tags.String()
}
