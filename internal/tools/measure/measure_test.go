package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMeasure(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go":      "// Package a is an example.\npackage a\n\n// Used is used by b.\nfunc Used() {\n}\n\ntype Unused struct{}\n\nfunc (Unused) Do() {} // does nothing\n",
		"a/a_test.go": "package a\n",
		"b/b.go":      "package b\n\nimport \"example.org/m/a\"\n\nfunc b() { a.Used() }\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	a := tree.packages[0]
	want := size{files: []int{10}, functions: []int{2, 1}, code: 5, comments: 2, names: 2, methods: 1, testLines: 1}
	if row(a.folder, a.size) != row("a", want) {
		t.Errorf("sizes of a\n%s, want\n%s", row(a.folder, a.size), row("a", want))
	}
	if got := strings.Join(tree.unused(a), " "); got != "Unused" {
		t.Errorf("unused of a: %q, want Unused", got)
	}
}
