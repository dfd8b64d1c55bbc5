package sparkplug_test

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

	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/internal/sparkplug"
)

// fleet is a registry that keeps epochs as the real one does.
type fleet map[string]uint64

func (f fleet) Epoch(device string) uint64 { return f[device] }
func (f fleet) Devices() iter.Seq[string]  { return maps.Keys(f) }

// rig is a convention, the registry behind it, and what it made of the messages since the last look.
type rig struct {
	tb      testing.TB
	c       convention.Convention
	fleet   fleet
	online  map[string]bool
	signs   []string
	explain bool
	now     time.Time
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	r := &rig{tb: tb, c: sparkplug.New(), fleet: fleet{}, online: map[string]bool{}, now: time.Unix(1_700_000_000, 0)}
	r.c.Connected(r.fleet, r.take)
	return r
}

// restart begins anew with what the registry kept.
func (r *rig) restart() {
	r.c = sparkplug.New()
	r.connect()
}

func (r *rig) connect() { r.c.Connected(r.fleet, r.take) }

func (r *rig) take(s convention.Sign) {
	switch s.Meaning {
	case convention.Online:
		if s.Epoch < r.fleet[s.Device] && s.Epoch != 0 {
			r.tb.Errorf("%s: epoch fell from %d to %d", s.Device, r.fleet[s.Device], s.Epoch)
		}
		r.fleet[s.Device], r.online[s.Device] = max(s.Epoch, r.fleet[s.Device]), true
	case convention.Offline:
		if s.Epoch != 0 && s.Epoch != r.fleet[s.Device] {
			r.tb.Errorf("%s: offline with epoch %d, the latest is %d", s.Device, s.Epoch, r.fleet[s.Device])
		}
		r.online[s.Device] = false
	case convention.Beat:
		r.online[s.Device] = true
		r.fleet[s.Device] += 0 // known from now on
	default:
	}
	if r.explain && s.Why == "" {
		r.tb.Errorf("%v: no reason given", s)
	}
	r.signs = append(r.signs, tell(s))
}

func tell(s convention.Sign) string {
	names := map[convention.Meaning]string{
		convention.Ignore: "ignore", convention.Beat: "beat", convention.Online: "online", convention.Offline: "offline",
	}
	out := strings.TrimSpace(names[s.Meaning] + " " + s.Device)
	if s.Epoch != 0 {
		out += fmt.Sprint(" epoch ", s.Epoch)
	}
	if s.Timeout == convention.Never {
		out += " timeout never"
	}
	if len(s.Publish) > 0 {
		out += " publish " + s.Publish[0].Topic
	}
	return out
}

func (r *rig) apply(topic string, payload []byte, retained bool) error {
	return r.c.Apply(convention.Message{Topic: topic, Payload: payload, Retained: retained, Time: r.now}, r.explain, r.take)
}

// send applies a message of group g: "NBIRTH n 7" has bdSeq 7 and seq 0, "NDATA n 3" has seq 3.
func (r *rig) send(line string) error {
	f := strings.Fields(line)
	var num uint64
	if len(f) > 2 {
		_, _ = fmt.Sscan(f[2], &num)
	}
	topic := "spBv1.0/g/" + f[0] + "/" + f[1]
	switch f[0] {
	case "NBIRTH":
		return r.apply(topic, birth(num), len(f) > 3)
	case "NDEATH":
		return r.apply(topic, birth(num), len(f) > 3)
	}
	return r.apply(topic, sparkplug.Encode(sparkplug.Payload{Seq: num}), len(f) > 3)
}

func birth(bdSeq uint64) []byte {
	return sparkplug.Encode(sparkplug.Payload{Metrics: []sparkplug.Metric{{Name: "bdSeq", Datatype: 4, Kind: 2, Value: bdSeq}}})
}

