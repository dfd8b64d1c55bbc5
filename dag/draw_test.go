package dag_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/holter-iot/holter/dag"
)

func TestDraw(t *testing.T) {
	g := build(
		t, dag.Config[trace]{},
		node(`say "hi" & <b>`+"\nC:\\new", nil), when(true, node("still offline?", nil, `say "hi" & <b>`+"\nC:\\new", "later")),
		node("`1. Grüße_*`", nil, "still offline?"),
	)
	wantDOT := `digraph {
	node [shape=box];
	n0 [label="say \"hi\" &amp; <b>\nC:\\new"];
	n1 [label="still offline?" shape=diamond];
	n2 [label="` + "`1. Grüße_*`" + `"];
	n0 -> n1;
	n1 -> n2;
}
`
	if got := g.Drawing().DOT(); got != wantDOT {
		t.Errorf("DOT =\n%s\nwant\n%s", got, wantDOT)
	}
	wantMermaid := `flowchart TD
    n0["say #34;hi#34; #38; #60;b#62;<br/>C#58;#92;new"]
    n1{"still offline#63;"}
    n2["#96;1#46; Grüße#95;#42;#96;"]
    n0 --> n1
    n1 --> n2
`
	if got := g.Drawing().Mermaid(); got != wantMermaid {
		t.Errorf("Mermaid =\n%s\nwant\n%s", got, wantMermaid)
	}
	if err := g.Add(node("later", nil)); err != nil {
		t.Fatal(err)
	}
	if got := g.Drawing().Mermaid(); !strings.Contains(got, "n0 --> n1\n    n3 --> n1\n") {
		t.Errorf("Mermaid with the node that was missing =\n%s", got)
	}
}

// A run is drawn with what came of each node.
func TestDrawRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleep := dag.Node[trace]{Name: "a", Run: func(context.Context, *trace) error { time.Sleep(90 * time.Second); return nil }}
		g := build(
			t, dag.Config[trace]{Continue: true, Limit: 1}, sleep, when(false, node("b", nil, "a")), node("c", errors.New(`no "luck"`), "a"),
			node("d", nil, "c"), node("w", dag.ErrWaiting),
		)
		r, _ := g.Run(t.Context(), new(trace))
		d := r.Drawing()
		d.Title = "run 7"
		d.Nodes[0].Attributes = map[string]string{"URL": "https://example.com/?a&b", "color": "blue"}
		want := `digraph {
	node [shape=box];
	label="run 7";
	labelloc=t;
	n0 [label="a\ndone 1m30s" style=filled color="#2e7d32" fillcolor="#e6f4ea" "URL"="https://example.com/?a&amp;b" "color"="blue"];
	n1 [label="b\nskipped 0s" shape=diamond style=filled color="#7b8794" fillcolor="#f1f3f5"];
	n2 [label="c\nfailed 0s" style=filled color="#c62828" fillcolor="#fdeaea" tooltip="no \"luck\""];
	n3 [label="d\ncanceled" style=filled color="#7b8794" fillcolor="#f1f3f5"];
	n4 [label="w\nwaiting 0s" style=filled color="#b26a00" fillcolor="#fff3dc"];
	n0 -> n1;
	n0 -> n2;
	n2 -> n3;
}
`
		if got := d.DOT(); got != want {
			t.Errorf("DOT =\n%s\nwant\n%s", got, want)
		}
		want = `flowchart TD
    n0["a<br/>done 1m30s"]
    style n0 stroke:#2e7d32,fill:#e6f4ea,color:#14431a
    n1{"b<br/>skipped 0s"}
    style n1 stroke:#7b8794,fill:#f1f3f5,color:#3e4c59
    n2["c<br/>failed 0s"]
    style n2 stroke:#c62828,fill:#fdeaea,color:#6b1111
    n3["d<br/>canceled"]
    style n3 stroke:#7b8794,fill:#f1f3f5,color:#3e4c59
    n4["w<br/>waiting 0s"]
    style n4 stroke:#b26a00,fill:#fff3dc,color:#573300
    n0 --> n1
    n0 --> n2
    n2 --> n3
`
		if got := d.Mermaid(); got != want {
			t.Errorf("Mermaid =\n%s\nwant\n%s", got, want)
		}
	})
}

