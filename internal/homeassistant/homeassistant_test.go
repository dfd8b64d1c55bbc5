package homeassistant_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/homeassistant"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

type step struct {
	Topic, Text string
	Payload     json.RawMessage
	Retained    bool
	Want        []string
	Rejected    string // reason, "" if it is not
}

func (s step) message() convention.Message {
	m := convention.Message{Topic: s.Topic, Payload: []byte(s.Text), Retained: s.Retained}
	if s.Payload != nil {
		m.Payload = s.Payload
	}
	return m
}

type story struct {
	Name, Source string
	Steps        []step
}

func stories(tb testing.TB) []story {
	tb.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		tb.Fatal(err)
	}
	var s []story
	if err := json.Unmarshal(raw, &s); err != nil {
		tb.Fatal(err)
	}
	return s
}

func tell(s convention.Sign) string {
	if len(s.Subscribe) > 0 {
		var filters []string
		for _, f := range s.Subscribe {
			filters = append(filters, strings.TrimSuffix(fmt.Sprint(f.Filter, " ", f.QoS), " 0"))
		}
		slices.Sort(filters)
		return "subscribe " + strings.Join(filters, ",")
	}
	out := strings.TrimSpace(s.Meaning.String() + " " + s.Device)
	switch s.Timeout {
	case 0:
	case convention.Never:
		out += " never"
	default:
		out += " " + s.Timeout.String()
	}
	return out
}

// signs applies a message, and returns what it meant in alphabetical order.
func signs(c convention.Convention, m convention.Message, explain bool) ([]string, error) {
	var out []string
	err := c.Apply(m, explain, func(s convention.Sign) {
		if explain == (s.Why == "") {
			out = append(out, "no reason, or one that nobody asked for: "+s.Why)
		}
		out = append(out, tell(s))
	})
	slices.Sort(out)
	return out, err
}

func TestVectors(t *testing.T) {
	for _, explain := range []bool{false, true} {
		for _, s := range stories(t) {
			t.Run(fmt.Sprintf("%s/explain=%v", s.Name, explain), func(t *testing.T) {
				c := homeassistant.New()
				c.Connected(nil, nil)
				for i, step := range s.Steps {
					got, err := signs(c, step.message(), explain)
					if rejected, _ := errors.AsType[*convention.Rejected](err); err != nil && (rejected == nil || rejected.Reason != step.Rejected) {
						t.Fatalf("step %d, %s: %v", i, step.Topic, err)
					}
					if explain {
						got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "ignore") })
					}
					if !slices.Equal(got, step.Want) {
						t.Fatalf("step %d, %s: signs = %q, want %q", i, step.Topic, got, step.Want)
					}
				}
			})
		}
	}
}

func TestSubscriptions(t *testing.T) {
	want := []convention.Subscription{{Filter: "homeassistant/+/+/config", QoS: 1}, {Filter: "homeassistant/+/+/+/config", QoS: 1}}
	if got := homeassistant.New().Subscriptions(); !slices.Equal(got, want) {
		t.Errorf("Subscriptions = %v, want %v", got, want)
	}
}

func TestExplains(t *testing.T) {
	c := homeassistant.New()
	var why []string
	payload := `{"avty_t":"a","avty_tpl":"{{ states('x') }}","uniq_id":"u"}`
	err := c.Apply(convention.Message{Topic: "homeassistant/light/u/config", Payload: []byte(payload)}, true, func(s convention.Sign) { why = append(why, s.Why) })
	if rejected, ok := errors.AsType[*convention.Rejected](err); !ok || rejected.Reason != "template" || len(why) == 0 || !strings.Contains(why[0], "states('x')") {
		t.Errorf("Apply = %v, explained by %q, want the template in it", err, why)
	}
}

