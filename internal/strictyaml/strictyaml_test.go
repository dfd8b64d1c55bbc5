package strictyaml_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// settings is what the files of these tests hold.
type settings struct {
	name    string
	on      bool
	timeout time.Duration
	ports   []int
}

func duration(text string) (time.Duration, error) { return strictyaml.Duration(text, "90s") }

func fields(s *settings) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "name", Set: strictyaml.Value(&s.name, func(text string) (string, error) { return text, nil })},
		{Key: "on", Set: strictyaml.Plain(&s.on, strictyaml.Bool)},
		{Key: "limits.timeout", Set: strictyaml.Value(&s.timeout, duration)},
		{Key: "ports", Set: strictyaml.Entries(&s.ports, "write a port", func(r *strictyaml.Reader, path string, n ast.Node) (port int) {
			strictyaml.Plain(&port, strictyaml.WholeNumber).Read(r, path, n)
			return port
		})},
	}
}

func plain() strictyaml.Format {
	return strictyaml.Format{MaxSize: 64 << 10, MaxKeys: 1000, Empty: "write a name"}
}

func rich() strictyaml.Format {
	f := plain()
	f.NullIsEmpty = true
	return f
}

func read(f strictyaml.Format, text string) (s settings, err error) {
	r, root, err := f.Parse("a.yaml", text)
	if err != nil {
		return s, err
	}
	r.Mapping("", root, fields(&s))
	return s, errors.Join(r.Errs()...)
}

func TestRead(t *testing.T) {
	s, err := read(rich(), "name: 0123\non: True\nlimits: &l {timeout: 1m30s}\nports: [1_000, 2]\n")
	if err != nil || s.name != "0123" || !s.on || s.timeout != 90*time.Second || fmt.Sprint(s.ports) != "[1000 2]" {
		t.Errorf("read = %+v, %v", s, err)
	}
}

