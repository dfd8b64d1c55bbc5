package convention

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// MaxPayload is the size of the largest payload that rules read. A rule that must read a larger one
// rejects it.
const MaxPayload = 256 << 10

// Rules is a convention of rules, compiled by [New]. A message costs a few nanoseconds for each
// rule before the one that matches its topic. It allocates only for the device's id and for
// payloads.
type Rules struct {
	name          string
	rules         []rule
	subscriptions []Subscription
	orders        *orders
	reported      map[string]struct{} // devices whose heartbeats do not count before they are online, see Reported
}

// maxReported bounds the devices in Rules.reported. The heartbeats of others count.
const maxReported = 500_000

// Name returns the name in the Spec.
func (r *Rules) Name() string { return r.name }

// Subscriptions returns the subscriptions of the rules. Rules that ignore all their messages need
// none.
func (r *Rules) Subscriptions() []Subscription { return slices.Clone(r.subscriptions) }

// Connected lets all heartbeats count again: that a device is online may have been missed.
func (r *Rules) Connected(Fleet, func(Sign)) { clear(r.reported) }

// Apply emits at most one sign. See [Convention].
func (r *Rules) Apply(m Message, explain bool, emit func(Sign)) error {
	var found captures
	for i := range r.rules {
		if r.rules[i].pattern.match(m.Topic, &found) {
			return r.apply(&r.rules[i], m, &found, explain, emit)
		}
	}
	return nil
}

// DeviceOf implements [Namer].
func (r *Rules) DeviceOf(topic string) (id string, ok bool) {
	var found captures
	for i := range r.rules {
		if r.rules[i].pattern.match(topic, &found) {
			id = r.rules[i].device.expand(&found)
			return id, r.rules[i].means && liveness.ValidateID(id) == nil
		}
	}
	return "", false
}

// apply applies the rule that matches the topic.
func (r *Rules) apply(rule *rule, m Message, found *captures, explain bool, emit func(Sign)) error {
	if rule.looks && len(m.Payload) > MaxPayload {
		return &Rejected{"payload", fmt.Sprintf("it has %d bytes, rules look into at most %d", len(m.Payload), MaxPayload)}
	}
	doc := document{payload: m.Payload}
	is := rule.decide(&doc)
	if is.means == Ignore {
		if rule.onlyJSON && is.matcher == nil && len(m.Payload) > 0 && !doc.isJSON() {
			return notJSON(m.Payload)
		}
		if rule.unclear != nil && is.matcher == nil && len(m.Payload) > 0 {
			return rule.unclear
		}
		if explain {
			emit(Sign{Why: rule.why(is, m)})
		}
		return nil
	}
	sign := Sign{Meaning: is.means, Behind: rule.behind.expand(found)}
	if is.means.ofDevice() {
		if err := rule.fill(&sign, is, &doc, found); err != nil {
			return err
		}
		if err := r.inOrder(rule, sign.Device, &doc); err != nil {
			return err
		}
	}
	if explain {
		sign.Why = rule.why(is, m)
	}
	if r.overruled(rule, &sign, m.Retained) {
		if explain {
			emit(Sign{Why: sign.Why + "; but " + sign.Device + " is reported as offline, and not as online since"})
		}
		return nil
	}
	emit(sign)
	return nil
}

// overruled reports whether a sign does not count, because its device is reported as offline.
func (r *Rules) overruled(rule *rule, s *Sign, retained bool) bool {
	_, reported := r.reported[s.Device]
	switch {
	case s.Meaning == Reported:
		if !reported && !retained && rule.returns && len(r.reported) < maxReported {
			r.reported[strings.Clone(s.Device)] = struct{}{}
		}
	case s.Meaning == Beat:
		return reported
	case reported && s.Meaning.ofDevice():
		delete(r.reported, s.Device)
	}
	return false
}

// decision is the result of a rule for a payload.
type decision struct {
	means   Meaning
	matcher *matcher // nil: no case matches
	index   int      // index of the matcher
	groups  []int    // positions of the groups of its regular expression
}

// decide finds the case that matches.
func (r *rule) decide(doc *document) decision {
	for i := range r.cases {
		if groups, ok := r.cases[i].match(doc); ok {
			return decision{means: r.cases[i].means, matcher: &r.cases[i], index: i, groups: groups}
		}
	}
	return decision{means: r.otherwise}
}

func (m *matcher) match(doc *document) (groups []int, ok bool) {
	switch {
	case m.always:
		return nil, true
	case m.empty:
		return nil, len(doc.payload) == 0
	case m.text != nil:
		return nil, string(doc.payload) == *m.text
	case m.json != nil:
		v := doc.at(m.json)
		return nil, v != nil && (len(m.equals) == 0 || slices.ContainsFunc(m.equals, v.equals))
	case m.device+m.seconds+m.failure == 0:
		return nil, m.regex.Match(doc.payload)
	}
	groups = m.regex.FindSubmatchIndex(doc.payload)
	return groups, groups != nil
}

// group returns the text of a group, if the group exists and matched something.
func (d decision) group(doc *document, index int) (string, bool) {
	if index == 0 || d.groups[2*index] < 0 {
		return "", false
	}
	return string(doc.payload[d.groups[2*index]:d.groups[2*index+1]]), true
}

