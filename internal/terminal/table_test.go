package terminal

import (
	"strings"
	"testing"
)

func TestShorten(t *testing.T) {
	tests := []struct {
		name    string
		text    string
		columns int
		inner   bool
		want    string
	}{
		{"fits", "pump", 4, true, "pump"},
		{"end", "pump-17", 5, false, "pump…"},
		{"middle", "site-7/pump-17", 9, true, "site…p-17"},
		{"one column", "pump", 1, true, "…"},
		{"no column", "pump", 0, true, ""},
		{"wide letters", "東京大阪", 6, false, "東京…"},
		{"wide letters in the middle", "東京大阪名古屋", 6, true, "東…屋"},
		{"marks take no column", "e\u0301e\u0301e\u0301", 3, false, "e\u0301e\u0301e\u0301"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Shorten(tt.text, tt.columns, tt.inner)
			if got != tt.want || width(got) > tt.columns {
				t.Errorf("shorten(%q, %d) = %q of %d columns, want %q", tt.text, tt.columns, got, width(got), tt.want)
			}
		})
	}
}

func TestPrintable(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "site-7/pump 3", "site-7/pump 3"},
		{"letters", "東京 ñ é 😀", "東京 ñ é 😀"},
		{"escape sequence", "a\x1b[2Jb", `a\x1b[2Jb`},
		{"line end", "a\nb", `a\nb`},
		{"C1", "a\u009b31mb", `a\u009b31mb`},
		{"other direction", "a\u202eb", `a\u202eb`},
		{"not UTF-8", "a\xffb", "a\ufffdb"},
		{"private use", "a\ue000b", `a\ue000b`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Printable(tt.text); got != tt.want {
				t.Errorf("printable(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestWriteJSON(t *testing.T) {
	var out strings.Builder
	if err := WriteJSON(&out, []byte("{ \"a\":\n\"\u009b\u202e\U000f0000é\" }")); err != nil {
		t.Fatal(err)
	}
	if want := `{"a":"\u009b\u202e\udb80\udc00é"}` + "\n"; out.String() != want {
		t.Errorf("writeJSON wrote %s, want %s", out.String(), want)
	}
}

// A table that is written in pieces keeps its alignment, and shows a column once it has something to say.
func TestTableGrows(t *testing.T) {
	g := NewTable(Screen{}, "ID", "N,right", "NOTE,spare")
	var out strings.Builder
	flush := func() {
		t.Helper()
		if err := g.Flush(&out); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	g.Add("pump", "7", "")
	flush()
	g.Add("compressor", "1,000", "")
	g.Add("pump", "8", "")
	flush()
	g.Add("pump", "9", "flapping")
	g.Add("pump", "10", "")
	flush()
	want := "ID    N\npump  7\n" +
		"compressor  1,000\npump            8\n" +
		"ID              N  NOTE\npump            9  flapping\npump           10\n"
	if out.String() != want {
		t.Errorf("the table wrote\n%swant\n%s", out.String(), want)
	}
}

func TestColours(t *testing.T) {
	g := NewTable(Screen{Width: 80, Colour: true}, "ID", "STATE")
	g.Add("a", Cell{"online", Green})
	var out strings.Builder
	if err := g.Flush(&out); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[1mID\x1b[0m  \x1b[1mSTATE\x1b[0m\na   \x1b[32monline\x1b[0m\n"; out.String() != want {
		t.Errorf("the table wrote %q, want %q", out.String(), want)
	}
}

func TestWrap(t *testing.T) {
	const text = "a long help text of some words"
	if got, want := Wrap(text, 20), "a long help text of\nsome words"; got != want {
		t.Errorf("wrap = %q, want %q", got, want)
	}
	if got := Wrap(text, 5); got != text {
		t.Errorf("wrap on a narrow screen = %q, want the text as it is", got)
	}
}
