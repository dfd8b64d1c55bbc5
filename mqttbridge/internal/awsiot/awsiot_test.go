package awsiot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/internal/awsiot"
)

const base = int64(1_700_000_000_000)

// fleet is a registry that keeps epochs as the real one does.
type fleet map[string]uint64

func (f fleet) Epoch(device string) uint64 { return f[device] }
func (f fleet) Devices() iter.Seq[string]  { return maps.Keys(f) }

// rig is a convention and the registry behind it.
type rig struct {
	tb      testing.TB
	c       convention.Convention
	fleet   fleet
	online  map[string]bool
	explain bool
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	r := &rig{tb: tb, fleet: fleet{}, online: map[string]bool{}}
	r.restart()
	return r
}

// restart begins anew with what the registry kept.
func (r *rig) restart() {
	r.c = awsiot.New()
	r.c.Connected(r.fleet, func(convention.Sign) { r.tb.Error("a sign on connect") })
}

// apply applies a message and tells what it meant, "online dev", "order" for what was rejected.
func (r *rig) apply(topic string, payload []byte) string {
	var out []string
	err := r.c.Apply(convention.Message{Topic: topic, Payload: payload, Time: time.UnixMilli(base)}, r.explain, func(s convention.Sign) {
		out = append(out, r.take(s))
	})
	if rejected, ok := errors.AsType[*convention.Rejected](err); ok {
		out = append(out, rejected.Reason)
	} else if err != nil {
		r.tb.Errorf("Apply = %v, want a *Rejected", err)
	}
	return strings.Join(out, " ")
}

func (r *rig) take(s convention.Sign) string {
	if r.explain == (s.Why == "") {
		r.tb.Errorf("%+v: Why is %q", s, s.Why)
	}
	switch s.Meaning {
	case convention.Online:
		if s.Epoch < r.fleet[s.Device] || s.Epoch == 0 || s.Timeout != convention.Never {
			r.tb.Errorf("%+v, the latest epoch is %d", s, r.fleet[s.Device])
		}
		r.fleet[s.Device], r.online[s.Device] = s.Epoch, true
		return "online " + s.Device
	case convention.Offline, convention.Reported, convention.Bye:
		if s.Epoch != 0 && s.Epoch != r.fleet[s.Device] {
			r.tb.Errorf("%+v, the latest epoch is %d", s, r.fleet[s.Device])
		}
		r.online[s.Device] = false
		return s.Meaning.String() + " " + s.Device
	default:
		return "ignore " + s.Device
	}
}

// send applies an event of the client dev: "c S 3 60" says that session S connected as version 3 at 60 s, "d S 3 90 REASON" that it ended.
func (r *rig) send(line string) string {
	f := append(strings.Fields(line), "CONNECTION_LOST")
	kind := map[string]string{"c": "connected", "d": "disconnected"}[f[0]]
	var version, second int64
	_, _ = fmt.Sscan(f[2]+" "+f[3], &version, &second)
	body := map[string]any{
		"clientId": "dev", "timestamp": base + second*1000, "eventType": kind, "sessionIdentifier": f[1], "versionNumber": version,
	}
	if kind == "disconnected" {
		body["disconnectReason"] = f[4]
	}
	raw, _ := json.Marshal(body)
	return r.apply("$aws/events/presence/"+kind+"/dev", raw)
}

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Source, Topic, Want string
		Payload                   json.RawMessage
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			if got := r.apply(v.Topic, v.Payload); got != v.Want {
				t.Errorf("signs = %q, want %q", got, v.Want)
			}
		})
	}
}

