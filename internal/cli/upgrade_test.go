package cli

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holter-iot/holter/internal/test/testdb"
)

// The fleets of releases lie in testdata/fleets: VERSION.db.gz is a backup of a small fleet that this release
// has made, VERSION.json what its API said of it. `make fixture VERSION=v0.1.0` makes both.
var makeFixture = flag.String("fixture", "", "make the fleet of a release, such as v0.1.0")

const fleets = "testdata/fleets"

// fixture is what is known of the fleet of a release.
type fixture struct {
	Token   string         `json:"token"` // of an admin
	Answers map[string]any `json:"answers"`
}

// upgradeQuestions are what the API is asked for.
func upgradeQuestions() []string {
	return []string{
		"/v1/devices?limit=100", "/v1/events?limit=1000", "/v1/endpoints", "/v1/routes", "/v1/queues", "/v1/job-routes", "/v1/schedules", "/v1/playbooks",
		"/v1/jobs", "/v1/dead-letters", "/v1/runs",
	}
}

// TestMakeFixture makes the fleet of a release. Its answers are complete; what may change is left out when they are compared.
func TestMakeFixture(t *testing.T) {
	if *makeFixture == "" {
		t.Skip("only with -fixture")
	}
	data := t.TempDir()
	p := startServe(t, "--data", data)
	operate := func(args ...string) {
		t.Helper()
		if got := typeLine(t.Context(), t, append(args, "--api", p.api)...); got.code != 0 {
			t.Fatalf("%v = %+v", args, got)
		}
	}
	books := filepath.Join(t.TempDir(), "book.yaml")
	if err := os.WriteFile(books, []byte("when: {types: device.offline}\nsteps:\n- {name: note, note: x}\n- {name: rest, wait: 240h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	operate("endpoints", "set", "ops", "--target", "https://ops.example/hook")
	operate("endpoints", "set", "file", "--kind", "log", "--target", "events.jsonl")
	operate("queues", "set", "slow", "--concurrency", "1")
	operate("queues", "pause", "slow")
	operate("routes", "set", "all", "--all", "--endpoint", "ops", "--queue", "slow")
	operate("schedules", "set", "update", "--kind", "maintenance", "--when", "0 2 * * sun", "--settings", `{"for_ms":7200000,"group":"site-7"}`)
	operate("playbooks", "set", "book", books)
	for i := range 20 {
		p.do(http.MethodPost, fmt.Sprintf("/v1/beat/site-7.pump-%d", i), "")
	}
	for _, id := range []string{"ä ö'\"\\", "日本語", "A", "a"} {
		p.do(http.MethodPost, "/v1/beat/"+url.PathEscape(id), "")
	}
	operate("devices", "policy", "site-7.pump-1", "--timeout", "10m")
	operate("devices", "maintenance", "site-7.pump-2", "on")
	p.do(http.MethodPost, "/v1/beat/site-7.pump-3/bye", "")
	p.do(http.MethodPost, "/v1/beat/site-7.pump-4/sleep?for=24h", "")
	operate("devices", "forget", "site-7.pump-5")
	operate("jobs", "add", `{"a":"ü"}`, "--endpoint", "ops", "--queue", "slow", "--key", "k")
	operate("playbooks", "run", "book", "site-7.pump-3")
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p = startServe(t, "--data", data) // so that the answers are those after a start
	f := fixture{Answers: answersOf(t, p, "")}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var made tokenLine
	got := typeLine(t.Context(), t, "tokens", "create", "--role", "admin", "--name", "old", "--json", "--data", data)
	if err := json.Unmarshal([]byte(got.stdout), &made); err != nil {
		t.Fatal(got)
	}
	f.Token = made.Secret
	answers, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.db")
	if got := typeLine(t.Context(), t, "backup", file, "--data", data); got.code != 0 {
		t.Fatal(got)
	}
	if err := firstError(pack(file, filepath.Join(fleets, *makeFixture+".db.gz")), os.WriteFile(filepath.Join(fleets, *makeFixture+".json"), answers, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// The fleet of each release is restored into each database, brought up to date, and what the API says of it is what that release said.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob(filepath.Join(fleets, "*.json"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no fleets of releases: %v", err)
	}
	for _, path := range all {
		version := strings.TrimSuffix(filepath.Base(path), ".json")
		var want fixture
		raw, err := os.ReadFile(path)
		if err := firstError(err, json.Unmarshal(raw, &want)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "b.db")
		if err := unpack(filepath.Join(fleets, version+".db.gz"), file); err != nil {
			t.Fatal(err)
		}
		for _, kind := range testdb.Databases() {
			t.Run(version+"/"+kind.Name, func(t *testing.T) {
				data, database := t.TempDir(), kind.URL(t)
				if got := typeLine(t.Context(), t, "restore", file, "--data", data, "--database", database); got.code != 0 {
					t.Fatal(got)
				}
				p := startServe(t, "--data", data, "--database", database)
				now := answersOf(t, p, want.Token)
				for path, was := range want.Answers {
					if is := now[path]; byID(was) && byID(is) && !reflect.DeepEqual(lasting(was), lasting(keepFields(was, is))) {
						difference(t, path, lasting(was), lasting(keepFields(was, is)))
					}
				}
				for method, path := range map[string]string{http.MethodPost: "/v1/beat/site-7.pump-1", http.MethodGet: "/v1/events?device=site-7.pump-1"} { // it goes on
					if code, answer := p.asWhom(method, path, want.Token); code != http.StatusOK {
						t.Errorf("%s %s = %d %s", method, path, code, answer)
					}
				}
				if err := p.stop(syscall.SIGTERM); err != nil {
					t.Errorf("ended with %v\n%s", err, p.logged())
				}
				list := typeLine(t.Context(), t, "tokens", "list", "--data", data, "--database", database)
				if list.code != 0 || !strings.Contains(list.stdout, "old") {
					t.Errorf("tokens = %+v", list)
				}
			})
		}
	}
}

// answersOf returns the answers of the API.
func answersOf(t *testing.T, p *program, token string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, path := range upgradeQuestions() {
		code, text := p.asWhom(http.MethodGet, path, token)
		var v any
		if err := json.Unmarshal([]byte(text), &v); code != http.StatusOK || err != nil {
			t.Fatalf("GET %s = %d %s", path, code, text)
		}
		all[path] = v
	}
	return all
}

// asWhom sends a request with a token, or without one.
func (p *program) asWhom(method, path, token string) (code int, answer string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.api+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := firstError(err, res.Body.Close()); err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// keepFields returns an answer with those fields of objects only that an older one has, and as many events: newer releases say more. The
// runs of a schedule are as many as they were if there are more: its time has come since the older answer.
func keepFields(was, is any) any {
	switch was := was.(type) {
	case map[string]any:
		now, ok := is.(map[string]any)
		if !ok {
			return is
		}
		kept := map[string]any{}
		for name := range was {
			kept[name] = keepFields(was[name], now[name])
		}
		before, schedule := was["runs"].(float64)
		if after, _ := now["runs"].(float64); schedule && was["when"] != nil && after > before {
			kept["runs"] = before
		}
		return kept
	case []any:
		now, ok := is.([]any)
		if !ok {
			return is
		}
		var kept []any
		for i := range now[:min(len(now), len(was))] {
			kept = append(kept, keepFields(was[i], now[i]))
		}
		return kept
	}
	return is
}

// difference reports where two answers differ.
func difference(t *testing.T, path string, was, is any) {
	t.Helper()
	switch was := was.(type) {
	case map[string]any:
		if is, ok := is.(map[string]any); ok {
			for name := range was {
				difference(t, path+" "+name, was[name], is[name])
			}
			return
		}
	case []any:
		if is, ok := is.([]any); ok && len(was) == len(is) {
			for i := range was {
				difference(t, fmt.Sprintf("%s %d", path, i), was[i], is[i])
			}
			return
		}
	}
	if !reflect.DeepEqual(was, is) {
		t.Errorf("GET %s: %v, want %v", path, is, was)
	}
}

// byID sorts devices, which come in an order of the process. It returns true.
func byID(v any) bool {
	object, _ := v.(map[string]any)
	devices, _ := object["devices"].([]any)
	slices.SortFunc(devices, func(a, b any) int {
		return strings.Compare(fmt.Sprint(a.(map[string]any)["id"]), fmt.Sprint(b.(map[string]any)["id"]))
	})
	return true
}

// lasting returns an answer without what passes: states after a start, times to come, counters of the process.
func lasting(v any) any {
	passing := map[string]bool{
		"as_of": true, "heard_silence_ms": true, "deadline": true, "state": true, "since": true, "listening": true, "connected": true, "next": true, "learned": true,
		"oldest_age_ms": true, "due": true, "attempts": true, "error": true, "running": true, "delivered": true, "retried": true, "dead": true, "last_seen": true,
		"worker": true, "started": true, "jobs": true, "until": true, "unknown_until": true, "unverified": true, "sleep_until": true,
	}
	switch v := v.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, value := range v {
			if !passing[name] || name == "jobs" && reflect.TypeOf(value).Kind() == reflect.Slice {
				kept[name] = lasting(value)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = lasting(v[i])
		}
		return kept
	}
	return v
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// pack compresses a file.
func pack(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	return firstError(err, z.Close(), f.Close())
}

func unpack(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(z)
	return firstError(err, os.WriteFile(to, data, 0o600))
}
