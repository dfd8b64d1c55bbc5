package httpapi_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/liveness"
)

// watch opens a stream of the fleet.
func (s *served) watch(t *testing.T, query string, headers ...string) *reader {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://holter/v1/fleet/stream"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("stream%s = %s %s", query, answer.Status, answer.Header)
	}
	return &reader{t: t, body: answer.Body, text: bufio.NewReader(answer.Body)}
}

// fleet reads a message of the fleet.
func (r *reader) fleet() (f httpapi.Fleet) {
	r.t.Helper()
	m := r.want("", "fleet", "")
	if err := json.Unmarshal([]byte(m.data), &f); err != nil {
		r.t.Fatalf("%v: %s", err, m.data)
	}
	return f
}

// hear lets the source listen beside the test until it ends.
func (f *fleet) hear() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
				f.source.Watermark(0, f.source.Pulse(time.Now()))
			}
		}
	}()
	return func() { close(end); <-ended }
}

func TestFleetStream(t *testing.T) {
	cfg := liveness.Config{Policy: liveness.Policy{Timeout: 30 * time.Second}, Groups: []liveness.GroupConfig{{Name: "g", Match: "g*", Outage: liveness.OutageConfig{Share: 0.5, MinDevices: 2}}}}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		s := serve(t, f.api(httpapi.Config{}))
		defer f.hear()()
		for _, id := range []string{"g1", "g2"} {
			f.open(id)
		}
		r := s.watch(t, "")
		defer r.body.Close()
		began := time.Now()
		first := r.fleet()
		if time.Since(began) != 0 || first.Devices != 2 || first.Numbered != 2 || first.States["online"] != 2 || first.Node != "node-1" || first.Latest != 2 ||
			len(first.Sources) != 1 || first.Sources[0].Name != "line" || first.Sources[0].DeafSince != nil || first.Outages == nil || first.Map == 0 {
			t.Errorf("first message %+v after %v", first, time.Since(began))
		}
		if again := r.fleet(); time.Since(began) != 5*time.Second || again.Map != first.Map || again.Sources[0].Listened < first.Sources[0].Listened+4000 {
			t.Errorf("after %v without news: %+v", time.Since(began), again)
		}
		time.Sleep(100 * time.Millisecond)
		f.open("a3")
		changed := time.Now()
		if next := r.fleet(); time.Since(changed) > 500*time.Millisecond || next.Devices != 3 || next.Map != first.Map+1 || next.Latest != 3 {
			t.Errorf("%v after a change: %+v", time.Since(changed), next)
		}
		began = time.Now()
		f.open("b4")
		if r.fleet(); time.Since(began) != 500*time.Millisecond {
			t.Errorf("the next change was told %v later, want 500ms", time.Since(began))
		}
		for began = time.Now(); ; {
			m := r.fleet()
			if len(m.Outages) == 1 && m.Verdicts >= 4 {
				if m.Outages[0] != (httpapi.FleetOutage{Group: "g", Silent: 2, Members: 2}) || m.States["offline"] != 4 || m.Lag.Max > 1000 || m.Lag.P50 > m.Lag.P99 || m.Lag.P99 > m.Lag.Max {
					t.Errorf("an outage: %+v", m)
				}
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("no outage: %+v", m)
			}
		}
	})
}

// A source that becomes deaf is told at once, and its devices are unknown.
func TestFleetStreamDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{}))
		f.open("a")
		r := s.watch(t, "")
		defer r.body.Close()
		r.fleet()
		began := time.Now()
		f.source.Deafen(began)
		if m := r.fleet(); time.Since(began) != 500*time.Millisecond || m.Sources[0].DeafSince == nil || m.States["unknown"] != 1 {
			t.Errorf("after %v: %+v", time.Since(began), m)
		}
	})
}

// apply applies what a stream says of the map to one, a digit a device.
func apply(t *testing.T, to []byte, m message) (_ []byte, version uint64, reload bool) {
	t.Helper()
	var data struct {
		From, To uint64
		Cells    []byte
		Reload   bool
	}
	if err := json.Unmarshal([]byte(m.data), &data); err != nil || m.id != strconv.FormatUint(data.To, 10) {
		t.Fatalf("%v: %+v", err, m)
	}
	for number := 0; len(data.Cells) > 0; {
		v, n := binary.Uvarint(data.Cells)
		data.Cells = data.Cells[n:]
		number += int(v >> 4)
		for len(to) <= number {
			to = append(to, '0')
		}
		to[number] = '0' + byte(v&0xf)
	}
	return to, data.To, data.Reload
}

