package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
)

// playing returns an API with playbooks whose engines are not running, and a store with two events.
func playing(t *testing.T, cfg httpapi.Config, books ...playbook.Playbook) http.Handler {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := sqldb.New(sqldb.Config{URL: "sqlite:" + t.TempDir() + "/holter.db"})
	check(err)
	outbox := jobs.New(db)
	s, err := store.New(db, store.Config{Outbox: outbox})
	check(err)
	check(s.Open(t.Context()))
	t.Cleanup(func() { check(s.Close()) })
	registry, err := liveness.New(s, liveness.Config{})
	check(err)
	cfg.Playbooks, err = playbook.New(playbook.Config{Database: db, Store: s, Fleet: registry, Playbooks: books})
	check(err)
	cfg.Delivery, err = delivery.New(s, outbox, delivery.Config{Node: "node-1", Kinds: map[string]sink.Kind{playbook.EndpointKind: cfg.Playbooks.Kind}})
	check(err)
	cfg.Playbooks.Attach(cfg.Delivery)
	check(cfg.Playbooks.Open(t.Context()))
	check(cfg.Delivery.Load(t.Context()))
	check(cfg.Playbooks.Load(t.Context()))
	_, err = s.Load(t.Context(), registry)
	check(err)
	ended, end := context.WithCancel(t.Context())
	end()
	check(registry.Run(ended)) // the test says what happens
	check(s.Append(t.Context(), []liveness.Event{
		{Type: liveness.DeviceOnline, Subject: "a", Seq: 1, Time: time.Now(), Record: &keep.Record{Num: 1, ID: "a", State: liveness.Online, Seq: 1}},
		{
			Type: liveness.DeviceOffline, Reason: liveness.Bye, Subject: "a", Seq: 2, Group: "site", Time: time.Now(),
			Record: &keep.Record{Num: 1, ID: "a", State: liveness.Offline, Reason: liveness.Bye, Seq: 2},
		},
	}))
	cfg.NoBeats, cfg.Node = true, "node-1"
	api, err := httpapi.New(registry, s, cfg)
	check(err)
	return api.Handler()
}

const escalation = `{"when":{"types":["device.offline"]},"on_recover":[{"name":"back","note":"${device} is back"}],"steps":[
	{"name":"tell","deliver":{"endpoint":"ops","body":{"text":"${device}: ${reason}"}}},{"name":"patience","wait":"10m"},
	{"name":"still","condition":["offline"]},{"name":"page","if":"still","note":"page"}]}`

// ofFile is a playbook of a configuration file.
func ofFile() playbook.Playbook {
	return playbook.Playbook{Name: "nightly", Place: "fleet.yaml:12", Steps: []playbook.Step{{Name: "note", Do: playbook.Note{Text: "x"}}}}
}

