package strictyaml_test

import (
	"slices"
	"testing"

	"github.com/holter-iot/holter/internal/strictyaml"
)

func TestFlat(t *testing.T) {
	r, root, err := rich().Parse("a.yaml", `
a: 1_000
b: {c: "0123", d: ~, e: {}}
f: [x, &y "y z"]
g: [{h: 1}, {h: 2, i: [3]}]
j: *y
k: []
skipped: {l: 1}
m: {n: &o [{p: 1}], q: *o}
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	r.Flat("", root, func(path string) bool { return path == "skipped" }, func(path, text string, _ strictyaml.Place) { got = append(got, path+"="+text) })
	want := []string{
		"a=1_000", "b.c=0123", "f=x, y z", "g[0].h=1", "g[1].h=2", "g[1].i=3", "j=y z", "k=", "m.n[0].p=1", "m.q[0].p=1",
	}
	if !slices.Equal(got, want) || r.Mistakes() > 0 {
		t.Errorf("got %q, want %q, mistakes %v", got, want, r.Errs())
	}
}