// TestFleetStreamMap changes a fleet at random, and wants the changes, applied to the map from which the
// stream goes on, to be the map as it is, also after the stream was read in two pieces.
func TestFleetStreamMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{}))
		defer f.hear()()
		f.open("first")
		random := rand.New(rand.NewPCG(1, 2))
		answer, text := s.get(t, "/v1/fleet/map")
		mine, last := []byte(cells([]byte(text))), answer.Header.Get("Holter-Map-Version")
		r := s.watch(t, "?map="+last)
		for round := range 40 {
			for range 20 {
				id := fmt.Sprint("d", random.IntN(100))
				switch random.IntN(3) {
				case 0:
					f.open(id)
				case 1:
					f.open(id).Bye(f.source.Time(time.Now()))
				case 2:
					_ = f.registry.Forget(id) // it may be unknown
				}
			}
			if round == 20 { // away for a moment
				r.body.Close()
				time.Sleep(3 * time.Second)
				r = s.watch(t, "?map=1", "Last-Event-ID", last)
			}
			for told := false; !told; {
				m, err := r.next()
				if err != nil {
					t.Fatal(err)
				}
				if told = m.event == "fleet"; !told {
					var reload bool
					if mine, _, reload = apply(t, mine, m); reload {
						t.Fatalf("round %d: %+v", round, m)
					}
					last = m.id
				}
			}
			answer, text := s.get(t, "/v1/fleet/map")
			if want := cells([]byte(text)); answer.Header.Get("Holter-Map-Version") != last || strings.TrimRight(string(mine), "0") != want {
				t.Fatalf("round %d: version %s:\n%s, want %s:\n%s", round, last, mine, answer.Header.Get("Holter-Map-Version"), want)
			}
		}
		r.body.Close()
	})
}

func TestFleetStreamReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{}))
		f.open("a")
		for _, version := range []string{"0", "7", "18446744073709551615"} {
			r := s.watch(t, "?map="+version)
			m, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			_, to, reload := apply(t, nil, m)
			if next := r.fleet(); !reload || next.Map != to {
				t.Errorf("from version %s: %+v, then %+v", version, m, next)
			}
			r.body.Close()
		}
		for query, part := range map[string]string{"?map=x": "query.map", "?map=-1": "query.map", "?at=1": "query.at"} {
			answer, text := s.get(t, "/v1/fleet/stream"+query)
			if answer.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(text, part) {
				t.Errorf("stream%s = %s %s", query, answer.Status, text)
			}
		}
	})
}

func TestFleetStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		known := &secrets{known: map[string]auth.Role{"s3cret": auth.RoleRead}}
		s := serve(t, f.api(httpapi.Config{Auth: known, MaxConnections: 8, MaxStreams: 2}))
		s.token = "s3cret"
		r, other := s.watch(t, ""), s.follow(t, "", "")
		if answer, _ := s.get(t, "/v1/fleet/stream"); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a token: %s", answer.Status)
		}
		other.body.Close()
		time.Sleep(time.Second)
		known.mu.Lock()
		clear(known.known)
		known.mu.Unlock()
		began := time.Now()
		for {
			m, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			if m.comment == "the token was revoked" {
				break
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("ended %v after the token was revoked", took)
		}
		r.body.Close()
	})
}

// A stream that the server ends says so; streams of both kinds count as one number.
func TestFleetStreamStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{MaxConnections: 4, MaxStreams: 2}))
		r, other := s.watch(t, ""), s.follow(t, "", "")
		if answer, text := s.get(t, "/v1/fleet/stream"); answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "there are 2 streams") {
			t.Errorf("third stream: %s %s", answer.Status, text)
		}
		other.body.Close()
		r.fleet()
		stopped := make(chan error)
		go func() { stopped <- s.stop() }()
		r.want("", "", "the server stops, come back later")
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}
