package homeassistant

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

const (
	maxDiscovery = 256 << 10
	maxEntities  = 1024 // in one payload
	maxSignals   = 64   // availability topics of one entity
	maxReadings  = 4096 // availability topics in one payload
	maxTopic     = 1024
	maxText      = 1024 // payload_available and the like
	maxExpire    = 366 * 24 * time.Hour
)

// found is the content of a discovery payload.
type found struct {
	device   string
	block    map[string]any // about the device
	entities []foundEntity
	notes    []string // remarks on what is ignored, and why
	unheard  string   // which availability is not heard, and why; "" if all is
	ignore   bool
	readings int // availability topics of all entities
}

type foundEntity struct {
	mode    mode
	signals []reading
	state   string // topic, "" if there is none
	off     off    // of its states: what is no sign of life
	expire  time.Duration
	unheard bool // it has an availability topic whose template is not understood
}

// off is what a connectivity sensor shows of a device that is gone, mostly its last will. The zero off is nothing.
type off struct{ text, template string }

// reading says how messages on a topic tell availability.
type reading struct {
	topic, on, off, template string
}

// place is a discovery topic (https://www.home-assistant.io/integrations/mqtt/#discovery-messages): <component>/[<node>/]<object>/config.
type place struct {
	component, node, object string
}

// fallback is the id of an entity without identifiers. It is unique for each place.
func (p place) fallback() string {
	if p.node == "" {
		return p.component + "/" + p.object
	}
	return p.component + "/" + p.node + "/" + p.object
}

// parsePlace parses a discovery topic without the prefix. ok is false for other topics.
func parsePlace(rest string) (p place, ok bool, err error) {
	levels := strings.Split(rest, "/")
	if len(levels) < 3 || len(levels) > 4 || levels[len(levels)-1] != "config" {
		return place{}, false, nil
	}
	p = place{component: levels[0], object: levels[len(levels)-2]}
	if len(levels) == 4 {
		p.node = levels[1]
	}
	for _, level := range levels[:len(levels)-1] {
		if level == "" || strings.ContainsFunc(level, func(c rune) bool { return !isWord(c) }) {
			return place{}, true, reject("topic", "%.140q has other characters than letters, digits, _ and -", rest)
		}
	}
	return p, true, nil
}