// TestStories sends events one after the other; what follows ">" is what the convention is to make of them.
func TestStories(t *testing.T) {
	tests := []struct{ name, story string }{
		{"in order", "c A 1 0 > online | d A 1 60 > offline | c B 2 90 > online | d B 2 99 > offline"},
		{"goodbye", "c A 1 0 > online | d A 1 60 CLIENT_INITIATED_DISCONNECT > bye"},
		{"keep alive missed", "c A 1 0 > online | d A 1 60 MQTT_KEEP_ALIVE_TIMEOUT > reported | c B 2 90 > online"},
		{"keep alive of an old session missed", "c A 1 0 > online | c B 2 61 > online | d A 1 60 MQTT_KEEP_ALIVE_TIMEOUT > order"},
		{"twice", "c A 1 0 > online | c A 1 0 > online | d A 1 60 > offline | d A 1 60 > ignore | c A 1 0 > ignore"},
		{"the end comes first", "d A 1 60 > offline | c A 1 0 > ignore | c B 2 90 > online"},
		{"a late end", "c A 1 0 > online | c B 2 61 > online | d A 1 60 > order | d B 2 99 > offline"},
		{"a late end, by its clock in the future", "c A 1 0 > online | c B 2 61 > online | d A 1 600 > order"},
		{"a late session", "c B 2 61 > online | c A 1 0 > order | d A 1 60 > order"},
		{"replaced, in order", "c A 1 0 > online | d A 1 60 DUPLICATE_CLIENTID > ignore | c B 2 60 > online"},
		{"replaced, out of order", "c A 1 0 > online | c B 2 60 > online | d A 1 60 DUPLICATE_CLIENTID > order"},
		{"replaced, never connected", "d B 2 60 DUPLICATE_CLIENTID > ignore | c B 2 0 > ignore | c C 3 60 > online"},
		{"a connect was missed", "c A 1 0 > online | d B 2 600 > offline | c B 2 500 > ignore | c C 3 700 > online"},
		{"the version begins again", "c A 7 0 > online | d A 7 60 > offline | c B 0 3700 > online | d B 0 3760 > offline"},
		{"the version begins again, ends first", "c A 7 0 > online | d B 0 3760 > offline | c B 0 3700 > ignore"},
		{"a lower version a minute later is late", "c A 7 0 > online | c B 6 60 > order | c B 6 -60 > order"},
		{"the same version again", "c A 0 0 > online | d A 0 60 > offline | c B 0 3700 > online | d A 0 60 > order"},
		{"no versions, skewed clocks", "c A 0 0 > online | d A 0 60 > offline | c B 0 -30 > online | d A 0 60 > order | d B 0 70 > offline"},
		{"restart, then the end", "c A 1 0 > online | restart | d A 1 60 > offline | c B 2 70 > online"},
		{"restart, then a late end", "c A 1 0 > online | c B 2 60 > online | restart | d A 1 60 > order | d B 2 90 > offline"},
		{"restart, then a connect", "c A 1 0 > online | restart | c A 1 0 > online | c B 2 60 > online | d A 1 59 > order"},
		{"restart, then a late connect", "c B 2 600 > online | restart | c A 1 0 > order"},
		{"restart, and a connect was missed", "c A 1 0 > online | restart | d B 2 600 > offline"},
		{"restart, version begins again", "c A 9 0 > online | restart | c B 0 7200 > online | d B 0 7300 > offline"},
	}
	for _, explain := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s/explain=%v", tt.name, explain), func(t *testing.T) {
				r := newRig(t)
				r.explain = explain
				for step := range strings.SplitSeq(tt.story, " | ") {
					line, want, _ := strings.Cut(step, " > ")
					if line == "restart" {
						r.restart()
						continue
					}
					switch {
					case want == "ignore" && !explain:
						want = ""
					case want != "order":
						want += " dev"
					}
					if got := r.send(line); got != want {
						t.Fatalf("%s: %q, want %q", line, got, want)
					}
				}
			})
		}
	}
}

func TestForeignEpoch(t *testing.T) {
	for _, epoch := range []uint64{7, 1_700_000_000_000_000_000} {
		r := newRig(t)
		r.fleet["dev"] = epoch
		if got := r.send("d A 1 60"); got != "offline dev" {
			t.Errorf("epoch %d, disconnected: %q", epoch, got)
		}
		if got := r.send("c B 2 70"); got != "online dev" {
			t.Errorf("epoch %d, connected: %q", epoch, got)
		}
		r.restart()
		if got := r.send("d B 2 80"); got != "offline dev" {
			t.Errorf("epoch %d, disconnected after a restart: %q", epoch, got)
		}
	}
}

// TestAnyOrder has sessions one after the other, whose events come in any order and several times: what the latest session says holds.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		n := rapid.IntRange(1, 6).Draw(rt, "sessions")
		versions := rapid.Bool().Draw(rt, "versions rise from 0")
		var events []string
		for i := range n {
			version := i
			if !versions {
				version += 40
			}
			skew := rapid.IntRange(-120, 120)
			start := 100 * i
			events = append(events, fmt.Sprintf("c S%d %d %d", i, version, start+skew.Draw(rt, "skew")))
			if i < n-1 || rapid.Bool().Draw(rt, "the latest ends") {
				reason := rapid.SampledFrom([]string{"CONNECTION_LOST", "CLIENT_INITIATED_DISCONNECT", "MQTT_KEEP_ALIVE_TIMEOUT"}).Draw(rt, "reason")
				events = append(events, fmt.Sprintf("d S%d %d %d %s", i, version, start+90+skew.Draw(rt, "skew"), reason))
			}
		}
		online := len(events)%2 == 1
		events = append(events, rapid.SliceOfN(rapid.SampledFrom(events), 0, 6).Draw(rt, "twice")...)
		for _, e := range rapid.Permutation(events).Draw(rt, "order") {
			r.send(e)
		}
		if r.online["dev"] != online {
			rt.Fatalf("online = %v, want %v", r.online["dev"], online)
		}
	})
}

