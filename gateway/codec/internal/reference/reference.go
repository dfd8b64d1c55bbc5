// Package reference makes the tables of messages in docs/reference/protocols.md of what the codecs
// do with them, so that the tables cannot go stale. The test of each codec calls [Check].
package reference

import (
	"flag"
	"os"
	"strings"
	"testing"
)

const page = "../../../docs/reference/protocols.md" // from the package of a codec

var update = flag.Bool("update", false, "write the table of messages into the reference") //nolint:gochecknoglobals // a flag of tests

// Check holds the part of the page that belongs to a package against its tables. After a change:
//
//	go test ./gateway/codec/PACKAGE -run TestTable -update
//
// Packages are updated one after the other, as all of them write the page.
func Check(tb testing.TB, name string, tables ...Table) {
	tb.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		tb.Fatal(err)
	}
	command := "go test ./gateway/codec/" + name + " -run TestTable -update"
	const end = "<!-- end of what is generated -->\n"
	_, rest, begins := strings.Cut(string(text), "<!-- generated: "+command+" -->\n")
	got, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		tb.Fatalf("%s has no part for %s", page, name)
	}
	var want strings.Builder
	for _, t := range tables {
		want.WriteString(t.text(tb))
	}
	want.WriteString("\n")
	switch {
	case got == want.String():
	case !*update:
		tb.Errorf("%s is not what the codec does; run: %s", page, command)
	default:
		text := strings.TrimSuffix(string(text), rest) + want.String() + end + tail
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil { //nolint:gosec // a page for everybody
			tb.Fatal(err)
		}
	}
}