// look returns the signs since the last look.
func (r *rig) look() []string {
	s := r.signs
	r.signs = nil
	return s
}

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Source, Topic, JSON string
		Payload                   json.RawMessage
		Want                      []string
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	r := newRig(t) // one story: the vectors are of one node, in this order
	r.look()
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			payload := []byte(v.JSON)
			if v.Payload != nil {
				payload = wire(t, v.Payload)
			}
			if err := r.apply(v.Topic, payload, false); err != nil {
				t.Fatalf("Apply: %v", err)
			}
			if got := r.look(); !slices.Equal(got, v.Want) {
				t.Errorf("signs = %q, want %q", got, v.Want)
			}
		})
	}
}

// TestStories sends messages one after the other; a line after ">" is what the convention is to make of them, "+5s" lets time pass.
func TestStories(t *testing.T) {
	const never = " timeout never"
	const ask = "ignore publish spBv1.0/g/NCMD/n"
	tests := []struct {
		name  string
		story []string
	}{
		{"the late will of a replaced connection", []string{
			"NBIRTH n 7", "> online g/n epoch 263" + never,
			"NBIRTH n 8", "> online g/n epoch 264" + never,
			"NDEATH n 7",
			"NDEATH n 8", "> offline g/n epoch 264",
			"NDEATH n 8",
		}},
		{"bdSeq wraps", []string{
			"NBIRTH n 255", "> online g/n epoch 511" + never,
			"NBIRTH n 0", "> online g/n epoch 512" + never,
			"NDEATH n 255",
			"NDEATH n 0", "> offline g/n epoch 512",
		}},
		{"bdSeq begins again, or goes beyond 255", []string{
			"NBIRTH n 10", "> online g/n epoch 266" + never,
			"NBIRTH n 0", "> online g/n epoch 512" + never,
			"NBIRTH n 300", "> online g/n epoch 556" + never,
			"NDEATH n 300", "> offline g/n epoch 556",
		}},
		{"a rebirth is the same session", []string{
			"NBIRTH n 3", "> online g/n epoch 259" + never,
			"DBIRTH n/d 1", "> beat g/n" + never, "> online g/n/d epoch 259" + never,
			"NBIRTH n 3", "> online g/n epoch 259" + never,
			"DDATA n/d 1", "> beat g/n" + never, "> beat g/n/d" + never,
			"NDEATH n 3", "> offline g/n epoch 259", "> offline g/n/d epoch 259",
		}},
		{"a node that never counts its sessions", []string{
			"NBIRTH n 0", "> online g/n epoch 256" + never,
			"NDEATH n 0", "> offline g/n epoch 256",
			"NBIRTH n 0", "> online g/n epoch 256" + never,
			"NDEATH n 0", "> offline g/n epoch 256",
		}},
		{"devices wait for their birth in a new session", []string{
			"NBIRTH n 1", "> online g/n epoch 257" + never,
			"DBIRTH n/d 1", "> beat g/n" + never, "> online g/n/d epoch 257" + never,
			"NBIRTH n 2", "> online g/n epoch 258" + never, "> offline g/n/d epoch 257",
			"DBIRTH n/d 1", "> beat g/n" + never, "> online g/n/d epoch 258" + never,
		}},
		{"data of a device that was not born", []string{
			"NBIRTH n 1", "> online g/n epoch 257" + never,
			"DBIRTH n/d 1", "> beat g/n" + never, "> online g/n/d epoch 257" + never,
			"DDEATH n/d 2", "> beat g/n" + never, "> offline g/n/d epoch 257",
			"DDEATH n/d 3", "> beat g/n" + never,
			"DDATA n/d 4", "> beat g/n" + never, "> " + ask,
			"NDEATH n 1", "> offline g/n epoch 257",
		}},
		{"a gap", []string{
			"NBIRTH n 1", "> online g/n epoch 257" + never,
			"NDATA n 1", "> beat g/n" + never,
			"NDATA n 1", "> beat g/n" + never,
			"NDATA n 3", "> beat g/n" + never, "> " + ask,
			"NDATA n 4", "> beat g/n" + never,
			"+10s",
			"NDATA n 5", "> beat g/n" + never, "> " + ask,
			"NBIRTH n 1", "> online g/n epoch 257" + never,
			"+10s",
			"NDATA n 1", "> beat g/n" + never,
		}},
		{"seq wraps", []string{
			"NBIRTH n 1", "> online g/n epoch 257" + never,
			"+1h",
			"NDATA n 254", "> beat g/n" + never, "> " + ask,
			"NBIRTH n 1", "> online g/n epoch 257" + never,
		}},
		{"data before a birth", []string{
			"DDATA n/d 9", "> beat g/n" + never, "> beat g/n/d" + never, "> " + ask,
			"DDATA n/d 10", "> beat g/n" + never, "> beat g/n/d" + never,
			"NBIRTH n 4", "> online g/n epoch 260" + never,
			"DDATA n/d 1", "> beat g/n" + never, "> beat g/n/d" + never,
			"NDEATH n 4", "> offline g/n epoch 260", "> offline g/n/d",
		}},
		{"data after a death is late, or its birth was lost", []string{
			"NBIRTH n 4", "> online g/n epoch 260" + never,
			"NDEATH n 4", "> offline g/n epoch 260",
			"NDATA n 1", "> " + ask,
			"NBIRTH n 5", "> online g/n epoch 261" + never,
		}},
		{"a death of a node that is not known", []string{
			"NDEATH n 4", "> offline g/n",
			"NDEATH n 4",
			"NBIRTH n 5", "> online g/n epoch 261" + never,
		}},
		{"a death of a session whose birth was lost", []string{
			"NBIRTH n 4", "> online g/n epoch 260" + never,
			"NDEATH n 5", "> " + ask,
		}},
		{"the bridge was away", []string{
			"NBIRTH n 4", "> online g/n epoch 260" + never,
			"connect", "> " + ask,
			"NDATA n 77", "> beat g/n" + never,
			"NDEATH n 3",
			"NDEATH n 6", "> offline g/n epoch 260",
			"NBIRTH n 7", "> online g/n epoch 263" + never,
		}},
		{"a restart", []string{
			"NBIRTH n 4", "> online g/n epoch 260" + never,
			"restart", "> " + ask,
			"NDEATH n 3",
			"NBIRTH n 4", "> online g/n epoch 260" + never,
			"restart", "> " + ask,
			"NDEATH n 4", "> offline g/n epoch 260",
			"restart", "> " + ask,
			"NBIRTH n 5", "> online g/n epoch 261" + never,
		}},
		{"devices are known after a restart", []string{
			"NBIRTH n 4", "> online g/n epoch 260" + never,
			"DBIRTH n/d 1", "> beat g/n" + never, "> online g/n/d epoch 260" + never,
			"restart", "> " + ask,
			"NDEATH n 4", "> offline g/n epoch 260", "> offline g/n/d",
		}},
		{"retained messages are history", []string{
			"NBIRTH n 4 retained", "> " + ask,
			"NDATA n 1 retained",
			"NDEATH n 4 retained",
			"NBIRTH n 4", "> online g/n epoch 260" + never,
			"NDEATH n 4 retained",
			"connect", "> " + ask,
			"NDEATH n 5 retained",
			"NDEATH n 4 retained", "> offline g/n epoch 260",
		}},
	}
	for _, explain := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s/explain=%v", tt.name, explain), func(t *testing.T) {
				r := newRig(t)
				r.explain = false
				tellStory(t, r, tt.story, explain)
			})
		}
	}
}