// What is the same text in both formats is a mistake in one of them, or another one.
func TestFormats(t *testing.T) {
	tests := []struct{ name, text, plain, rich string }{ // the first line of the error, without the name of the file
		{"empty", "", " is empty; write a name", " is empty; write a name"},
		{"null for a mapping", "limits:\n", "1:9: limits: has no value; write one, or remove it", ""},
		{"null for a list", "ports: ~\n", "1:8: ports: has no value; write one, or remove it", "1:8: ports: the list is empty; write a port, or remove it"},
		{"empty list", "ports: []\n", "1:8: ports: the list is empty; write a port, or remove it", "1:8: ports: the list is empty; write a port, or remove it"},
		{"anchor", "name: &n x\n", "", ""},
		{"alias of nothing", "name: *n\n", "1:7: name: there is no anchor &n; a text that begins with * goes in quotes", "1:7: name: there is no anchor &n; a text that begins with * goes in quotes"},
		{"anchor that holds itself", "limits: &a\n  *a\n", "2:3: limits: anchors refer to each other", "2:3: limits: anchors refer to each other"},
		{
			"merge key", "<<: {name: x}\n", "1:1: merge keys (<<) are not supported; repeat the keys, or refer to the whole mapping with *name",
			"1:1: merge keys (<<) are not supported; repeat the keys, or refer to the whole mapping with *name",
		},
		{"tag", "on: !!bool true\n", "1:5: on: tags (!) are not supported; write the plain value", "1:5: on: tags (!) are not supported; write the plain value"},
		{"tag of a key", "!!str on: true\n", "1:1: tags (!) are not supported; write the plain value", "1:1: tags (!) are not supported; write the plain value"},
		{
			"unknown key", "port: [1]\n", `1:1: unknown key "port"; did you mean "ports"? (allowed here: limits, name, on, ports)`,
			`1:1: unknown key "port"; did you mean "ports"? (allowed here: limits, name, on, ports)`,
		},
		{"number in quotes", "on: 'true'\n", "1:5: on: is a text; write the value without quotes", "1:5: on: is a text; write the value without quotes"},
		{"weeks", "limits: {timeout: 1w}\n", `1:19: limits.timeout: "1w" is not a duration; write 90s, 5m, 1h30m or 1d`, `1:19: limits.timeout: "1w" is not a duration; write 90s, 5m, 1h30m or 1d`},
		{"repeated", "on: true\non: true\n", `2:1: the key "on" is repeated; it is already in line 1`, `2:1: the key "on" is repeated; it is already in line 1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, f := range []struct {
				format strictyaml.Format
				want   string
			}{{plain(), tt.plain}, {rich(), tt.rich}} {
				got := ""
				if _, err := read(f.format, tt.text); err != nil {
					got, _, _ = strings.Cut(strings.TrimPrefix(err.Error(), "a.yaml:"), "\n")
				}
				if got != f.want {
					t.Errorf("%+v: %q, want %q", f.format, got, f.want)
				}
			}
		})
	}
}

// A key to which a token sticks is shown without it, also where it is repeated.
func TestSecretKeys(t *testing.T) {
	for _, text := range []string{"{token=hunter2: 1, token=hunter2: 2}\n", "- token:\n  hunter2\n", "on: 1\npassword: hunter2\n", "u:hunter2@h: 1\n"} {
		if _, err := read(rich(), text); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("read(%q): %v", text, err)
		}
	}
}

func TestItemsAreBounded(t *testing.T) {
	r, root, err := plain().Parse("a.yaml", "[&a ["+strings.Repeat("1,", 2000)+"], "+strings.Repeat("*a,", 2000)+"]\n")
	if err != nil {
		t.Fatal(err)
	}
	for i, item := range r.Items("", root, "") {
		r.Items(strictyaml.Element("", i), item, "")
	}
	if err := errors.Join(r.Errs()...); err == nil || !strings.HasPrefix(err.Error(), "a.yaml:1:") || !strings.Contains(err.Error(), "more than 1000000 entries") {
		t.Errorf("4,000,000 entries: %.300v", err)
	}
}

func TestMistakesAreBounded(t *testing.T) {
	_, err := read(plain(), strings.Repeat("a: 1\n", 30))
	if n := strings.Count(err.Error(), "a.yaml:"); n != 21 || !strings.HasSuffix(err.Error(), "\na.yaml: and 10 more mistakes") {
		t.Errorf("%d mistakes: %v", n, err)
	}
}

func TestPlace(t *testing.T) {
	r, root, err := plain().Parse("a.yaml", "# settings\nname: x\n")
	if err != nil {
		t.Fatal(err)
	}
	var s settings
	r.Mapping("", root, fields(&s))
	at := func(path string) strictyaml.Place {
		place, found := r.At(path)
		if found != (path == "name" || path == "") {
			t.Errorf("At(%s): found is %v", path, found)
		}
		return place
	}
	given, value := strictyaml.Given("HOLTER_ON", "1")
	if strictyaml.Flag(&s.on).Read(given, "on", value); !s.on {
		t.Errorf("1 in a variable is not true: %v", given.Errs())
	}
	tests := []struct {
		name  string
		place strictyaml.Place
		want  string
	}{
		{"nowhere", strictyaml.Place{}, "wrong"},
		{"option", strictyaml.Outside("--name"), "--name: wrong"},
		{"variable", given.Place("on", value), "HOLTER_ON: wrong"},
		{"in a file", at("name"), "a.yaml:2:7: name: wrong\n   2 | name: x\n     |       ^"},
		{"missing", at("limits.timeout"), "a.yaml:2:1: limits.timeout: wrong\n   2 | name: x\n     | ^"},
		{"whole", at(""), "a.yaml:2:1: wrong\n   2 | name: x\n     | ^"},
		{"file", r.Place("", nil), "a.yaml:1:1: wrong\n   1 | # settings\n     | ^"},
	}
	for _, tt := range tests {
		if got := tt.place.Mistake("wrong").Error(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(file, []byte(strings.Repeat("#", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	f := strictyaml.Format{MaxSize: 1024}
	text, err := f.ReadFile(file)
	if err != nil || len(text) != 1025 {
		t.Errorf("ReadFile of a large file = %d bytes, %v", len(text), err)
	}
	if _, _, err := f.Parse("a.yaml", text); err == nil || err.Error() != "a.yaml: is larger than 1 KiB" {
		t.Errorf("Parse of a large file: %v", err)
	}
	if _, err := f.ReadFile(dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("ReadFile of a directory: %v", err)
	}
	if _, err := f.ReadFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "none") {
		t.Errorf("ReadFile of nothing: %v", err)
	}
}

func TestWholeNumber(t *testing.T) {
	tests := []struct {
		text string
		want int
		err  error
	}{
		{"0", 0, nil},
		{"20_000", 20_000, nil},
		{"-5", -5, nil},
		{"+5", 5, nil},
		{"007", 0, strconv.ErrSyntax},
		{"1e3", 0, strconv.ErrSyntax},
		{"", 0, strconv.ErrSyntax},
		{"99999999999999999999", 0, strconv.ErrRange},
	}
	for _, tt := range tests {
		if got, err := strictyaml.WholeNumber(tt.text); !errors.Is(err, tt.err) || err == nil && got != tt.want {
			t.Errorf("WholeNumber(%q) = %d, %v, want %d, %v", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	tests := []struct{ wrong, want string }{
		{"timout", `; did you mean "timeout"?`},
		{"Time-Out", `; did you mean "timeout"?`},
		{"inter", `; did you mean "interval"?`},
		{"xyz", ""},
		{strings.Repeat("timeout", 100_000), ""},
	}
	for _, tt := range tests {
		if got := strictyaml.DidYouMean(tt.wrong, []string{"timeout", "interval"}); got != tt.want {
			t.Errorf("DidYouMean(%.20q) = %q, want %q", tt.wrong, got, tt.want)
		}
	}
}

// Whatever a text holds, reading it ends, and all that is said names the file and moves no terminal.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"name: x\non: true\nlimits: {timeout: 3s}\nports:\n- 1\n", "limits: &a [*a]\n? x\n: |\n  y\n", "%YAML 1.2\n---\ntoken: >-\n  c\n", "{a=b: 1, a=b: !!x ~}", "\ttab: @x\n",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, isRich bool) {
		format := plain()
		if isRich {
			format = rich()
		}
		_, err := read(format, text)
		if err == nil {
			return
		}
		message := err.Error()
		if !strings.HasPrefix(message, "a.yaml:") {
			t.Errorf("error without a place: %s", message)
		}
		if !utf8.ValidString(message) || strings.ContainsAny(message, "\x00\x1b\r\t") {
			t.Errorf("error with characters that move a terminal: %q", message)
		}
	})
}

func Example() {
	format := strictyaml.Format{MaxSize: 64 << 10, MaxKeys: 100, Empty: "write a timeout"}
	r, root, err := format.Parse("fleet.yaml", "timeuot: 5m\ntimeout: 1w\n")
	if err != nil {
		fmt.Println(err)
		return
	}
	var timeout time.Duration
	r.Mapping("", root, []strictyaml.Field{
		{Key: "timeout", Set: strictyaml.Value(&timeout, func(text string) (time.Duration, error) { return strictyaml.Duration(text, "90s") })},
	})
	for _, err := range r.Errs() {
		fmt.Println(err)
	}
	// Output:
	// fleet.yaml:1:1: unknown key "timeuot"; did you mean "timeout"? (allowed here: timeout)
	//    1 | timeuot: 5m
	//      | ^
	// fleet.yaml:2:10: timeout: "1w" is not a duration; write 90s, 5m, 1h30m or 1d
	//    2 | timeout: 1w
	//      |          ^
}
