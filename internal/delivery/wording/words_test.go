package wording_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/wording"
	"github.com/holter-iot/holter/liveness"
)

// said returns what is told by default, in one line.
func said(n *wording.Notification) string {
	text := new(wording.Words).Say(n)
	return strings.Join(append([]string{text.Title}, text.Lines...), " | ")
}

// Every type of event has words.
func TestDefaultWords(t *testing.T) {
	want := map[string]string{
		"device.online":              "resolved online: pump-3 is back online after 3h2m | Group: pumps",
		"device.late":                "firing late: pump-3 is late | Silent for 5m of 5m allowed, last seen 2026-11-22 09:55:00 UTC | Group: pumps",
		"device.offline":             "firing offline: pump-3 is offline (silence) | Silent for 5m of 5m allowed, last seen 2026-11-22 09:55:00 UTC | Group: pumps",
		"device.sleeping":            "resolved sleeping: pump-3 sleeps | Group: pumps",
		"device.failed":              "firing : pump-3 reports a failure | bearing too hot | Group: pumps",
		"device.session_replaced":    "info : pump-3 opened another session while one was open | Group: pumps",
		"device.flapping.started":    "info : pump-3 keeps going offline and online | Group: pumps",
		"device.flapping.stopped":    "info : pump-3 does not keep going offline and online any more | Group: pumps",
		"device.changed":             "info : pump-3 has other settings | Group: pumps",
		"device.maintenance.started": "resolved : pump-3 is in maintenance | Group: pumps",
		"device.maintenance.stopped": "resolved : pump-3 is not in maintenance any more | Group: pumps",
		"device.forgotten":           "resolved : pump-3 was removed | Group: pumps",
		"device.run.started":         "info : pump-3 has begun a run | Group: pumps",
		"device.run.finished":        "info : pump-3 has finished a run | Group: pumps",
		"source.deaf":                "firing : Source line hears nothing",
		"source.heard":               "resolved : Source line listens again after 1m | It waits for the heartbeats of 20 devices",
		"group.outage.started":       "firing : Outage of group pumps: 12 of 20 devices are silent | 1 of them were so before",
		"group.outage.ended":         "resolved : The outage of group pumps is over: 12 of 20 devices are silent",
		"job":                        "firing : Look | pump-3 is offline",
		"test":                       "info : Test of Holter | A test",
	}
	for _, n := range wording.Samples() {
		if n.Count > 1 {
			continue
		}
		if got := fmt.Sprintf("%s %s: %s", n.Severity, n.State, said(n)); got != want[n.Type] {
			t.Errorf("%s: %q, want %q", n.Type, got, want[n.Type])
		}
		delete(want, n.Type)
	}
	if len(want) > 0 {
		t.Errorf("no sample of %v", want)
	}
}

