package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// Fleet is a snapshot of the fleet, as /v1/fleet/stream sends it.
type Fleet struct {
	At       time.Time      `json:"at"`
	Node     string         `json:"node"`
	Started  time.Time      `json:"started"`
	Devices  int            `json:"devices"`
	States   map[string]int `json:"states"`
	Flaps    int            `json:"flaps"`
	Numbered int            `json:"numbered"` // devices that are in the map
	Latest   uint64         `json:"latest"`   // offset of the latest event
	Lag      Lag            `json:"lag_ms"`
	Verdicts uint64         `json:"verdicts"`
	Stalled  float64        `json:"stalled_ms"`
	Sources  []FleetSource  `json:"sources"`
	Outages  []FleetOutage  `json:"outages"`
	Map      uint64         `json:"map"` // version of the map
}

// FleetSource is a source as the stream of the fleet has it.
type FleetSource struct {
	Name      string     `json:"name"`
	Note      string     `json:"note,omitempty"`
	DeafSince *time.Time `json:"deaf_since,omitempty"`
	Absent    bool       `json:"absent"`
	Retired   bool       `json:"retired"`
	Held      bool       `json:"held"`
	Listened  float64    `json:"listened_ms"` // reading of its listening clock
	Behind    float64    `json:"behind_ms"`
	Now       time.Time  `json:"now"` // when the clock was read
	Devices   int        `json:"devices"`
}

// FleetOutage is an outage of a group.
type FleetOutage struct {
	Group   string `json:"group"`
	Silent  int    `json:"silent"`
	Members int    `json:"members"`
}

// fleetNews is a message of the fleet for all streams.
type fleetNews struct {
	number  uint64 // greater than that of the one before if there is something new in it
	message []byte
	until   time.Time // it is the latest until then
}

// newsroom makes the messages of the fleet, one for all streams. Nothing is made while there are none.
type newsroom struct {
	mu    sync.Mutex // guards the fields below; taken before pictures.mu
	last  *fleetNews
	known []byte // what was in the last one, without what always changes
}

// latest returns the latest message. It is made anew at most every fleetEvery.
func (n *newsroom) latest(a *API) (*fleetNews, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last != nil && time.Now().Before(n.last.until) {
		return n.last, nil
	}
	fleet := a.fleetNow()
	text, err := json.Marshal(fleet)
	if err != nil {
		return nil, fmt.Errorf("message of the fleet: %w", err)
	}
	known, err := json.Marshal(fleet.steady())
	if err != nil {
		return nil, fmt.Errorf("message of the fleet: %w", err)
	}
	next := &fleetNews{number: 1, message: fmt.Appendf(nil, "event: fleet\ndata: %s\n\n", text), until: time.Now().Add(fleetEvery)}
	if n.last != nil {
		next.number = n.last.number
	}
	if !bytes.Equal(known, n.known) {
		next.number++
	}
	n.last, n.known = next, known
	return next, nil
}

// steady returns the fleet without what changes while nothing happens: the time, and clocks that go on.
func (f Fleet) steady() Fleet {
	f.At = time.Time{}
	sources := make([]FleetSource, 0, len(f.Sources))
	for _, s := range f.Sources {
		s.Now, s.Listened, s.Behind = time.Time{}, 0, float64(int(s.Behind/1000))
		sources = append(sources, s)
	}
	f.Sources = sources
	return f
}

func (a *API) fleetNow() Fleet {
	p := a.fleet.latest(a.registry)
	st, counts, now := a.registry.Gauges(), p.all(), utc(a.now())
	f := Fleet{
		At: now, Node: a.config.Node, Started: utc(a.began), Devices: p.devices, States: counts.states(), Flaps: st.Flaps, Numbered: p.numbered,
		Lag: lagOf(&st), Verdicts: st.Verdicts, Stalled: milliseconds(st.StalledFor), Outages: []FleetOutage{}, Map: p.version,
	}
	_, f.Latest = a.events.Bounds()
	f.Sources = mapped(a.registry.Sources(), func(s **liveness.Source) FleetSource {
		v := (*s).View()
		return fleetSourceOf(&v, now)
	})
	for _, g := range a.registry.Groups() {
		if g.Outage {
			f.Outages = append(f.Outages, FleetOutage{Group: g.Name, Silent: g.Silent, Members: g.Members})
		}
	}
	return f
}

func fleetSourceOf(v *liveness.SourceView, now time.Time) FleetSource {
	s := FleetSource{
		Name: v.Name, Note: v.Note, Absent: v.Absent, Retired: v.Absent && v.Retired, Held: v.Held,
		Listened: milliseconds(v.Listened), Behind: milliseconds(v.Behind), Now: now, Devices: v.Devices,
	}
	if !v.DeafSince.IsZero() {
		since := utc(v.DeafSince)
		s.DeafSince = &since
	}
	return s
}