func TestPlaybookEdits(t *testing.T) {
	h := playing(t, httpapi.Config{}, ofFile())
	if w := send(h, "PUT", "/v1/playbooks/escalate", escalation, "If-None-Match", "*"); w.Code != http.StatusNoContent {
		t.Fatalf("PUT = %d %s", w.Code, w.Body)
	}
	list := getJSON[struct{ Playbooks []httpapi.Playbook }](t, h, "/v1/playbooks").Playbooks
	if len(list) != 2 || list[0].Name != "escalate" || list[0].Origin != "api" || list[1].Origin != "file" || list[0].Definition != nil {
		t.Errorf("list %+v", list)
	}
	got := getJSON[httpapi.Playbook](t, h, "/v1/playbooks/escalate")
	definition, err := json.Marshal(got.Definition)
	if err != nil || !strings.HasPrefix(got.Mermaid, "flowchart") || got.OnRecover != "divert" || len(got.Steps) != 4 {
		t.Errorf("playbook %+v, %v", got, err)
	}
	tag := get(h, "/v1/playbooks/escalate").Header().Get("ETag")
	if w := send(h, "PUT", "/v1/playbooks/escalate", string(definition), "If-Match", tag); w.Code != http.StatusNoContent {
		t.Errorf("PUT of what GET shows = %d %s", w.Code, w.Body)
	}
	if again := get(h, "/v1/playbooks/escalate").Header().Get("ETag"); again != tag || tag == "" {
		t.Errorf("the tag was %s, and is %s", tag, again)
	}
	if w := send(h, "PUT", "/v1/playbooks/escalate", strings.Replace(escalation, "10m", "11m", 1)); w.Code != http.StatusNoContent {
		t.Errorf("PUT = %d %s", w.Code, w.Body)
	}
	if d := getJSON[httpapi.Playbook](t, h, "/v1/playbooks/nightly").Definition; d == nil || d.Name != "nightly" || len(d.Steps) != 1 || d.Steps[0].Note != "x" {
		t.Errorf("the definition of the file's is %+v", d)
	}
	for _, c := range []struct {
		method, target, body, header, value string
		code                                int
		detail                              string
	}{
		{"PUT", "/v1/playbooks/escalate", escalation, "If-Match", tag, 412, "has changed since it was read"},
		{"PUT", "/v1/playbooks/escalate", escalation, "If-None-Match", "*", 412, "exists already"},
		{"DELETE", "/v1/playbooks/escalate", "", "If-Match", tag, 412, "has changed since"},
		{"PUT", "/v1/playbooks/nightly", escalation, "", "", 409, "it is in the configuration file (fleet.yaml:12)"},
		{"DELETE", "/v1/playbooks/nightly", "", "", "", 409, "it is in the configuration file (fleet.yaml:12)"},
		{"DELETE", "/v1/playbooks/none", "", "", "", 404, `no playbook "none"`},
		{"GET", "/v1/playbooks/none", "", "", "", 404, `no playbook "none"`},
		{"PUT", "/v1/playbooks/a%20b", escalation, "", "", 422, "is no name"},
		{"PUT", "/v1/playbooks/x", "", "", "", 400, "body is required"},
		{"PUT", "/v1/playbooks/x", "steps: []", "", "", 422, "this is not JSON"},
		{"PUT", "/v1/playbooks/x", `{"name":"y","steps":[{"name":"a","note":"x"}]}`, "", "", 422, `it is "y" here, and "x" where`},
		{"PUT", "/v1/playbooks/x", `{"steps":[{"name":"a","wait":"1ms"}]}`, "", "", 422, `playbook "x", step "a", wait: 1ms is out of range`},
		{"PUT", "/v1/playbooks/x", `{"steps":[{"name":"a","command":{"argv":["true"]}}]}`, "", "", 422, "HOLTER_DELIVERY_ALLOW_COMMANDS=true"},
		{"PUT", "/v1/playbooks/x", `{"when":{"types":["device.odd"]},"steps":[{"name":"a","if":"b","note":"x"}]}`, "", "", 422, `no type of event "device.odd"`},
		{"PUT", "/v1/endpoints/playbook-escalate", `{"kind":"webhook","target":"https://x"}`, "", "", 409, "change the playbook"},
	} {
		wantProblem(t, send(h, c.method, c.target, c.body, c.header, c.value), c.method+" "+c.target+" "+c.body, c.code, c.detail)
	}
	if w := send(h, "DELETE", "/v1/playbooks/escalate", ""); w.Code != http.StatusNoContent {
		t.Errorf("DELETE = %d %s", w.Code, w.Body)
	}
	if list := getJSON[struct{ Playbooks []httpapi.Playbook }](t, h, "/v1/playbooks").Playbooks; len(list) != 1 {
		t.Errorf("list %+v", list)
	}
}

func TestPlaybookCheck(t *testing.T) {
	h := playing(t, httpapi.Config{}, ofFile())
	for _, c := range []struct{ name, body, mistakes, warnings string }{
		{"good", `{"name":"x",` + escalation[1:], "", `tell/deliver: there is no endpoint "ops"`},
		{"no name", escalation, "/: name is missing; a playbook needs a name and steps", `tell/deliver: there is no endpoint "ops"`},
		{"of the file", `{"name":"nightly","steps":[{"name":"a","note":"x"}]}`, "/name: it is in the configuration file (fleet.yaml:12); change it there", ""},
		{"command", `{"name":"x","steps":[{"name":"a","command":{"argv":["true"]}}]}`, "a/command: this server is not configured to run commands", ""},
		{
			"all that makes no sense", `{"name":"x","when":{"reasons":["odd"]},"steps":[{"name":"a","after":"b","note":"${devise}"},{"name":"b","note":"x"},{"name":"b","note":"x"}]}`,
			`/when: there is no reason "odd"; a/note: ${devise} stands; b/name: two steps; a/after: the steps come after each other`, "",
		},
		{"step without an action", `{"name":"x","steps":[{"name":"a"},{"name":"b","wait":"1y"}]}`, "a/: the step does nothing; b/wait: \"1y\" is not a duration", ""},
		{"no object", `[]`, "/: must be a mapping", ""},
		{"no JSON", `{`, "/: this is not JSON: unexpected end of JSON input", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := send(h, "POST", "/v1/playbooks/check", c.body)
			var got httpapi.PlaybookCheck
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if got.OK != (c.mistakes == "") || got.OK != strings.HasPrefix(got.Mermaid, "flowchart") || got.Mistakes == nil || got.Warnings == nil || got.Steps == nil {
				t.Errorf("it is %s", w.Body)
			}
			wantMistakes(t, got.Mistakes, c.mistakes)
			wantMistakes(t, got.Warnings, c.warnings)
		})
	}
	if list := getJSON[struct{ Playbooks []httpapi.Playbook }](t, h, "/v1/playbooks").Playbooks; len(list) != 1 {
		t.Errorf("list %+v", list)
	}
}

