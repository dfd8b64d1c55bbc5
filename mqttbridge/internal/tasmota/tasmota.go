// Package tasmota is the convention of Tasmota: https://tasmota.github.io/docs/MQTT/.
//
// The usual topics are data, see [Spec]. What is code is discovery: each device describes its topics in a
// retained message on tasmota/discovery/MAC/config, whatever order and prefixes it was given. A device's
// id is its FullTopic without the prefix, as in the rules, so that it is the same before the description
// came: lamp for %prefix%/%topic%/, house/lamp for house/%topic%/%prefix%/. Home Assistant's integration of Tasmota reads the same
// descriptions, and knows the devices by their MAC addresses.
package tasmota

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Tasmota is the convention. It is not safe for concurrent use.
type Tasmota struct {
	*convention.Rules

	found   map[string]*device // by the topic of their description
	folders map[string]*device // by their topics for telemetry and answers, up to the last slash
	limit   int                // bounds the devices in found
}

// New returns the convention.
func New() (*Tasmota, error) {
	spec := Spec()
	spec.Strict = true
	rules, err := convention.New(spec)
	if err != nil {
		return nil, err
	}
	return &Tasmota{Rules: rules, found: make(map[string]*device), folders: make(map[string]*device), limit: 100_000}, nil
}

const discovery = "tasmota/discovery/"

// Subscriptions implements [convention.Convention].
func (t *Tasmota) Subscriptions() []convention.Subscription {
	return append(t.Rules.Subscriptions(), convention.Subscription{Filter: discovery + "+/config", QoS: 1})
}

// Apply emits the sign of a message, or the subscriptions that a description needs. See
// [convention.Convention].
func (t *Tasmota) Apply(m convention.Message, explain bool, emit func(convention.Sign)) error {
	if rest, ok := strings.CutPrefix(m.Topic, discovery); ok {
		if mac, kind, _ := strings.Cut(rest, "/"); mac != "" && kind == "config" {
			return t.describe(m, explain, emit)
		}
	}
	slash := strings.LastIndexByte(m.Topic, '/') + 1
	if d := t.folders[m.Topic[:slash]]; d != nil {
		return d.apply(m, m.Topic[slash:], explain, emit)
	}
	return t.Rules.Apply(m, explain, func(s convention.Sign) {
		if s.Meaning == convention.Sleep {
			s = asleep(s, m)
		}
		if s.Meaning != convention.Ignore || explain {
			emit(s)
		}
	})
}

// describe applies the description of a device.
func (t *Tasmota) describe(m convention.Message, explain bool, emit func(convention.Sign)) error {
	var (
		d    *device
		sign convention.Sign
		err  error
	)
	if len(m.Payload) > 0 { // else discovery was turned off, which says nothing of the device
		if d, err = parse(m.Payload); err != nil {
			return err
		}
		if len(t.found) >= t.limit && t.found[m.Topic] == nil {
			return &convention.Rejected{Reason: "limit", Detail: "too many devices have described themselves"}
		}
		sign.Subscribe = t.subscriptions(d)
	}
	if old := t.found[m.Topic]; old != nil {
		t.drop(m.Topic, old)
	}
	if d != nil {
		t.found[strings.Clone(m.Topic)] = d
		t.folders[d.tele], t.folders[d.stat] = d, d
	}
	if explain {
		sign.Why = "discovery is off"
		if d != nil {
			sign.Why = "the description of " + d.id + ", with telemetry below " + d.tele
		}
	}
	if explain || len(sign.Subscribe) > 0 {
		emit(sign)
	}
	return nil
}

// DeviceOf implements [convention.Namer].
func (t *Tasmota) DeviceOf(topic string) (id string, ok bool) {
	if d := t.folders[topic[:strings.LastIndexByte(topic, '/')+1]]; d != nil {
		return d.id, true
	}
	return t.Rules.DeviceOf(topic)
}

// Described implements [convention.Describer].
func (t *Tasmota) Described(topic string) (device string, id convention.Identity, ok bool) {
	if d := t.found[topic]; d != nil {
		device, id = d.id, d.identity
	}
	return device, id, strings.HasPrefix(topic, discovery)
}

// subscriptions returns what the rules do not receive of a device. Of an LWT that they do not understand,
// the retained message is sent again.
func (t *Tasmota) subscriptions(d *device) []convention.Subscription {
	var more []convention.Subscription
	for _, probe := range []struct{ folder, kind string }{{d.tele, "LWT"}, {d.stat, "RESULT"}} {
		known := false
		_ = t.Rules.Apply(convention.Message{Topic: probe.folder + probe.kind, Payload: []byte(d.online)}, false,
			func(s convention.Sign) { known = s.Device == d.id })
		if !known {
			more = append(more, convention.Subscription{Filter: probe.folder + "+", QoS: 1})
		}
	}
	return more
}