func tellStory(t *testing.T, r *rig, story []string, explain bool) {
	t.Helper()
	for len(story) > 0 {
		line := story[0]
		story = story[1:]
		var want []string
		for len(story) > 0 && strings.HasPrefix(story[0], "> ") {
			want, story = append(want, story[0][2:]), story[1:]
		}
		r.explain = false
		switch {
		case line == "restart":
			r.restart()
		case line == "connect":
			r.connect()
		case line[0] == '+':
			d, _ := time.ParseDuration(line[1:])
			r.now = r.now.Add(d)
		default:
			r.explain = explain
			if err := r.send(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		got := r.look()
		if explain { // with reasons, there are more signs that mean nothing
			if line[0] != '+' && len(got) == 0 {
				t.Errorf("%s: no sign, and nobody says why", line)
			}
			got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "ignore") && !strings.Contains(s, "publish") })
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: signs = %q, want %q", line, got, want)
		}
	}
}

func TestRequest(t *testing.T) {
	r := newRig(t)
	var got []convention.Publication
	err := r.c.Apply(convention.Message{Topic: "spBv1.0/g/NDATA/n", Time: r.now}, false, func(s convention.Sign) { got = append(got, s.Publish...) })
	if err != nil || len(got) != 1 {
		t.Fatalf("Apply = %v, published %v", err, got)
	}
	want := wire(t, []byte(`{"timestamp":"1700000000000","metrics":[{"name":"Node Control/Rebirth","timestamp":"1700000000000","datatype":11,"booleanValue":true}]}`))
	if p := got[0]; p.Topic != "spBv1.0/g/NCMD/n" || !same(t, p.Payload, want) || p.QoS != 0 || p.Retained {
		t.Errorf("published %+v, want payload %x", p, want)
	}
}

