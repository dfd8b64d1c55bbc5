package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/credential"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/notify"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// notifying is the configuration with the kinds that notify people.
func notifying() delivery.Config {
	return delivery.Config{Kinds: notify.Kinds(sinktest.Guard(), "holter/test")}
}

// told returns the devices' events that a request of Slack tells, as DEVICE:SEQ.
func told(t *testing.T, r request) []string {
	t.Helper()
	var body struct {
		Blocks []struct{ Text struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || len(body.Blocks) != 1 {
		t.Fatalf("%v: %s", err, r.body)
	}
	var list []string
	for line := range strings.SplitSeq(body.Blocks[0].Text.Text, "\n") {
		if id, ok := strings.CutPrefix(line, "at "); ok {
			list = append(list, id)
		}
	}
	return list
}

// A storm becomes few messages, at the rate of the endpoint; the service may be busy or fail in between,
// and the server may be started anew. Nothing is lost, and each device's events are told in order.
func TestStormIsToldTogether(t *testing.T) {
	rc := newReceiver(t, func(n int, _ request, w http.ResponseWriter) {
		switch n % 7 {
		case 2:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		case 5:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	r := newRig(t, notifying())
	r.queue(quick)
	r.endpoint("team", "slack", rc.URL+"/services/x", `{"rate":200,"text":"at {{.Device}} {{.Time}}","break_after":1000}`)
	const devices, rounds = 60, 3
	all := make([]string, devices)
	for i := range all {
		all[i] = fmt.Sprintf("dev-%d", i+1)
	}
	start := time.Now().Truncate(time.Second)
	for round := range rounds {
		events := r.events(all...)
		for i := range events {
			events[i].Time = start.Add(time.Duration(round) * time.Second)
		}
		r.check(r.store.Append(t.Context(), events))
		if round == 1 {
			r.end()
			r.start()
		}
	}
	r.idle()
	seen := make(map[string][]string) // times of the events, by device
	requests, most := 0, 0
	for n, got := range rc.got() {
		if n = (n + 1) % 7; n == 2 || n == 5 {
			continue
		}
		list := told(t, got)
		requests, most = requests+1, max(most, len(list))
		for _, one := range list {
			device, at, _ := strings.Cut(one, " ")
			seen[device] = append(seen[device], at)
		}
	}
	for _, id := range all {
		if times := seen[id]; len(times) != rounds || !slices.IsSorted(times) {
			t.Errorf("%s: %q", id, times)
		}
	}
	if requests > devices*rounds/4 || most > 20 || len(r.dead()) > 0 {
		t.Errorf("%d requests with up to %d events for %d of them, %d dead letters", requests, most, devices*rounds, len(r.dead()))
	}
}

// A device that comes back closes its incident by a route with default settings, also in a maintenance and in an
// outage of its group, in which it opens none, and closes none.
func TestRecoveryClosesIncidents(t *testing.T) {
	rc := newReceiver(t, nil)
	r := newRig(t, notifying())
	r.endpoint("oncall", "pagerduty", rc.URL+"/v2/enqueue", `{"routing_key":"k","rate":1000}`)
	r.endpoint("hook", "webhook", rc.URL+"/hook", "")
	happen := func(device string, typ liveness.Type, change func(*liveness.Event)) {
		t.Helper()
		events := r.events(device)
		if events[0].Type = typ; typ == liveness.DeviceOnline {
			events[0].Reason, events[0].Record.State = liveness.NoReason, liveness.Online
		}
		if change != nil {
			change(&events[0])
		}
		r.check(r.store.Append(t.Context(), events))
	}
	maintained := func(e *liveness.Event) { e.Maintenance = true }
	outage := func(e *liveness.Event) { e.Outage = true }
	happen("dev-1", liveness.DeviceOffline, nil)
	happen("dev-2", liveness.DeviceOffline, nil)
	happen("dev-3", liveness.DeviceOffline, outage)
	happen("dev-1", liveness.DeviceOnline, maintained)
	happen("dev-2", liveness.DeviceOnline, outage)
	happen("dev-3", liveness.DeviceOnline, outage)
	r.idle()
	did, hooks := make(map[string][]string), 0
	for _, got := range rc.got() {
		var body struct {
			Action string `json:"event_action"`
			Key    string `json:"dedup_key"`
		}
		if got.path == "/hook" {
			hooks++
		} else if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			t.Fatal(err)
		} else {
			did[body.Key] = append(did[body.Key], body.Action)
		}
	}
	want := map[string][]string{"dev-1": {"trigger", "resolve"}, "dev-2": {"trigger", "resolve"}}
	if !reflect.DeepEqual(did, want) || hooks != 2 {
		t.Errorf("%v and %d requests to the webhook, want %v and 2", did, hooks, want)
	}
}

// A busy chat holds up no other endpoint of its queue.
func TestSlowChatHoldsUpNobody(t *testing.T) {
	free := make(chan struct{})
	chat, other := newReceiver(t, func(int, request, http.ResponseWriter) { <-free }), newReceiver(t, nil)
	defer close(free)
	r := newRig(t, notifying())
	r.queue(func(q *jobs.Queue) { q.Concurrency = 2 })
	r.endpoint("team", "slack", chat.URL+"/services/x", `{"timeout_ms":60000,"batch":1}`)
	r.endpoint("hook", "webhook", other.URL, "")
	for i := range 10 {
		r.append(fmt.Sprintf("dev-%d", i+1))
	}
	r.until("the webhook has all", func() bool { return len(other.got()) == 10 })
	if n := len(chat.got()); n > 1 {
		t.Errorf("%d deliveries to the chat at once", n)
	}
}

// A target in a private network is refused when it is set, by address and by name; one that was set
// before is refused by each delivery, and looked up by none when the server starts.
func TestPrivateTargets(t *testing.T) {
	r := newRig(t, delivery.Config{Kinds: notify.Kinds(sink.NewGuard(nil), ""), Private: []netip.Prefix{netip.MustParsePrefix("10.7.0.0/16")}})
	r.engine.LookUp(func(_ context.Context, _, host string) ([]netip.Addr, error) {
		switch host {
		case "private.example":
			return []netip.Addr{netip.MustParseAddr("192.168.1.7"), netip.MustParseAddr("fd00::7")}, nil
		case "both.example":
			return []netip.Addr{netip.MustParseAddr("192.168.1.7"), netip.MustParseAddr("1.1.1.1")}, nil
		}
		return nil, errors.New("no such host")
	})
	const mail = `{"from":"a@b.example","to":["c@d.example"]}`
	for _, c := range []struct{ kind, target, settings, network string }{
		{"webhook", "http://192.168.1.1/x", "", "192.168.0.0/16"},
		{"webhook", "http://10.7.1.1:8080/x", "", ""},
		{"webhook", "https://[::1]:8443/", "", "::/96"},
		{"webhook", "https://private.example/x", "", "fc00::/7"},
		{"webhook", "https://both.example/x", "", ""},
		{"webhook", "https://unknown.example/x", "", ""},
		{"webhook", "https://1.1.1.1/x", "", ""},
		{"slack", "https://169.254.169.254/SECRET", "", "169.254.0.0/16"},
		{"telegram", "http://127.0.0.1:8081", `{"token":"1:a","chat":1}`, "127.0.0.0/8"},
		{"telegram", "", `{"token":"1:a","chat":1}`, ""},
		{"email", "smtp://private.example:25", mail, "fc00::/7"},
		{"email", "smtps://[fd00::1]", mail, "fc00::/7"},
	} {
		t.Run(c.kind+" "+c.target, func(t *testing.T) {
			err := r.engine.PutEndpoint(t.Context(), jobs.Endpoint{Name: "e", Kind: c.kind, Target: c.target, Settings: json.RawMessage(c.settings)})
			if c.network == "" {
				r.check(err)
				return
			}
			if !isErr(err, jobs.ErrBad) || !strings.Contains(err.Error(), c.network) || !strings.Contains(err.Error(), sink.PrivateEnv) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%v, want it refused with the network %s", err, c.network)
			}
		})
	}
	earlier := []string{"http://127.0.0.1:9/", "http://10.0.0.1/", "http://169.254.169.254/", "http://[::ffff:169.254.169.254]/"}
	for i, target := range earlier { // of a server that allowed them
		r.check(r.engine.Jobs().PutEndpoint(t.Context(), jobs.Endpoint{Name: fmt.Sprint("old-", i), Kind: "webhook", Target: target}))
	}
	r.end()
	r.start()
	r.engine.LookUp(func(context.Context, string, string) ([]netip.Addr, error) { panic("nobody set an endpoint") })
	for i, target := range earlier {
		if got, err := r.engine.Test(t.Context(), fmt.Sprint("old-", i)); err != nil || !errors.Is(got.Err, sink.ErrPrivate) {
			t.Errorf("%s: %+v, %v, want ErrPrivate", target, got, err)
		}
	}
}

// Mistakes of other kinds of targets, which are none of the network, are not taken for hosts.
func TestTargetsWithoutHosts(t *testing.T) {
	for _, target := range []string{"events.jsonl", "/bin/true", "curl http://127.0.0.1/", "", "credential:x"} {
		if hosts := delivery.HostsOf(target); len(hosts) > 0 {
			t.Errorf("%q has hosts %q", target, hosts)
		}
	}
	for target, want := range map[string]string{
		"kafka://a:9092,[::1]:9092/topic": "a ::1", "nats://a,b:1": "a b", "https://h/a://b": "h", "tcp://127.0.0.1": "127.0.0.1", "HTTP://H?x": "H",
	} {
		if got := strings.Join(delivery.HostsOf(target), " "); got != want {
			t.Errorf("%q has %q, want %q", target, got, want)
		}
	}
}

// A target that is a secret is shown by its host alone, and stays if it is put as it is shown.
func TestHiddenTargets(t *testing.T) {
	const secret, shown = "https://hooks.example/services/T/B/SECRET", "https://hooks.example/(hidden)"
	if got := delivery.HideTarget("slack", secret); got != shown {
		t.Errorf("shown as %q, want %q", got, shown)
	}
	for target, want := range map[string]string{
		"https://h.example/a?token=SECRET": "https://h.example/a?(hidden)", "https://h.example?SECRET": "https://h.example?(hidden)",
		"https://HOOKS.slack.com:443/services/T/SECRET": "https://HOOKS.slack.com:443/(hidden)", "https://x.webhook.office.com/SECRET": "https://x.webhook.office.com/(hidden)",
		"https://nothooks.slack.com.example/a": "https://nothooks.slack.com.example/a", "/bin/true?": "/bin/true?", "kafka://a:1,b:2/topic": "kafka://a:1,b:2/topic",
	} {
		if got := delivery.HideTarget("webhook", target); got != want {
			t.Errorf("%s is shown as %s, want %s", target, got, want)
		}
	}
	for _, c := range []struct{ kind, target string }{{"webhook", secret}, {"slack", "credential:endpoint-hook"}, {"telegram", "https://api.telegram.org"}} {
		if got := delivery.HideTarget(c.kind, c.target); got != c.target {
			t.Errorf("%s %q is shown as %q", c.kind, c.target, got)
		}
	}
	r := newRig(t, notifying())
	r.endpoint("team", "slack", secret, `{"title":"a"}`)
	put := func(kind, target string) error {
		return r.engine.PutEndpoint(t.Context(), jobs.Endpoint{Name: "team", Kind: kind, Target: target, Settings: json.RawMessage(`{"title":"b"}`)})
	}
	r.check(put("slack", shown))
	if p, err := r.engine.Endpoint("team"); err != nil || p.Target != secret || string(p.Settings) != `{"title":"b"}` {
		t.Errorf("%+v, %v", p, err)
	}
	for _, c := range []struct{ kind, target string }{{"slack", "https://evil.example/(hidden)"}, {"discord", shown}, {"slack", "http://hooks.example/(hidden)"}} {
		if err := put(c.kind, c.target); !isErr(err, jobs.ErrBad) || !strings.Contains(err.Error(), "(hidden) stands for") || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s %s: %v", c.kind, c.target, err)
		}
	}
}

// So it is with the query of a webhook.
func TestHiddenQuery(t *testing.T) {
	const secret, shown = "https://hooks.example/a?token=SECRET", "https://hooks.example/a?(hidden)"
	r := newRig(t, notifying())
	r.endpoint("hook", "webhook", secret, "")
	put := func(target string) error {
		return r.engine.PutEndpoint(t.Context(), jobs.Endpoint{Name: "hook", Kind: "webhook", Target: target})
	}
	r.check(put(shown))
	if p, err := r.engine.Endpoint("hook"); err != nil || p.Target != secret {
		t.Errorf("%+v, %v", p, err)
	}
	for _, target := range []string{"https://hooks.example/b?(hidden)", "https://evil.example/a?(hidden)"} {
		if err := put(target); !isErr(err, jobs.ErrBad) || !strings.Contains(err.Error(), "(hidden) stands for") {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// A credential must be there when it is named, and is not read when the server starts. Its name is shown.
func TestCredentialsOfEndpoints(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(credential.DirectoryEnv, dir)
	file := filepath.Join(dir, "endpoint-hook")
	rc := newReceiver(t, nil)
	r := newRig(t, notifying())
	put := func(kind, target, settings string) error {
		return r.engine.PutEndpoint(t.Context(), jobs.Endpoint{Name: "e", Kind: kind, Target: target, Settings: json.RawMessage(settings)})
	}
	r.check(os.WriteFile(filepath.Join(dir, "database"), []byte(rc.URL+"/SECRET"), 0o600))
	for _, c := range []struct{ kind, target, settings, content, want string }{
		{"slack", "credential:endpoint-hook", ``, "", "target: "},
		{"slack", "credential:endpoint-/../hook", ``, rc.URL + "/x", "without a slash"},
		{"slack", "credential:database", ``, "", `target: the credential "database" is not for endpoints: they read only those whose names begin with endpoint-`},
		{"slack", "credential:../endpoint-hook", ``, "", "begin with endpoint-"},
		{"webhook", rc.URL, `{"secret":"credential:database"}`, "", `settings: secret: the credential "database" is not`},
		{"webhook", rc.URL, `{"headers":{"X-Key":"credential:database"}}`, "", `header "X-Key": the credential "database" is not`},
		{"slack", "credential:endpoint-hook", ``, "nonsense SECRET", "want https://HOST/PATH"},
		{"slack", "credential:endpoint-hook", ``, "https://10.1.2.3/SECRET", "10.0.0.0/8"},
		{"webhook", rc.URL, `{"secret":"credential:endpoint-nope"}`, "x", "settings: secret: "},
		{"webhook", rc.URL, `{"secret":"credential:endpoint-hook"}`, "SECRET no base64", "base64"},
		{"webhook", rc.URL, `{"headers":{"X-Key":"credential:endpoint-nope"}}`, "x", `header "X-Key"`},
	} {
		_ = os.Remove(file)
		if c.content != "" {
			r.check(os.WriteFile(file, []byte(c.content), 0o600))
		}
		if err := put(c.kind, c.target, c.settings); !isErr(err, jobs.ErrBad) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s %s %s with %q: %v, want %q", c.kind, c.target, c.settings, c.content, err, c.want)
		}
	}
	r.check(os.WriteFile(file, []byte(rc.URL+"/one"), 0o600))
	r.check(os.WriteFile(filepath.Join(dir, "endpoint-sign"), []byte(secret+"\n"), 0o600))
	r.endpoint("chat", "slack", "credential:endpoint-hook", `{"rate":1000}`)
	r.endpoint("hook", "webhook", rc.URL+"/hook", `{"secret":"credential:endpoint-sign","headers":{"X-Key":"credential:endpoint-hook"}}`)
	if p, err := r.engine.Endpoint("hook"); err != nil || !strings.Contains(string(delivery.HideSecrets(p.Settings)), `"credential:endpoint-sign"`) {
		t.Errorf("%s, %v", delivery.HideSecrets(p.Settings), err)
	}
	r.check(os.Remove(file)) // the server starts nevertheless
	r.end()
	r.start()
	r.queue(quick)
	r.append("dev-1")
	r.until("both fail", func() bool {
		failing := 0
		for _, st := range r.engine.Stats().Endpoints {
			if st.Failed > 0 {
				failing++
			}
		}
		return failing == 2
	})
	r.check(os.WriteFile(file, []byte(rc.URL+"/two"), 0o600))
	r.idle()
	for _, got := range rc.got() {
		if got.path == "/two" || got.path == "/hook" && got.header.Get("X-Key") == rc.URL+"/two" && got.header.Get("Webhook-Signature") != "" {
			continue
		}
		t.Errorf("%s %v", got.path, got.header)
	}
	if n := len(rc.got()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A test sends one message through the sink and says what came of it, and makes no job.
func TestTest(t *testing.T) {
	rc := newReceiver(t, func(_ int, r request, w http.ResponseWriter) {
		if r.path == "/bad" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = fmt.Fprint(w, "I am "+r.path)
	})
	r := newRig(t, notifying())
	r.endpoint("good", "webhook", rc.URL+"/good", "")
	r.endpoint("bad", "slack", rc.URL+"/bad", "")
	r.check(r.engine.EnableEndpoint(t.Context(), "bad", false, "by an operator"))
	got, err := r.engine.Test(t.Context(), "good")
	if err != nil || got.Err != nil || got.Status != http.StatusOK || got.Response != "I am /good" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = r.engine.Test(t.Context(), "bad"); err != nil || got.Err == nil || got.Status != http.StatusForbidden || got.Response != "I am (hidden)" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = r.engine.Test(t.Context(), "bad"); err != nil || got.Again.IsZero() {
		t.Errorf("beyond the rate: %+v, %v", got, err)
	}
	if _, err = r.engine.Test(t.Context(), "none"); !isErr(err, jobs.ErrUnknown) {
		t.Errorf("%v", err)
	}
	r.check(r.engine.Jobs().PutEndpoint(t.Context(), jobs.Endpoint{Name: "broken", Kind: "slack", Target: "x"}))
	r.end()
	r.start()
	if _, err = r.engine.Test(t.Context(), "broken"); !isErr(err, jobs.ErrBad) {
		t.Errorf("%v", err)
	}
	var body struct {
		Test     bool
		Endpoint string
	}
	if first := rc.got()[0]; json.Unmarshal([]byte(first.body), &body) != nil || !body.Test || body.Endpoint != "good" || !strings.HasPrefix(first.header.Get("Webhook-Id"), "test:") {
		t.Errorf("%+v", first)
	}
	if len(r.engine.Jobs().Depths()) > 0 {
		t.Error("it made a job")
	}
}