// wantMistakes wants mistakes whose texts begin with those of a list.
func wantMistakes(t *testing.T, got []httpapi.PlaybookMistake, want string) {
	t.Helper()
	wants := strings.Split(want, "; ")
	texts := make([]string, len(got))
	for i, m := range got {
		texts[i] = m.Step + "/" + m.Key + ": " + m.Message
	}
	if joined := strings.Join(texts, "; "); strings.HasPrefix(joined, want) && (want != "" || joined == "") {
		return
	}
	for i, text := range texts {
		if len(texts) != len(wants) || !strings.HasPrefix(text, wants[i]) {
			t.Fatalf("the mistakes are %q, want %q", texts, wants)
		}
	}
}

func TestPlaybookDryRun(t *testing.T) {
	h := playing(t, httpapi.Config{}, ofFile())
	try := func(body string) (out httpapi.PlaybookDryRun) {
		t.Helper()
		w := send(h, "POST", "/v1/playbooks/dry-run", body)
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", body, w.Code, w.Body)
		}
		return out
	}
	given := fmt.Sprintf(`{"playbook":{"name":"x",%s,"event":2}`, escalation[1:])
	got := try(given)
	if !got.Starts || got.Why != "" || len(got.Steps) != 4 || len(got.Recovered) != 1 || len(got.Warnings) != 1 || got.Warnings[0].Step != "tell" {
		t.Errorf("it is %+v", got)
	}
	if s := got.Steps[0]; s.Kind != "deliver" || s.Would != `send to endpoint ops: {"text":"a: bye"}` || s.At != 0 {
		t.Errorf("the first step is %+v", s)
	}
	if s := got.Steps[3]; s.If != "still" || s.Would != "note: page" || s.At != 600_000 {
		t.Errorf("the last step is %+v", s)
	}
	if s := got.Recovered[0]; s.Would != "note: a is back" || s.At != 0 {
		t.Errorf("after a recovery: %+v", s)
	}
	if got := try(strings.Replace(given, `"event":2`, `"event":1`, 1)); got.Starts || got.Why != "its type is device.online, want device.offline" || len(got.Steps) != 4 {
		t.Errorf("another type: %+v", got)
	}
	if got := try(`{"name":"nightly","event":2}`); got.Starts || !strings.Contains(got.Why, "by hand") || got.Steps[0].Would != "note: x" {
		t.Errorf("by name: %+v", got)
	}
	for _, c := range []struct {
		body   string
		code   int
		detail string
	}{
		{`{"name":"none","event":2}`, 404, `no playbook "none"`},
		{`{"name":"nightly","event":3}`, 404, "there is no event 3"},
		{`{"name":"nightly"}`, 422, "required property event"},
		{`{"event":2}`, 422, "want either a playbook or the name of one"},
		{`{"name":"nightly","playbook":{},"event":2}`, 422, "want either a playbook or the name of one"},
		{`{"playbook":{"name":"x","steps":[{"name":"a","wait":"1ms"}]},"event":2}`, 422, "1ms is out of range"},
		{`{"playbook":{"name":"x","steps":[{"name":"a","note":"${x}"}]},"event":2}`, 422, "${x} stands for nothing"},
	} {
		wantProblem(t, send(h, "POST", "/v1/playbooks/dry-run", c.body), c.body, c.code, c.detail)
	}
}

func TestScheduleCheck(t *testing.T) {
	h, _ := delivering(t, httpapi.Config{})
	for _, c := range []struct{ name, body, keys string }{
		{"good", `{"name":"nightly",` + nightly[1:], ""},
		{"paused", `{"name":"nightly","paused":true,` + nightly[1:], ""},
		{"nothing", `{}`, "name when kind"},
		{"overlap", `{"name":"x","kind":"webhook","when":"@daily","overlap":"maybe","misfire":"no","settings":{"url":"https://x.example"}}`, "overlap misfire"},
		{"all", `{"name":"a b","kind":"report","when":"61 * * * *","jitter_ms":-1,"settings":{"x":1}}`, "name jitter when settings"},
		{"command", `{"name":"x","kind":"command","when":"@daily","settings":{"command":"true"}}`, "settings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := send(h, "POST", "/v1/schedules/check", c.body)
			var got httpapi.ScheduleCheck
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			keys := make([]string, len(got.Mistakes))
			for i, m := range got.Mistakes {
				keys[i] = m.Key
			}
			if strings.Join(keys, " ") != c.keys || got.OK != (c.keys == "") || got.OK && len(got.Next) != 5 || got.Next == nil || got.Mistakes == nil {
				t.Errorf("it is %s, want mistakes in %q", w.Body, c.keys)
			}
		})
	}
	wantProblem(t, send(h, "POST", "/v1/schedules/check", `{"name":1}`), "a number as name", 422, "name")
	if list := getJSON[struct{ Schedules []httpapi.Schedule }](t, h, "/v1/schedules").Schedules; len(list) != 0 {
		t.Errorf("list %+v", list)
	}
}