func TestRejected(t *testing.T) {
	const light = "homeassistant/light/a/config"
	tests := []struct{ name, topic, payload, reason string }{
		{"not JSON", light, "online", "json"},
		{"a list", light, "[]", "json"},
		{"two objects", light, "{} {}", "json"},
		{"wildcard", light, `{"stat_t":"a/#"}`, "topic"},
		{"shared subscription", light, `{"avty_t":"$share/g/a"}`, "topic"},
		{"base makes a wildcard", light, `{"~":"+","avty":[{"t":"~/a"}]}`, "topic"},
		{"long topic", light, `{"stat_t":"` + strings.Repeat("t", 2000) + `"}`, "topic"},
		{"object id", "homeassistant/light/a b/config", "{}", "topic"},
		{"no object id", "homeassistant/light//config", "{}", "topic"},
		{"mode", light, `{"avty_t":"a","avty_mode":"most"}`, "payload"},
		{"expire_after", light, `{"stat_t":"a","exp_aft":"soon"}`, "payload"},
		{"negative expire_after", light, `{"stat_t":"a","exp_aft":-1}`, "payload"},
		{"long text", light, `{"avty_t":"a","pl_avail":"` + strings.Repeat("x", 2000) + `"}`, "payload"},
		{"too large", light, strings.Repeat(" ", 300<<10), "payload"},
		{"long id", light, `{"uniq_id":"` + strings.Repeat("%", 100) + `"}`, "device_id"},
		{"component is a text", "homeassistant/device/a/config", `{"cmps":{"x":"y"}}`, "payload"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := homeassistant.New()
			got, err := signs(c, convention.Message{Topic: tt.topic, Payload: []byte(tt.payload)}, false)
			if rejected, ok := errors.AsType[*convention.Rejected](err); !ok || rejected.Reason != tt.reason {
				t.Errorf("Apply = %v, want a *Rejected with %q", err, tt.reason)
			}
			if len(got) != 0 || homeassistant.Size(c) != [4]int{} {
				t.Errorf("signs = %q, %v is known; want nothing", got, homeassistant.Size(c))
			}
		})
	}
}

func TestLimits(t *testing.T) {
	tests := []struct {
		name string
		c    convention.Convention
	}{
		{"topics", homeassistant.NewLimited(3, 1<<20, 100)},
		{"bytes", homeassistant.NewLimited(100, 8000, 100)},
		{"entities", homeassistant.NewLimited(100, 1<<20, 2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refused := 0
			for i := range 10 {
				payload := fmt.Sprintf(`{"avty_t":"a","stat_t":"s/%d","dev":{"ids":"d"}}`, i)
				_, err := signs(tt.c, convention.Message{Topic: fmt.Sprintf("homeassistant/light/l%d/config", i), Payload: []byte(payload)}, false)
				if rejected, ok := errors.AsType[*convention.Rejected](err); ok && rejected.Reason == "limit" {
					refused++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if refused == 0 || refused == 10 {
				t.Errorf("%d of 10 were refused", refused)
			}
			if got, _ := signs(tt.c, convention.Message{Topic: "a", Payload: []byte("online")}, false); !slices.Equal(got, []string{"online d never"}) {
				t.Errorf("what is known: signs = %q", got)
			}
			for i := range 10 {
				_, _ = signs(tt.c, convention.Message{Topic: fmt.Sprintf("homeassistant/light/l%d/config", i)}, false)
			}
			if got := homeassistant.Size(tt.c); got != [4]int{} {
				t.Errorf("%v is known after all was removed", got)
			}
		})
	}
}

// TestAgainstNaive compares with a model that forgets nothing and computes each answer anew.
func TestAgainstNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := homeassistant.New()
		type entity struct {
			device, avty string
			expire       int
		}
		entities := map[string]entity{}
		heard := map[string]string{} // while somebody names the topic
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "name")
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0: // discovered
				e := entity{rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "device"), rapid.SampledFrom([]string{"t", "u"}).Draw(rt, "topic"), rapid.IntRange(0, 3).Draw(rt, "expire")}
				payload := fmt.Sprintf(`{"avty_t":%q,"stat_t":%q,"exp_aft":%d,"dev":{"ids":%q}}`, e.avty, "state/"+e.device, e.expire, e.device)
				_, _ = signs(c, convention.Message{Topic: "homeassistant/light/" + name + "/config", Payload: []byte(payload)}, false)
				entities[name] = e
			case 1: // removed
				old, known := entities[name]
				delete(entities, name)
				left := 0
				for _, e := range entities {
					if e.device == old.device {
						left++
					}
				}
				var want []string
				if known && left == 0 {
					want = []string{"gone " + old.device}
				}
				if got, err := signs(c, convention.Message{Topic: "homeassistant/light/" + name + "/config"}, false); err != nil || !slices.Equal(got, want) {
					rt.Fatalf("removed %s: %q, %v, want %q", name, got, err, want)
				}
			case 2: // available or not
				topic, text := rapid.SampledFrom([]string{"t", "u"}).Draw(rt, "topic"), rapid.SampledFrom([]string{"online", "offline"}).Draw(rt, "text")
				heard[topic] = text
				got, err := signs(c, convention.Message{Topic: topic, Payload: []byte(text)}, false)
				var want []string
				for _, d := range []string{"x", "y"} {
					concerned, verdict, expire := false, "", -1
					for _, e := range entities {
						if e.device != d {
							continue
						}
						concerned = concerned || e.avty == topic
						if heard[e.avty] == "online" || verdict == "" && heard[e.avty] != "" {
							verdict = heard[e.avty]
						}
						if e.expire > 0 {
							expire = max(expire, e.expire)
						}
					}
					if concerned && verdict == text {
						sign := verdict + " " + d
						if verdict == "online" {
							sign += " " + strings.Replace((time.Duration(expire)*time.Second).String(), "-1s", "never", 1)
						}
						want = append(want, sign)
					}
				}
				if err != nil || !slices.Equal(got, want) {
					rt.Fatalf("%s %s: %q, %v, want %q", topic, text, got, err, want)
				}
			case 3: // a state
				d := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "device")
				got, _ := signs(c, convention.Message{Topic: "state/" + d, Payload: []byte("1")}, false)
				known := false
				for _, e := range entities {
					known = known || e.device == d
				}
				if known != (len(got) == 1 && strings.HasPrefix(got[0], "beat "+d)) {
					rt.Fatalf("state of %s: %q", d, got)
				}
			}
			for _, topic := range []string{"t", "u"} {
				named := false
				for _, e := range entities {
					named = named || e.avty == topic
				}
				if !named {
					delete(heard, topic)
				}
			}
		}
	})
}