func TestReview(t *testing.T) {
	r := newRig(t)
	r.fleet["g/a"], r.fleet["g/b"], r.fleet["g/b/d"], r.fleet["other"], r.fleet["x/+"], r.fleet["hall/lamp"] = 300, 301, 301, 1, 1, 0
	r.restart()
	if got, want := r.look(), []string{"ignore publish spBv1.0/g/NCMD/a", "ignore publish spBv1.0/g/NCMD/b"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("on connect: %q, want %q", got, want)
	}
	if err := r.send("NDATA a 4"); err != nil {
		t.Fatal(err)
	}
	r.look()
	review := func() []string {
		r.c.(convention.Reviewer).Review(r.take)
		return r.look()
	}
	if got := review(); len(got) != 0 {
		t.Errorf("nobody answered, and Review = %q", got)
	}
	if err := r.send("NBIRTH a 44"); err != nil {
		t.Fatal(err)
	}
	r.look()
	if got := review(); len(got) != 2 || r.online["g/b"] || r.online["g/b/d"] || !r.online["g/a"] {
		t.Errorf("one of two answered, and Review = %q, online %v", got, r.online)
	}
	if got := review(); len(got) != 0 {
		t.Errorf("Review again = %q", got)
	}
}

func TestRejected(t *testing.T) {
	long := strings.Repeat("x", 200)
	tests := []struct {
		name, topic, reason string
		payload             []byte
	}{
		{"no device", "spBv1.0/g/DDATA/n", "topic", nil},
		{"a device too many", "spBv1.0/g/NDATA/n/d", "topic", nil},
		{"a level too many", "spBv1.0/g/DDATA/n/d/e", "topic", nil},
		{"empty group", "spBv1.0//NDATA/n", "topic", nil},
		{"empty node", "spBv1.0/g/NDATA/", "topic", nil},
		{"empty device", "spBv1.0/g/DDATA/n/", "topic", nil},
		{"long id", "spBv1.0/g/NDATA/" + long, "device_id", nil},
		{"control character", "spBv1.0/g/NDATA/a\nb", "device_id", nil},
		{"not UTF-8", "spBv1.0/g/NDATA/a\xff", "device_id", nil},
		{"JSON", "spBv1.0/g/NDATA/n", "protobuf", []byte(`{"seq":0}`)},
		{"a string as seq", "spBv1.0/g/NDATA/n", "protobuf", []byte{3<<3 | 2, 1, 'x'}},
		{"a number as name", "spBv1.0/g/NDATA/n", "protobuf", []byte{2<<3 | 2, 2, 1 << 3, 7}},
		{"a group", "spBv1.0/g/NDATA/n", "protobuf", []byte{7<<3 | 3, 7<<3 | 4}},
		{"cut", "spBv1.0/g/NDATA/n", "protobuf", birth(300)[:4]},
		{"long name", "spBv1.0/g/NDATA/n", "protobuf", sparkplug.Encode(sparkplug.Payload{Metrics: []sparkplug.Metric{{Name: strings.Repeat("m", 5000)}}})},
		{"too many metrics", "spBv1.0/g/NDATA/n", "protobuf", []byte(strings.Repeat("\x12\x00", 70_000))},
		{"too large", "spBv1.0/g/NDATA/n", "payload", make([]byte, 5<<20)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			var rejected *convention.Rejected
			if err := r.apply(tt.topic, tt.payload, false); !errors.As(err, &rejected) || rejected.Reason != tt.reason {
				t.Errorf("Apply = %v, want a *Rejected with %q", err, tt.reason)
			}
			if got := r.look(); len(got) != 0 {
				t.Errorf("signs = %q, want none", got)
			}
		})
	}
	t.Run("NDEATH without bdSeq", func(t *testing.T) {
		r := newRig(t)
		_ = r.send("NBIRTH n 1")
		var rejected *convention.Rejected
		if err := r.apply("spBv1.0/g/NDEATH/n", nil, false); !errors.As(err, &rejected) || rejected.Reason != "payload" {
			t.Errorf("Apply = %v, want a *Rejected", err)
		}
	})
}

