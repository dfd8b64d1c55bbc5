package dag_test

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/dag"
)

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
		svg := d.SVG()
		readSVG(t, svg)
		for _, want := range []string{">run 7<", ">done 1m30s<", ">skipped 0s<", ">no &quot;luck&quot;<", "dag-failed", "dag-off"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%s is missing in\n%s", want, svg)
			}
		}
	})
}

// What a part of a drawing has no value for is left out.
func TestDrawLittle(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	d := dag.Drawing{Nodes: []dag.DrawingNode{
		{Name: "a", State: "at sea", After: []string{"nobody"}},
		{Name: "b", Start: at},
		{Name: "c", Start: at, End: at.Add(26 * time.Hour)},
		{Name: "d", After: []string{"d"}},
		{Name: strings.Repeat("long ", 20), Note: "two\nlines"},
		{Name: strings.Repeat("m", 40)},
		{Name: "ms", Start: at, End: at.Add(12345678)},
		{Name: "s", Start: at, End: at.Add(1234567890)},
		{Name: "min", Start: at, End: at.Add(61 * time.Minute)},
	}}
	svg := d.SVG()
	readSVG(t, svg)
	for _, want := range []string{
		">at sea<", ">26h0m<", ">long long long long long long long long…<", ">two…<", ">" + strings.Repeat("m", 40) + "<", ">12ms<", ">1.23s<", ">1h1m<",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is missing in\n%s", want, svg)
		}
	}
	readSVG(t, dag.Drawing{}.SVG())
	if strings.Contains(dag.Drawing{}.DOT(), "label") {
		t.Error("an empty drawing has a label")
	}
}

// readSVG returns the places of the boxes: left, top, width and height.
func readSVG(t interface {
	Helper()
	Errorf(format string, args ...any)
}, svg string,
) (boxes [][4]float64) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return boxes
		}
		if err != nil {
			t.Errorf("%v in\n%s", err, svg)
			return nil
		}
		element, ok := token.(xml.StartElement)
		if !ok || element.Name.Local != "rect" {
			continue
		}
		at := make(map[string]float64)
		for _, a := range element.Attr {
			if f, err := strconv.ParseFloat(a.Value, 64); err == nil {
				at[a.Name.Local] = f
			}
		}
		if at["rx"] > 0 {
			boxes = append(boxes, [4]float64{at["x"], at["y"], at["width"], at["height"]})
		}
	}
}

// Boxes do not overlap, and each stands below those before it, whatever the graph.
func TestLayoutModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "nodes")
		var d dag.Drawing
		var before [][]int
		for i := range n {
			list := rapid.SliceOfNDistinct(rapid.IntRange(0, max(i-1, 0)), 0, min(i, 4), rapid.ID[int]).Draw(rt, "before")
			node := dag.DrawingNode{Name: strings.Repeat("n", 1+i%30) + strconv.Itoa(i)}
			for _, k := range list {
				node.After = append(node.After, d.Nodes[k].Name)
			}
			if i%3 == 0 {
				node.State, node.Note = "done", "note"
			}
			d.Nodes, before = append(d.Nodes, node), append(before, list)
		}
		svg := d.SVG()
		boxes := readSVG(rt, svg)
		if len(boxes) != n {
			rt.Fatalf("%d boxes, want %d", len(boxes), n)
		}
		for i, a := range boxes {
			for _, k := range before[i] {
				if above := boxes[k]; above[1]+above[3] >= a[1] {
					rt.Errorf("node %d is not below node %d:\n%s", i, k, svg)
				}
			}
			for k, b := range boxes[:i] {
				if a[0] < b[0]+b[2] && b[0] < a[0]+a[2] && a[1] < b[1]+b[3] && b[1] < a[1]+a[3] {
					rt.Errorf("nodes %d and %d overlap:\n%s", k, i, svg)
				}
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			rt.Errorf("a place is no number:\n%s", svg)
		}
	})
}

// A circle, which only a drawing made by hand can have, is drawn as well.
func TestDrawCircle(t *testing.T) {
	d := dag.Drawing{Nodes: []dag.DrawingNode{
		{Name: "a", After: []string{"c"}}, {Name: "b", After: []string{"a"}}, {Name: "c", After: []string{"b"}}, {Name: "d", After: []string{"d", "a"}},
	}}
	if svg := d.SVG(); len(readSVG(t, svg)) != 4 || strings.Count(svg, "<path class=\"dag-edge\"") != 5 {
		t.Error(svg)
	}
}

func TestDrawLarge(t *testing.T) {
	const n = 3000
	d := dag.Drawing{Nodes: make([]dag.DrawingNode, n)}
	for i := range d.Nodes {
		d.Nodes[i].Name = strconv.Itoa(i)
		if i > 0 {
			d.Nodes[i].After = []string{strconv.Itoa(i - 1)}
		}
		if i > 1 {
			d.Nodes[i].After = append(d.Nodes[i].After, "0") // long arrows
		}
	}
	if boxes := readSVG(t, d.SVG()); len(boxes) != n {
		t.Errorf("%d boxes, want %d", len(boxes), n)
	}
}

// FuzzSVG draws nodes with any texts, and reads the names back.
func FuzzSVG(f *testing.F) {
	for _, name := range []string{"a", `"<&>'`, "]]>", "</svg>", "\x00\xff\ufffe", "a\nb", "\u202e", "&amp;", "<!--"} {
		f.Add(name, name, name)
	}
	title := regexp.MustCompile(`(?s)<g class="dag-node[^"]*"><title>(.*?)</title>`)
	f.Fuzz(func(t *testing.T, name, state, note string) {
		svg := dag.Drawing{Title: name, Nodes: []dag.DrawingNode{{Name: name, State: state, Note: note}}}.SVG()
		if len(readSVG(t, svg)) != 1 {
			t.Fatalf("no box in\n%s", svg)
		}
		var text struct {
			Text string `xml:",chardata"`
		}
		m := title.FindStringSubmatch(svg)
		if m == nil || xml.Unmarshal([]byte("<t>"+m[1]+"</t>"), &text) != nil || !strings.HasPrefix(text.Text, shown(name)) {
			t.Errorf("the name %q is shown as %q in\n%s", name, text.Text, svg)
		}
	})
}