// fill fills in what the message says about its device.
func (r *rule) fill(sign *Sign, is decision, doc *document, found *captures) error {
	device, err := r.who(is, doc, found)
	if err != nil {
		return err
	}
	if err := liveness.ValidateID(device); err != nil {
		return &Rejected{"device_id", err.Error()}
	}
	sign.Device = device
	if v := doc.at(r.epochJSON); v != nil && string(v) != "null" {
		if sign.Epoch, err = v.epoch(); err != nil {
			return &Rejected{"json", "epoch: " + err.Error()}
		}
	}
	if err := r.announce(sign, doc); err != nil {
		return err
	}
	switch sign.Meaning {
	case Sleep:
		return r.sleep(sign, is, doc)
	case Fail:
		text := string(doc.payload)
		if is.matcher != nil {
			if group, ok := is.group(doc, is.matcher.failure); ok {
				text = group
			}
		}
		sign.Text = shorten(text, 256)
	default:
	}
	return nil
}

// who returns the id of the device.
func (r *rule) who(is decision, doc *document, found *captures) (string, error) {
	if is.matcher != nil {
		if group, ok := is.group(doc, is.matcher.device); ok {
			return group, nil
		}
	}
	if r.deviceJSON == nil {
		return r.device.expand(found), nil
	}
	if !doc.isJSON() {
		return "", notJSON(doc.payload)
	}
	id, ok := doc.at(r.deviceJSON).id()
	if !ok {
		return "", &Rejected{"json", "there is no text at /" + strings.Join(r.deviceJSON, "/") + ", which names the device"}
	}
	return id, nil
}

// longest is the longest announced timeout. A longer one would be refused together with its
// message.
const longest = maxSeconds * time.Second

// announce fills in the interval and the timeout.
func (r *rule) announce(sign *Sign, doc *document) error {
	sign.Interval, sign.Timeout = r.interval, r.timeout
	if d, ok, err := r.seconds(doc, r.intervalJSON, "interval", 0); err != nil {
		return err
	} else if ok && d > 0 {
		sign.Interval = d
	}
	if r.factor > 0 {
		sign.Timeout = time.Duration(min(float64(sign.Interval)*r.factor, float64(longest)))
	}
	if d, ok, err := r.seconds(doc, r.keepaliveJSON, "keepalive", 0); err != nil {
		return err
	} else if ok && d == 0 {
		sign.Timeout = Never
	} else if ok {
		sign.Timeout = min(d+d/2, longest)
	}
	if sign.Meaning != Beat && sign.Meaning != Online {
		return nil
	}
	d, ok, err := r.seconds(doc, r.ttdJSON, "ttd", -time.Second)
	switch {
	case err != nil || !ok:
		return err
	case d < 0:
		sign.Meaning, sign.Timeout = Online, Never
	case d == 0:
		sign.Meaning = Bye
	default:
		sign.Meaning, sign.Timeout = Online, d
	}
	return nil
}

// seconds returns the time at a pointer, if there is one.
func (r *rule) seconds(doc *document, p pointer, what string, least time.Duration) (time.Duration, bool, error) {
	v := doc.at(p)
	if v == nil || string(v) == "null" {
		return 0, false, nil
	}
	d, err := v.seconds()
	if err == nil && d < least {
		err = fmt.Errorf("%s is negative", cut(string(v)))
	}
	if err != nil {
		return 0, false, &Rejected{"json", what + ": " + err.Error()}
	}
	return d, true, nil
}

// sleep fills in how long the device will sleep.
func (r *rule) sleep(sign *Sign, is decision, doc *document) error {
	length, ok, err := r.seconds(doc, r.sleepJSON, "sleep", -time.Second)
	if is.matcher != nil && err == nil {
		if group, there := is.group(doc, is.matcher.seconds); there {
			ok = true
			if length, err = parseSeconds(group); err != nil {
				err = &Rejected{"payload", "sleep: " + err.Error()}
			}
		}
	}
	switch {
	case err != nil:
		return err
	case ok && length == 0:
		sign.Meaning = Beat
	case length > 0:
		sign.Length = length
	}
	return nil
}

// inOrder returns an error for a message that is older than the device's latest one.
func (r *Rules) inOrder(rule *rule, device string, doc *document) error {
	v := doc.at(rule.orderJSON)
	if v == nil || string(v) == "null" {
		return nil
	}
	o, ok := v.order()
	if !ok {
		return &Rejected{"json", fmt.Sprintf("order: %s is neither a number nor a text of at most %d bytes", cut(string(v)), maxOrder)}
	}
	if !r.orders.note(device, o) {
		return &Rejected{"order", fmt.Sprintf("%s is before the latest message of %s", cut(string(v)), device)}
	}
	return nil
}

func notJSON(payload []byte) error {
	return &Rejected{"json", "the payload is not JSON: " + strconv.Quote(cut(string(payload)))}
}

// why explains the decision.
func (r *rule) why(is decision, m Message) string {
	why := r.name + ": "
	switch {
	case len(r.cases) == 0:
		why += "any message counts"
	case is.matcher == nil:
		why += "no case fits"
	default:
		why += is.matcher.describe(is.index)
	}
	if m.Retained && is.means != Ignore {
		why += "; retained: may seed a state, is no heartbeat"
	}
	return why
}

func (m *matcher) describe(index int) string {
	switch {
	case m.always:
		return fmt.Sprintf("case %d is for all others", index+1)
	case m.empty:
		return "the payload is empty"
	case m.text != nil:
		return "the payload is " + *m.text
	case m.regex != nil:
		return "the payload has " + m.regex.String()
	}
	where := "/" + strings.Join(m.json, "/")
	switch len(m.equals) {
	case 0:
		return where + " is there"
	case 1:
		return fmt.Sprintf("%s is %v", where, m.equals[0])
	}
	return fmt.Sprintf("%s is one of %v", where, m.equals)
}
