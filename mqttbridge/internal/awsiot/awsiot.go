// Package awsiot is the convention of AWS IoT Core's lifecycle events, by which the broker tells of each client that connects and
// disconnects (https://docs.aws.amazon.com/iot/latest/developerguide/life-cycle-events.html). The device's id is the client id.
//
// The events come out of order and more than once. They are put in order by versionNumber, which rises with each connection of a client,
// and within a session by their kind: disconnected comes last. A version that begins again at 0, as it does when a client was away for an
// hour or so, is told from a late event by the timestamp, which is good to two minutes either way. Events that are too late are
// rejected as "order"; the end of a replaced session (DUPLICATE_CLIENTID) takes no device offline, whenever it comes: the session that
// replaced it has an end of its own.
//
// What must outlive a restart is in the device's epoch: the second of its latest connect, and 16 bits of a hash of the session's identifier
// below it. All else is a cache, of which what was heard long ago may be dropped.
//
// The broker vouches for the devices: their silence means nothing, see [convention.Never]. Clients whose id has a # or a + get no events. An id
// may have slashes in it, so the subscriptions end in #.
package awsiot

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

const (
	topics       = "$aws/events/presence/"
	connected    = "connected"
	disconnected = "disconnected"

	maxPayload = 128 << 10 // the broker's bound for a message
	maxClients = 1_000_000 // some 100 bytes and the id each
)

// Presence is the convention. It is not safe for concurrent use.
type Presence struct {
	clients map[string]state
	limit   int
	fleet   convention.Fleet
}

// New returns the convention.
func New() convention.Convention {
	return &Presence{clients: make(map[string]state), limit: maxClients}
}

// Name implements [convention.Convention].
func (p *Presence) Name() string { return "aws" }

// Subscriptions implements [convention.Convention].
func (p *Presence) Subscriptions() []convention.Subscription {
	return []convention.Subscription{{Filter: topics + connected + "/#", QoS: 1}, {Filter: topics + disconnected + "/#", QoS: 1}}
}

// Connected implements [convention.Convention]. Missed events cannot be requested; the next event
// of a client shows its state.
func (p *Presence) Connected(fleet convention.Fleet, _ func(convention.Sign)) { p.fleet = fleet }

// Apply implements [convention.Convention].
func (p *Presence) Apply(m convention.Message, explain bool, emit func(convention.Sign)) error {
	rest, ok := strings.CutPrefix(m.Topic, topics)
	if !ok {
		return nil
	}
	kind, id, _ := strings.Cut(rest, "/")
	if kind != connected && kind != disconnected {
		return nil
	}
	e, err := parse(m, kind, id)
	if err != nil {
		return err
	}
	var epoch uint64
	if p.fleet != nil {
		epoch = p.fleet.Epoch(id)
	}
	s, known := p.clients[id]
	if !known {
		s = restore(epoch, e)
	}
	s, sign, err := s.apply(e, epoch)
	if err != nil {
		return err
	}
	p.keep(id, s, known)
	if sign.Meaning == convention.Ignore && !explain {
		return nil
	}
	sign.Device = id
	if !explain {
		sign.Why = ""
	}
	emit(sign)
	return nil
}

// keep stores a client's state. If there are too many, it drops another, preferably one that is not
// connected.
func (p *Presence) keep(id string, s state, known bool) {
	if !known && len(p.clients) >= p.limit {
		victim, looked := "", 0
		for other, state := range p.clients {
			if victim == "" || state.ended {
				victim = other
			}
			if looked++; state.ended || looked == 8 {
				break
			}
		}
		delete(p.clients, victim)
	}
	p.clients[id] = s
}

// event is a lifecycle event.
type event struct {
	end     bool
	session uint64 // hash of its identifier, not 0
	version int64
	at      int64 // ms since 1970
	reason  string
	bye     bool
}

func parse(m convention.Message, kind, id string) (event, error) {
	reject := func(reason, format string, args ...any) (event, error) {
		return event{}, &convention.Rejected{Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	if len(m.Payload) > maxPayload {
		return reject("payload", "it has %d bytes, at most %d are read", len(m.Payload), maxPayload)
	}
	var body struct {
		ClientID      string `json:"clientId"`
		Timestamp     int64  `json:"timestamp"`
		EventType     string `json:"eventType"`
		Session       string `json:"sessionIdentifier"`
		Version       int64  `json:"versionNumber"`
		ByClient      bool   `json:"clientInitiatedDisconnect"`
		DisconnectFor string `json:"disconnectReason"`
	}
	if err := json.Unmarshal(m.Payload, &body); err != nil {
		return reject("json", "%v", err)
	}
	if err := liveness.ValidateID(id); err != nil {
		return reject("device_id", "%v", err)
	}
	switch {
	case body.ClientID != id:
		return reject("device_id", "clientId is %.140q, the topic is that of %q", body.ClientID, id)
	case body.EventType != kind:
		return reject("payload", "eventType is %.40q, the topic is that of %q", body.EventType, kind)
	case body.Session == "":
		return reject("payload", "it has no sessionIdentifier")
	case body.Version < 0:
		return reject("payload", "versionNumber is %d", body.Version)
	case body.Timestamp < 0 || body.Timestamp >= maxTime:
		return reject("payload", "timestamp %d is no time in milliseconds since 1970", body.Timestamp)
	case body.Timestamp == 0:
		body.Timestamp = min(max(m.Time.UnixMilli(), 0), maxTime-1)
	}
	return event{
		end: kind == disconnected, session: hash(body.Session), version: body.Version, at: body.Timestamp, reason: body.DisconnectFor,
		bye: body.ByClient || body.DisconnectFor == "CLIENT_INITIATED_DISCONNECT",
	}, nil
}

// maxTime bounds timestamps, in ms: the year 2109. An epoch cannot hold later ones.
const maxTime = 1 << 42

func hash(session string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(session))
	return max(h.Sum64(), 1)
}

const (
	// skew is the largest error of the distance between two timestamps.
	skew = int64(2 * 2 * time.Minute / time.Millisecond)
	// reset is the distance beyond which a lower version belongs to a later session.
	reset = skew + int64(time.Minute/time.Millisecond)
)