// What several are told by depends on what they are.
func TestTogether(t *testing.T) {
	of := func(kinds ...liveness.Type) *wording.Notification {
		var list []*wording.Notification
		for i, kind := range kinds {
			e := liveness.Event{Type: kind, Subject: fmt.Sprint("d", i), Seq: 1}
			list = append(list, wording.Of(&sink.Message{Event: &e}, ""))
		}
		return wording.Together(list)
	}
	const online, offline, late, changed = liveness.DeviceOnline, liveness.DeviceOffline, liveness.DeviceLate, liveness.DeviceChanged
	for _, c := range []struct {
		name string
		n    *wording.Notification
		want string
	}{
		{"one", of(offline), "firing 1: d0 is offline"},
		{"alike", of(offline, offline, offline), "firing 3: 3 devices offline | d0 is offline | d1 is offline | d2 is offline"},
		{"back", of(online, online), "resolved 2: 2 devices online | d0 is online | d1 is online"},
		{"mixed", of(offline, online, late), "firing 3: 3 messages: 1 offline, 1 online, 1 late | d0 is offline | d1 is online | d2 is late"},
		{"others", of(changed, online), "info 2: 2 messages: 1 other, 1 online | d0 has other settings | d1 is online"},
		{"only others", of(changed, changed), "info 2: 2 messages | d0 has other settings | d1 has other settings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fmt.Sprintf("%s %d: %s", c.n.Severity, c.n.Count, said(c.n)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Maintenance that ends reports whether the device is there, since what happened meanwhile was suppressed.
func TestMaintenanceEnds(t *testing.T) {
	e := liveness.Event{Type: liveness.DeviceMaintenanceStopped, Subject: "d", Seq: 1, Reason: liveness.Bye}
	n := wording.Of(&sink.Message{Event: &e}, "")
	if got := n.Severity + " " + n.State + ": " + said(n); got != "firing offline: d is still offline (bye) after its maintenance" {
		t.Error(got)
	}
}

// A job says what its body says.
func TestJobs(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"text", `{"text":"pump-3\nis offline"}`, "job info k: pump-3 is offline"},
		{"title", `{"title":"Look","text":"now"}`, "job info k: Look | now"},
		{"incident", `{"text":"page","device":"d","severity":"firing"}`, "job firing d: page"},
		{"resolved", `{"text":"back","device":"d","severity":"resolved"}`, "job resolved d: back"},
		{"unknown severity", `{"text":"x","severity":"loud"}`, "job info k: x"},
		{"other JSON", `{"n":7}`, `job info k: {"n":7}`},
		{"no JSON", "\x00\x1b[31mred\u202e", "job info k: [31mred"},
		{"nothing", ``, "job info k: A job without a text"},
		{"a text of another type", `{"text":7}`, `job info k: {"text":7}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := wording.Of(&sink.Message{Key: "k", Data: []byte(c.body)}, "")
			if got := n.Type + " " + n.Severity + " " + n.Key + ": " + said(n); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestURL(t *testing.T) {
	for device, want := range map[string]string{
		"pump-3": "https://h.example/console/devices/pump-3", "a/b?#%": "https://h.example/console/devices/a%2Fb%3F%23%25", "..": "https://h.example/console/devices?prefix=..",
	} {
		n := wording.Of(&sink.Message{Event: &liveness.Event{Subject: device, Seq: 1}}, "https://h.example")
		if n.URL != want {
			t.Errorf("%q: %s, want %s", device, n.URL, want)
		}
	}
	for address, want := range map[string]string{
		"": "", "https://h.example/": "https://h.example", "http://h:8080/console/": "http://h:8080", "https://h.example/holter": "https://h.example/holter",
		"h.example": "error", "javascript:alert(1)": "error", "https://u:p@h.example": "error", "https://h.example?x": "error", "https://": "error",
	} {
		got, err := wording.Console(address)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("Console(%q) = %s, %v, want %s", address, got, err, want)
		}
	}
}

// What is about another device has another key.
func TestKeys(t *testing.T) {
	seen := make(map[string]string)
	for _, device := range []string{"a b", "a  b", "a\u00a0b", "ab", "source/a", "device/source/a"} {
		key := wording.Of(&sink.Message{Event: &liveness.Event{Subject: device, Seq: 1}}, "").Key
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have the key %q", device, other, key)
		}
		seen[key] = device
	}
}

func TestTemplates(t *testing.T) {
	offline, several := wording.Samples()[2], wording.Samples()[len(wording.Samples())-2]
	for _, c := range []struct{ name, text, one, many string }{
		{"plain", `{{.Device}} {{.Severity}} {{.Reason}}`, "pump-3 firing silence", "pump-3 resolved / pump-3 firing / pump-3 firing silence"},
		{"duration", `{{.HeardSilence}} {{seconds .HeardSilence}}`, "5m 300", "5m 300 / 5m 300 / 5m 300"},
		{"list", `{{.Count}}:{{range .List}} {{.Type}}{{end}}`, "1: device.offline", "3: device.online device.late device.offline"},
		{"indexes", `{{range $i, $e := $.List}}{{$i}}{{$e.Device}},{{end}}`, "0pump-3,", "0pump-3,1pump-3,2pump-3,"},
		{"condition", `{{if eq .State "offline"}}DOWN{{else}}up{{end}} {{with .Group}}({{.}}){{end}}`, "DOWN (pumps)", "up (pumps) / up (pumps) / DOWN (pumps)"},
		{"lines", "a\n{{.Device}}\n\n", "a / pump-3", "a / pump-3 / a / pump-3 / a / pump-3"},
		{"says nothing", `{{with .Message}}{{.}}{{end}}`, "Silent for 5m of 5m allowed, last seen 2026-11-22 09:55:00 UTC / Group: pumps", ""},
		{"functions", `{{json .Device}} {{printf "%05d|%-3s" .Count "x"}} {{html "<"}}`, `"pump-3" 00001|x   &lt;`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := wording.New("", c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(w.Say(offline).Lines, " / "); got != c.one {
				t.Errorf("one: %q, want %q", got, c.one)
			}
			if got := strings.Join(w.Say(several).Lines, " / "); c.many != "" && got != c.many {
				t.Errorf("several: %q, want %q", got, c.many)
			}
		})
	}
}

// A mistake is found when the template is set, and its position is named.
func TestTemplateMistakes(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"syntax", "a\n{{.Device", "title:2: unclosed action"},
		{"unknown field", "ok\n{{.Devise}}", "title:2:2: executing \"title\" at <.Devise>"},
		{"unknown field in a branch", `{{if eq .Type "device.failed"}}{{.Mesage}}{{end}}`, "<.Mesage>"},
		{"unknown field of several", `{{range .List}}{{if eq .Type "group.outage.started"}}{{.Nope}}{{end}}{{end}}`, "<.Nope>"},
		{"unknown function", `{{env "HOME"}}`, `function "env" not defined`},
		{"endless", `{{range 1000000000000}}{{end}}`, "title:1:8: range goes over .List only"},
		{"nested", `{{range .List}}{{range .List}}{{end}}{{end}}`, "range goes over .List only, and not within another range"},
		{"nested deeper", `{{range .List}}{{with .List}}{{if .}}{{range $.List}}{{end}}{{end}}{{end}}{{end}}`, "not within another range"},
		{"in else", `{{range .List}}{{else}}{{range .List}}{{end}}{{end}}`, "not within another range"},
		{"range of a pipeline", `{{range .List | len}}{{end}}`, "range goes over .List only"},
		{"recursion", `{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`, "define, block and template are not allowed"},
		{"block", `{{block "a" .}}{{end}}`, "define, block and template are not allowed"},
		{"itself", `{{if false}}{{template "title" .}}{{end}}`, "define, block and template are not allowed"},
		{"only a definition", `{{define "a"}}x{{end}}`, "define, block and template are not allowed"},
		{"wide", `{{printf "%999999999d" .Count}}`, "a width in the format has more than two digits"},
		{"wide by an argument", `{{printf "%*d" 99999 .Count}}`, "or is *"},
		{"growing", `{{$x := "0123456789abcdef"}}{{range .List}}` + strings.Repeat(`{{$x = print $x $x}}`, 30) + `{{end}}{{len $x}}`, "return more than 1 MiB"},
		{"long", strings.Repeat("x", 8193), "8193 bytes, want 8192 at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := wording.New(c.text, "")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v, want %q", w, err, c.want)
			}
		})
	}
}

// What a template writes is bounded.
func TestLongOutput(t *testing.T) {
	tpl, err := wording.Parse("text", strings.Repeat(`{{range .List}}`+strings.Repeat("x", 100)+`{{end}}`, 60))
	if err != nil {
		t.Fatal(err)
	}
	list := make([]*wording.Notification, 100)
	for i := range list {
		list[i] = wording.Samples()[0]
	}
	got, err := tpl.Execute(wording.Together(list))
	if err == nil || len(got) != wording.MaxOutput {
		t.Errorf("%d bytes, %v, want the first %d and an error", len(got), err, wording.MaxOutput)
	}
}

// Whatever a device is called and says, each field and title is one line in which nothing is hidden.
func FuzzHostile(f *testing.F) {
	for _, id := range []string{"pump", "a\nb", "<!channel>", "\u202egnp", "a\x00\x1b]0;x\a", "\xff\xfe", "\u2028x", strings.Repeat("é", 500)} {
		f.Add(id, id)
	}
	w, err := wording.New("{{.Device}}: {{.Message}}", "{{.Group}}\n{{.Message}}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, message string) {
		e := liveness.Event{Type: liveness.DeviceFailed, Subject: id, Group: id, Seq: 3, Message: message}
		n := wording.Of(&sink.Message{Event: &e}, "https://h.example")
		for _, words := range []*wording.Words{w, {}} {
			text := words.Say(n)
			for _, line := range append([]string{text.Title, n.Key, n.URL}, text.Lines...) {
				if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' }) {
					t.Errorf("%q, %q: %q", id, message, line)
				}
			}
		}
	})
}

// A template that is accepted ends, whatever it is.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{`{{.Device}}`, `{{range .List}}{{.Type}}{{break}}{{end}}`, `{{$x := .Count}}{{if and $x (lt $x 3)}}{{printf "%v" .}}{{end}}`, `{{slice .Device 1 2 | print | js}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := wording.New("", text)
		if err != nil {
			return
		}
		for _, n := range wording.Samples() {
			for _, line := range w.Say(n).Lines {
				if len(line) > wording.MaxOutput {
					t.Errorf("%q writes a line of %d bytes", text, len(line))
				}
			}
		}
	})
}