// What a part of a drawing has no value for is left out. Only a drawing made by hand can have such parts, or a circle.
func TestDrawLittle(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	d := dag.Drawing{Nodes: []dag.DrawingNode{
		{Name: "a", State: "at sea", After: []string{"nobody"}},
		{Name: "b", Start: at},
		{Name: "c", Start: at, End: at.Add(26 * time.Hour)},
		{Name: "d", After: []string{"d", "ms"}},
		{Name: "ms", After: []string{"d"}, Start: at, End: at.Add(12345678)},
		{Name: "s", Start: at, End: at.Add(1234567890)},
		{Name: "min", Start: at, End: at.Add(61 * time.Minute)},
	}}
	want := `digraph {
	node [shape=box];
	n0 [label="a\nat sea"];
	n1 [label="b"];
	n2 [label="c\n26h0m"];
	n3 [label="d"];
	n4 [label="ms\n12ms"];
	n5 [label="s\n1.23s"];
	n6 [label="min\n1h1m"];
	n3 -> n3;
	n4 -> n3;
	n3 -> n4;
}
`
	if got := d.DOT(); got != want {
		t.Errorf("DOT =\n%s\nwant\n%s", got, want)
	}
	if got, want := (dag.Drawing{}).DOT(), "digraph {\n\tnode [shape=box];\n}\n"; got != want {
		t.Errorf("an empty drawing is %q, want %q", got, want)
	}
}

// FuzzDOT and FuzzMermaid draw two nodes with any names, and read the names back with a reader of the few rules that the language has.
func fuzzNames(f *testing.F, draw func(*dag.Graph[trace]) string, line *regexp.Regexp, read func(t *testing.T, label string) string) {
	f.Helper()
	for _, name := range []string{
		"a", `"`, `\`, `\"`, `\\"`, "\n", "\r\n", "\r", "\t", "a\x00b", "\xff", "&amp;", "&quot;", "#quot;", "#35;", "<br/>", "<b>", "end", "]", `"]`,
		"%%", "%%{init: {}}%%", "`x`", "1. x", "- x", "\\N", "\\l", "Grüße", "\u2028", "\u202e", "👩\u200d🔧", "\u0383", "日本", "ﬂ°°35¶ß", "é", "style a:b#c;", "\ufffd", "\uffff", " a ",
	} {
		f.Add(name, "x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" || a == b {
			return
		}
		g := build(t, dag.Config[trace]{}, dag.Node[trace]{Name: a, Run: func(context.Context, *trace) error { return nil }}, when(true, node(b, nil, a)))
		text := draw(g)
		if !utf8.ValidString(text) {
			t.Fatalf("not UTF-8: %q", text)
		}
		var labels []string
		for l := range strings.Lines(text) {
			if m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n")); m != nil {
				labels = append(labels, m[1])
			}
		}
		if len(labels) != 2 || strings.Count(text, "\n") != strings.Count(draw(build(t, dag.Config[trace]{}, node("a", nil), when(true, node("b", nil, "a")))), "\n") {
			t.Fatalf("the names %q and %q break the lines of\n%s", a, b, text)
		}
		for i, name := range []string{a, b} {
			if got, want := read(t, labels[i]), shown(name); got != want {
				t.Errorf("the name %q is shown as %q, want %q, in\n%s", name, got, want, text)
			}
		}
	})
}

// shown is what a drawing shows of a name: white space for white space, and U+FFFD for control characters.
func shown(name string) string {
	name = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\t", " ").Replace(strings.ToValidUTF8(name, "\ufffd"))
	return regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{2069}\x{fffe}\x{ffff}]`).ReplaceAllString(name, "\ufffd")
}

func FuzzDOT(f *testing.F) {
	escape := regexp.MustCompile(`\\.|&[a-z0-9#]+;|&`)
	fuzzNames(f, func(g *dag.Graph[trace]) string { return g.Drawing().DOT() }, regexp.MustCompile(`^\tn[01] \[label="((?:[^"\\]|\\.)*)"(?: shape=diamond)?\];$`), func(t *testing.T, label string) string {
		t.Helper()
		return escape.ReplaceAllStringFunc(label, func(s string) string {
			known, ok := map[string]string{`\\`: `\`, `\"`: `"`, `\n`: "\n", "&amp;": "&"}[s]
			if !ok {
				t.Errorf("the label %q holds %q", label, s)
			}
			return known
		})
	})
}

func FuzzMermaid(f *testing.F) {
	code := regexp.MustCompile(`#([0-9]+);|<br/>`)
	plain := regexp.MustCompile(`^[\p{L}\p{Nd} ]*$`)
	fuzzNames(f, func(g *dag.Graph[trace]) string { return g.Drawing().Mermaid() }, regexp.MustCompile(`^    n[01](?:\[|\{)"([^"]*)"(?:\]|\})$`), func(t *testing.T, label string) string {
		t.Helper()
		if rest := code.ReplaceAllString(label, ""); !plain.MatchString(rest) {
			t.Errorf("the label %q holds more than letters, digits, spaces and codes", label)
		}
		return code.ReplaceAllStringFunc(label, func(s string) string {
			if s == "<br/>" {
				return "\n"
			}
			n, err := strconv.Atoi(s[1 : len(s)-1])
			if err != nil {
				t.Errorf("the label %q: %v", label, err)
			}
			return string(rune(n))
		})
	})
}