func isWord(c rune) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func reject(reason, format string, args ...any) error {
	return &convention.Rejected{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// parseDiscovery parses a payload that is not empty.
func parseDiscovery(p place, payload []byte) (found, error) {
	if len(payload) > maxDiscovery {
		return found{}, reject("payload", "it has %d bytes, at most %d are read", len(payload), maxDiscovery)
	}
	var raw map[string]any
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	if err := d.Decode(&raw); err != nil {
		return found{}, reject("json", "%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return found{}, reject("json", "something follows the object")
	}
	root := object(raw, optionShort)
	if migrate, _ := root["migrate_discovery"].(bool); migrate {
		return found{ignore: true, notes: []string{"its entity moves to another discovery topic"}}, nil
	}
	if name := text(object(root["origin"], nil)["name"]); strings.EqualFold(name, "holter") {
		return found{ignore: true, notes: []string{"it was published by Holter"}}, nil
	}
	f := found{}
	if err := f.name(p, root); err != nil {
		return found{}, err
	}
	if p.component != "device" {
		return f, f.add(root)
	}
	components, _ := root["components"].(map[string]any)
	if len(components) > maxEntities {
		return found{}, reject("payload", "it has %d components, at most %d are read", len(components), maxEntities)
	}
	for _, key := range slices.Sorted(maps.Keys(components)) {
		raw, ok := components[key].(map[string]any)
		if !ok {
			return found{}, reject("payload", "component %.140q is not an object", key)
		}
		component := object(raw, optionShort)
		delete(component, "platform")
		if len(component) == 0 {
			continue // this is how a component is removed
		}
		inherit(component, root)
		if err := f.add(component); err != nil {
			return found{}, err
		}
	}
	return f, nil
}

// inherit gives a component the options of its device.
func inherit(component, root map[string]any) {
	own := component["availability"] != nil || component["availability_topic"] != nil
	for _, key := range []string{
		"~", "state_topic", "availability", "availability_mode", "availability_topic", "availability_template",
		"payload_available", "payload_not_available",
	} {
		if own && (key == "availability" || key == "availability_topic" || key == "availability_template") {
			continue
		}
		if _, has := component[key]; !has && root[key] != nil {
			component[key] = root[key]
		}
	}
}

// name sets the device's id: the first of its identifiers, else of its connections, else the
// entity's unique_id, else its place.
func (f *found) name(p place, root map[string]any) error {
	f.block = object(root["device"], deviceShort)
	id := identityOf(f.block).Value
	if id == "" {
		id = text(root["unique_id"])
	}
	if id == "" {
		id = p.fallback()
	}
	f.device = escape(id)
	if err := liveness.ValidateID(f.device); err != nil {
		return reject("device_id", "%v", err)
	}
	return nil
}

// identityOf returns what Home Assistant knows a device by: its first identifier, else its first connection. One is enough, because Home
// Assistant merges devices that have any in common.
func identityOf(block map[string]any) (id convention.Identity) {
	if id.Value = first(block["identifiers"]); id.Value != "" {
		return id
	}
	if connection, ok := list(block["connections"])[0].([]any); ok && len(connection) == 2 {
		id.Kind, id.Value = text(connection[0]), text(connection[1])
	}
	return id
}

func (f *found) add(options map[string]any) error {
	e := foundEntity{mode: latest}
	base := text(options["~"])
	switch mode := text(options["availability_mode"]); mode {
	case "", "latest":
	case "all":
		e.mode = all
	case "any":
		e.mode = anyOf
	default:
		return reject("payload", "availability_mode is %.40q, not all, any or latest", mode)
	}
	for _, v := range list(options["availability"]) {
		one := object(v, optionShort)
		if one == nil {
			continue
		}
		r := reading{text(one["topic"]), text(one["payload_available"]), text(one["payload_not_available"]), text(one["value_template"])}
		if err := f.signal(&e, base, r); err != nil {
			return err
		}
	}
	if topic := text(options["availability_topic"]); topic != "" {
		r := reading{topic, text(options["payload_available"]), text(options["payload_not_available"]), text(options["availability_template"])}
		if err := f.signal(&e, base, r); err != nil {
			return err
		}
	}
	var err error
	if e.state, err = fullTopic(text(options["state_topic"]), base); err != nil {
		return err
	}
	if text(options["device_class"]) == "connectivity" {
		e.off = off{cmp.Or(text(options["payload_off"]), "OFF"), text(options["value_template"])}
		if len(e.off.text) > maxText || len(e.off.template) > maxText {
			return reject("payload", "payload_off or value_template has more than %d bytes", maxText)
		}
		if _, err := parseTemplate(e.off.template); err != nil {
			f.unheard = fmt.Sprintf("that the connection of %.80s is lost is not heard on %.140s: of its template %.200q %v", f.device, e.state, e.off.template, err)
			e.off = off{}
		}
	}
	if v := text(options["expire_after"]); v != "" && e.state != "" {
		seconds, err := strconv.ParseFloat(v, 64)
		if err != nil || seconds < 0 || math.IsNaN(seconds) {
			return reject("payload", "expire_after is %.40q, not a number of seconds", v)
		}
		e.expire = time.Duration(min(seconds, maxExpire.Seconds()) * float64(time.Second))
	}
	f.entities = append(f.entities, e)
	return nil
}

// signal adds a reading to the entity, if its template is understood.
func (f *found) signal(e *foundEntity, base string, r reading) error {
	var err error
	if r.topic, err = fullTopic(r.topic, base); err != nil || r.topic == "" {
		return err
	}
	if r.on == "" {
		r.on = "online"
	}
	if r.off == "" {
		r.off = "offline"
	}
	if len(r.on) > maxText || len(r.off) > maxText || len(r.template) > maxText || len(e.signals) == maxSignals {
		return reject("payload", "availability has more than %d topics, or texts of more than %d bytes", maxSignals, maxText)
	}
	if f.readings++; f.readings > maxReadings {
		return reject("payload", "availability has more than %d topics", maxReadings)
	}
	if _, err := parseTemplate(r.template); err != nil {
		e.unheard = true
		f.unheard = fmt.Sprintf("the availability of %.80s by %.140s is not heard: of its template %.200q %v", f.device, r.topic, r.template, err)
		f.notes = append(f.notes, f.unheard)
		return nil
	}
	if !slices.Contains(e.signals, r) {
		e.signals = append(e.signals, r)
	}
	return nil
}

var errTooLong = fmt.Errorf("it has more than %d bytes", maxTopic)

// fullTopic replaces a ~ at the beginning or the end by the base topic.
func fullTopic(topic, base string) (string, error) {
	if base != "" && topic != "" {
		if rest, ok := strings.CutPrefix(topic, "~"); ok {
			topic = base + rest
		}
		if rest, ok := strings.CutSuffix(topic, "~"); ok {
			topic = rest + base
		}
	}
	if topic == "" {
		return "", nil
	}
	if err := convention.CheckTopic(topic); err != nil || len(topic) > maxTopic {
		return "", reject("topic", "%.140q is no topic to subscribe to: %v", topic, cmp.Or(err, errTooLong))
	}
	return topic, nil
}

// escape returns a text as a valid id, different for different texts: characters that an id must
// not contain and % are written as % and two hexadecimal digits for each byte.
func escape(s string) string {
	var b strings.Builder
	for i, c := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		if c == '%' || unicode.IsControl(c) || c == utf8.RuneError && size == 1 {
			for _, raw := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", raw)
			}
			continue
		}
		b.WriteString(s[i : i+size])
	}
	return b.String()
}