func TestRejected(t *testing.T) {
	ok := `{"clientId":"a","timestamp":1,"eventType":"connected","sessionIdentifier":"s","versionNumber":1}`
	with := func(old, now string) string { return strings.Replace(ok, old, now, 1) }
	tests := []struct{ name, topic, payload, reason string }{
		{"not JSON", "connected/a", "online", "json"},
		{"cut", "connected/a", ok[:20], "json"},
		{"version is text", "connected/a", with(`"versionNumber":1`, `"versionNumber":"x"`), "json"},
		{"empty", "connected/a", "", "json"},
		{"another client", "connected/b", ok, "device_id"},
		{"no client", "connected/", with(`"a"`, `""`), "device_id"},
		{"long client", "connected/" + strings.Repeat("a", 129), with(`"a"`, `"`+strings.Repeat("a", 129)+`"`), "device_id"},
		{"another event", "disconnected/a", ok, "payload"},
		{"no session", "connected/a", with(`"s"`, `""`), "payload"},
		{"negative version", "connected/a", with(`"versionNumber":1`, `"versionNumber":-1`), "payload"},
		{"time in nanoseconds", "connected/a", with(`:1,"eventType`, `:1700000000000000000,"eventType`), "payload"},
		{"negative time", "connected/a", with(`:1,"eventType`, `:-1,"eventType`), "payload"},
		{"too large", "connected/a", with(`"s"`, `"`+strings.Repeat("s", 130<<10)+`"`), "payload"},
		{"no time: that of the message", "connected/a", with(`:1,"eventType`, `:0,"eventType`), "online a"},
		{"not of the convention", "connecting/a", ok, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := newRig(t).apply("$aws/events/presence/"+tt.topic, []byte(tt.payload)); got != tt.reason {
				t.Errorf("Apply = %q, want %q", got, tt.reason)
			}
		})
	}
}

// TestForgets has more clients than are remembered: what is forgotten is in the epoch.
func TestForgets(t *testing.T) {
	r := newRig(t)
	r.c = awsiot.NewLimited(10)
	r.c.Connected(r.fleet, nil)
	send := func(i int, kind string) string {
		id := fmt.Sprint("c", i)
		return r.apply("$aws/events/presence/"+kind+"/"+id, fmt.Appendf(nil, `{"clientId":%q,"timestamp":%d,"eventType":%q,"sessionIdentifier":"s%d","versionNumber":3}`, id, base, kind, i))
	}
	for i := range 100 {
		send(i, "connected")
	}
	for i := range 100 {
		if got, want := send(i, "disconnected"), fmt.Sprint("offline c", i); got != want {
			t.Errorf("client %d: %q, want %q", i, got, want)
		}
	}
	if n := awsiot.Remembered(r.c); n != 10 {
		t.Errorf("%d clients are remembered, want 10", n)
	}
}

// FuzzApply has any two messages do any harm they can: no panic, no id that the registry would not take.
func FuzzApply(f *testing.F) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		f.Fatal(err)
	}
	var vectors []struct {
		Topic   string
		Payload json.RawMessage
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		f.Fatal(err)
	}
	for _, v := range vectors {
		f.Add(v.Topic, []byte(v.Payload), []byte(v.Payload), uint64(0))
	}
	f.Fuzz(func(t *testing.T, topic string, first, second []byte, epoch uint64) {
		c := awsiot.New()
		_, id, _ := strings.Cut(strings.TrimPrefix(topic, "$aws/events/presence/"), "/")
		known := fleet{id: epoch % (1 << 62)}
		c.Connected(known, nil)
		for _, payload := range slices.Concat([][]byte{first, second}, [][]byte{first}) {
			_ = c.Apply(convention.Message{Topic: topic, Payload: payload}, true, func(s convention.Sign) {
				if err := liveness.ValidateID(s.Device); err != nil || s.Why == "" {
					t.Fatalf("%+v: %v", s, err)
				}
				if s.Meaning == convention.Online && s.Epoch < known[s.Device] {
					t.Fatalf("%+v, the latest epoch is %d", s, known[s.Device])
				}
				known[s.Device] = max(known[s.Device], s.Epoch)
			})
		}
	})
}

func BenchmarkApply(b *testing.B) {
	c := awsiot.New()
	m := convention.Message{
		Topic:   "$aws/events/presence/connected/186b5",
		Payload: []byte(`{"clientId":"186b5","timestamp":1573002230757,"eventType":"connected","sessionIdentifier":"a4666d2a7d844ae4ac5d7b38c9cb7967","principalIdentifier":"12345678901234567890123456789012","ipAddress":"192.0.2.0","versionNumber":0}`),
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Apply(m, false, func(convention.Sign) {}); err != nil {
			b.Fatal(err)
		}
	}
}