func FuzzDiscovery(f *testing.F) {
	for _, s := range stories(f) {
		for i, step := range s.Steps {
			next := s.Steps[(i+1)%len(s.Steps)].message()
			f.Add(step.message().Topic, step.message().Payload, next.Topic, next.Payload)
		}
	}
	f.Fuzz(func(t *testing.T, topic string, payload []byte, nextTopic string, nextPayload []byte) {
		c := homeassistant.New()
		check := func(s convention.Sign) {
			if s.Device != "" && liveness.ValidateID(s.Device) != nil {
				t.Fatalf("sign for device %q", s.Device)
			}
			if s.Why == "" {
				t.Fatalf("%+v does not say why", s)
			}
			for _, more := range s.Subscribe {
				if more.Filter == "" || strings.ContainsAny(more.Filter, "+#\x00") || strings.HasPrefix(more.Filter, "$share") {
					t.Fatalf("subscribes to %q", more.Filter)
				}
			}
			if s.Timeout < convention.Never {
				t.Fatalf("timeout %v", s.Timeout)
			}
		}
		for range 2 {
			_ = c.Apply(convention.Message{Topic: topic, Payload: payload}, true, check)
			_ = c.Apply(convention.Message{Topic: nextTopic, Payload: nextPayload}, true, check)
		}
		for _, topic := range []string{topic, nextTopic} {
			_ = c.Apply(convention.Message{Topic: topic}, true, check)
		}
		if got := homeassistant.Size(c); got != [4]int{} {
			t.Fatalf("%v is known after all was removed", got)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	c := homeassistant.New()
	const payload = `{"stat_t":"plant/pump","avty_t":"plant/lwt","exp_aft":60,"dev":{"ids":"pump"}}`
	if _, err := signs(c, convention.Message{Topic: "homeassistant/sensor/pump/config", Payload: []byte(payload)}, false); err != nil {
		b.Fatal(err)
	}
	m := convention.Message{Topic: "plant/pump", Payload: []byte(`{"pressure":3.1}`)}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Apply(m, false, func(convention.Sign) {}); err != nil {
			b.Fatal(err)
		}
	}
}
