package sparkplug_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/internal/sparkplug"
)

// TestDeathsInAnyOrder has a node with up to 200 sessions whose wills come whenever they like, several times, also across restarts of
// the bridge: the node is online unless the will of its latest session came.
func TestDeathsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		first := rapid.IntRange(0, 600).Draw(rt, "first bdSeq")
		latest, online, device := -1, false, false
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2: // the next session, some of them unheard of
				latest++
				_ = r.send(fmt.Sprint("NBIRTH n ", first+latest))
				online, device = true, false
			case 3:
				if latest >= 0 && online {
					_ = r.send(fmt.Sprint("NBIRTH n ", first+latest)) // a rebirth
				}
			case 4:
				if latest >= 0 && online {
					_ = r.send("DBIRTH n/d 1")
					device = true
				}
			case 5:
				r.restart()
			case 6:
				r.connect()
			default:
				if latest < 0 {
					continue
				}
				session := rapid.IntRange(max(0, latest-100), latest).Draw(rt, "session that ended")
				_ = r.send(fmt.Sprint("NDEATH n ", first+session))
				if session == latest {
					online, device = false, false
				}
			}
			if r.online["g/n"] != online || r.online["g/n/d"] != device {
				rt.Fatalf("node online %v, device %v; want %v, %v", r.online["g/n"], r.online["g/n/d"], online, device)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		f.Fatal(err)
	}
	var vectors []struct{ Payload json.RawMessage }
	if err := json.Unmarshal(raw, &vectors); err != nil {
		f.Fatal(err)
	}
	for _, v := range vectors {
		if v.Payload != nil {
			f.Add(wire(f, v.Payload))
		}
	}
	f.Add([]byte{2<<3 | 2, 2, 1 << 3, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		p, err := sparkplug.Decode(b)
		if !bytes.Equal(b, before) {
			t.Fatal("Decode changed its input")
		}
		if err != nil {
			return
		}
		for i, m := range p.Metrics {
			if m.Kind == sparkplug.KindOther {
				p.Metrics[i].Kind = 0 // its value is not kept
			}
		}
		again, err := sparkplug.Decode(sparkplug.Encode(p))
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("Decode(Encode(%+v)) = %+v, %v", p, again, err)
		}
	})
}

// FuzzApply has any message do any harm it can: no panic, and no id that the registry would not take.
func FuzzApply(f *testing.F) {
	for _, kind := range []string{"NBIRTH/n", "NDEATH/n", "NDATA/n", "DBIRTH/n/d", "DDEATH/n/d", "DDATA/n/d"} {
		f.Add("spBv1.0/g/"+kind, birth(3), false)
	}
	f.Add("spBv1.0/STATE/h", []byte("{}"), true)
	f.Fuzz(func(t *testing.T, topic string, payload []byte, retained bool) {
		c := sparkplug.New()
		c.Connected(fleet{"g/n": 259, topic: 4}, func(convention.Sign) {})
		for range 2 {
			err := c.Apply(convention.Message{Topic: topic, Payload: payload, Retained: retained}, true, func(s convention.Sign) {
				if s.Device != "" && liveness.ValidateID(s.Device) != nil {
					t.Fatalf("sign for device %q", s.Device)
				}
				if s.Why == "" {
					t.Fatalf("%+v does not say why", s)
				}
				for _, p := range s.Publish {
					if strings.ContainsAny(p.Topic, "+#\x00") {
						t.Fatalf("to be published on %q", p.Topic)
					}
				}
			})
			if err != nil {
				return
			}
		}
	})
}