// drop forgets a description.
func (t *Tasmota) drop(topic string, d *device) {
	delete(t.found, topic)
	for _, folder := range []string{d.tele, d.stat} {
		if t.folders[folder] == d {
			delete(t.folders, folder)
		}
	}
}

// device is a device that has described itself.
type device struct {
	id              string
	tele, stat      string // topics of telemetry and answers, up to the last slash
	online, offline string // payloads of LWT
	identity        convention.Identity
}

// apply emits the sign of a message of the device.
func (d *device) apply(m convention.Message, kind string, explain bool, emit func(convention.Sign)) error {
	sign := convention.Sign{Meaning: convention.Beat, Device: d.id, Interval: period, Timeout: timeout}
	if kind == "LWT" {
		switch string(m.Payload) {
		case d.online:
			sign.Meaning = convention.Online
		case d.offline:
			sign.Meaning = convention.Offline
		case "":
			sign.Meaning = convention.Gone
		default:
			return &convention.Rejected{Reason: convention.NoCase, Detail: "LWT is neither " + d.online + " nor " + d.offline}
		}
	}
	if kind == "DEEPSLEEP" && len(m.Payload) > 0 {
		sign.Meaning = convention.Sleep
		sign = asleep(sign, m)
	}
	if explain {
		sign.Why = kind + " of a device that has described itself"
	}
	if sign.Meaning != convention.Ignore || explain {
		emit(sign)
	}
	return nil
}

// westmost is by how much the local time of a device, which is the one that it tells, may be behind UTC.
const westmost = 12 * time.Hour

// asleep fills in for how long the device of a sign sleeps from now on, 0 if that is not known: its clock may be
// wrong by a tenth, beyond which it corrects it. A retained message is about a sleep that began when it was
// published: only what is left of it counts, and one that is over, or that does not say when it ends, means nothing.
func asleep(s convention.Sign, m convention.Message) convention.Sign {
	var body struct {
		DeepSleep struct{ DeepSleep, Wakeup int64 } // seconds, by the clock of the device
	}
	if json.Unmarshal(m.Payload, &body) == nil {
		const most = 366 * 24 * 60 * 60
		s.Length = time.Duration(min(max(body.DeepSleep.Wakeup-body.DeepSleep.DeepSleep, 0), most)) * time.Second
		s.Length += s.Length / 10
	}
	if !m.Retained {
		return s
	}
	gone := m.Time.Sub(time.Unix(body.DeepSleep.DeepSleep, 0)) - westmost
	if s.Length -= max(gone, 0); s.Length <= 0 {
		return convention.Sign{Device: s.Device, Why: s.Why}
	}
	return s
}

// parse parses a description: the message of
// https://github.com/arendst/Tasmota/blob/development/tasmota/tasmota_xdrv_driver/xdrv_12_discovery.ino.
func parse(payload []byte) (*device, error) {
	reject := func(reason, detail string) (*device, error) {
		return nil, &convention.Rejected{Reason: reason, Detail: "discovery: " + detail}
	}
	if len(payload) > convention.MaxPayload {
		return reject("payload", "it is too large")
	}
	var body struct {
		Topic     string   `json:"t"`
		FullTopic string   `json:"ft"`
		Prefixes  []string `json:"tp"` // of commands, answers, telemetry
		Hostname  string   `json:"hn"`
		MAC       string   `json:"mac"`
		Offline   string   `json:"ofln"`
		Online    string   `json:"onln"`
	}
	if err := json.Unmarshal(payload, &body); err != nil {
		return reject("json", err.Error())
	}
	if body.Topic == "" || body.FullTopic == "" || len(body.Prefixes) != 3 || body.Online == "" || body.Offline == "" || body.Online == body.Offline {
		return reject("payload", "t, ft, tp, ofln or onln is missing")
	}
	// As GetTopic_P of Tasmota does it.
	folder := func(prefix string) string {
		f := strings.NewReplacer("%prefix%", prefix, "%topic%", body.Topic, "%hostname%", body.Hostname, "%id%", body.MAC).Replace(body.FullTopic)
		f = strings.ReplaceAll(strings.ReplaceAll(f, "#", ""), "//", "/")
		if !strings.HasSuffix(f, "/") {
			f += "/"
		}
		return f
	}
	d := &device{id: strings.Trim(folder(""), "/"), stat: folder(body.Prefixes[1]), tele: folder(body.Prefixes[2]), online: body.Online, offline: body.Offline}
	d.identity, _ = convention.MAC(body.MAC)
	for _, topic := range []string{d.tele, d.stat} {
		if len(topic) > maxTopic || strings.ContainsAny(topic, "+\x00") || strings.HasPrefix(topic, "$share/") {
			return reject("topic", "its FullTopic gives no topic to subscribe to")
		}
	}
	if err := liveness.ValidateID(d.id); err != nil {
		return reject("device_id", err.Error())
	}
	return d, nil
}

// maxTopic is more than Tasmota's own limit, in bytes.
const maxTopic = 1024