// TestWithoutBdSeq has a node that numbers no sessions: all of its deaths count.
func TestWithoutBdSeq(t *testing.T) {
	r := newRig(t)
	for _, step := range []struct{ topic, want string }{
		{"spBv1.0/g/NBIRTH/n", "online g/n timeout never"},
		{"spBv1.0/g/NDEATH/n", "offline g/n"},
		{"spBv1.0/g/NBIRTH/n", "online g/n timeout never"},
		{"spBv1.0/g/NDEATH/n", "offline g/n"},
	} {
		if err := r.apply(step.topic, nil, false); err != nil {
			t.Fatal(err)
		}
		if got := r.look(); !slices.Equal(got, []string{step.want}) {
			t.Errorf("%s: signs = %q, want %q", step.topic, got, step.want)
		}
	}
}

func TestForeignEpoch(t *testing.T) {
	r := newRig(t)
	r.fleet["g/n"] = 7 // counted by something else
	_ = r.send("NBIRTH n 3")
	r.fleet["g/n"] = 1000 // and raised by it
	_ = r.send("NBIRTH n 4")
	if got, want := r.look(), []string{"online g/n epoch 259 timeout never", "online g/n epoch 1028 timeout never"}; !slices.Equal(got, want) {
		t.Errorf("signs = %q, want %q", got, want)
	}
}

func TestLimit(t *testing.T) {
	r := newRig(t)
	r.c = sparkplug.NewLimited(2)
	for _, line := range []string{"NBIRTH n 1", "DBIRTH n/d 1"} {
		if err := r.send(line); err != nil {
			t.Fatal(err)
		}
	}
	var rejected *convention.Rejected
	if err := r.send("DBIRTH n/e 2"); !errors.As(err, &rejected) || rejected.Reason != "limit" {
		t.Errorf("Apply = %v, want a *Rejected", err)
	}
	if err := r.send("DDATA n/d 2"); err != nil {
		t.Errorf("what is known goes on: %v", err)
	}
}

func BenchmarkApply(b *testing.B) {
	c := sparkplug.New()
	metrics := make([]sparkplug.Metric, 10)
	for i := range metrics {
		metrics[i] = sparkplug.Metric{Time: 1_700_000_000_000, Kind: 2, Value: uint64(i)}
	}
	m := convention.Message{Topic: "spBv1.0/plant/DDATA/edge-17/pump-3", Payload: sparkplug.Encode(sparkplug.Payload{Time: 1_700_000_000_000, Metrics: metrics}), Time: time.Unix(1_700_000_000, 0)}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := c.Apply(m, false, func(convention.Sign) { n++ }); err != nil {
			b.Fatal(err)
		}
	}
}
