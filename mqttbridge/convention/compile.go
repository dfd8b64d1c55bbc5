package convention

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// rule is a Rule, compiled.
type rule struct {
	name    string // shown to people
	pattern *pattern
	qos     byte
	device  template
	behind  template

	deviceJSON, intervalJSON, keepaliveJSON, ttdJSON, sleepJSON, orderJSON, epochJSON pointer

	interval, timeout time.Duration
	factor            float64
	cases             []matcher
	otherwise         Meaning
	looks             bool  // it reads the payload
	onlyJSON          bool  // no case matches a payload that is not JSON
	unclear           error // for a payload that no case matches, if the convention is strict
	returns           bool  // a case is Online
	means             bool  // not all its meanings are Ignore
}

// matcher is a Case, compiled.
type matcher struct {
	always bool
	empty  bool
	text   *string
	json   pointer
	equals []any
	regex  *regexp.Regexp
	// The indices of the groups with these names, 0 if there are none.
	device, seconds, failure int
	means                    Meaning
}

// maxRegex is the length of the longest regular expression.
const maxRegex = 1000

// New compiles a convention. Its errors are *[FieldError]s, joined.
func New(spec Spec) (*Rules, error) {
	c := compiler{rule: -1, inCase: -1}
	if spec.Name == "" {
		c.fail("name", errors.New("it is missing"))
	}
	if len(spec.Rules) == 0 {
		c.fail("rules", errors.New("there are none; write one, as in topic: tele/{device}/LWT"))
	}
	r := &Rules{name: spec.Name, reported: make(map[string]struct{})}
	for i, s := range spec.Rules {
		c.rule = i
		compiled := c.compile(s)
		if spec.Strict {
			compiled.unclear = &Rejected{NoCase, compiled.name + ": no case fits"}
		}
		r.rules = append(r.rules, compiled)
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	r.subscriptions = subscriptions(r.rules)
	r.orders = newOrders(500_000)
	return r, nil
}

// compiler collects the mistakes of a Spec.
type compiler struct {
	rule, inCase int // where it is
	errs         []error
}

func (c *compiler) fail(field string, err error) {
	if err != nil {
		c.errs = append(c.errs, &FieldError{Rule: c.rule, Case: c.inCase, Field: field, Err: err})
	}
}

func (c *compiler) pointer(field, text string) pointer {
	p, err := parsePointer(text)
	c.fail(field, err)
	return p
}

func (c *compiler) compile(s Rule) rule {
	r := rule{
		name: fmt.Sprintf("rule %d (%s)", c.rule+1, s.Topic), qos: s.QoS,
		interval: s.Interval, timeout: s.Timeout, factor: s.Factor, otherwise: s.Else,
		deviceJSON:    c.pointer("device_json", s.DeviceJSON),
		intervalJSON:  c.pointer("interval_json", s.IntervalJSON),
		keepaliveJSON: c.pointer("keepalive_json", s.KeepaliveJSON),
		ttdJSON:       c.pointer("ttd_json", s.TTDJSON),
		sleepJSON:     c.pointer("sleep_json", s.SleepJSON),
		orderJSON:     c.pointer("order_json", s.OrderJSON),
		epochJSON:     c.pointer("epoch_json", s.EpochJSON),
	}
	for i, s := range s.Cases {
		c.inCase = i
		r.cases = append(r.cases, c.matcher(s))
	}
	c.inCase = -1
	if len(s.Cases) == 0 {
		c.check("else", s.Else == Ignore, "there are no cases that it could be else to; without cases every message is a beat")
		r.otherwise = Beat
	}
	c.check("qos", s.QoS <= 1, "it is %d; 0 or 1 do, a heartbeat that comes twice is no harm", s.QoS)
	c.durations(s)
	r.onlyJSON = len(r.cases) > 0 && !slices.ContainsFunc(r.cases, func(m matcher) bool { return m.json == nil })
	r.looks = len(r.cases) > 0
	r.returns = slices.ContainsFunc(r.cases, func(m matcher) bool { return m.means == Online })
	for _, p := range []pointer{r.deviceJSON, r.intervalJSON, r.keepaliveJSON, r.ttdJSON, r.orderJSON, r.epochJSON} {
		r.looks = r.looks || p != nil
	}
	pattern, err := parsePattern(s.Topic)
	if err != nil {
		c.fail("topic", err)
		return r
	}
	r.pattern = pattern
	c.who(&r, s)
	return r
}

func (c *compiler) check(field string, ok bool, format string, args ...any) {
	if !ok {
		c.fail(field, fmt.Errorf(format, args...))
	}
}

// durations checks the announced durations of a rule.
func (c *compiler) durations(s Rule) {
	const most = maxSeconds * time.Second
	c.check("interval", s.Interval >= 0 && s.Interval <= most, "%s is not a time of at most a year", durationYAML(s.Interval))
	c.check("timeout", s.Timeout == Never || s.Timeout >= 0 && s.Timeout <= most, "%s is not a time of at most a year; write never for none", durationYAML(s.Timeout))
	c.check("timeout", s.Timeout <= 0 || s.Interval < s.Timeout, "%s is not longer than the interval of %s: devices would go offline between two heartbeats", durationYAML(s.Timeout), durationYAML(s.Interval))
	c.check("factor", s.Factor == 0 || s.Factor > 1 && s.Factor <= 1000, "%v is not from 1 to 1000; the timeout is the interval times this", s.Factor)
	c.check("factor", s.Factor == 0 || s.Interval > 0 || s.IntervalJSON != "", "there is no interval that it could be for; write interval or interval_json, or remove it")
	c.check("factor", s.Factor == 0 || s.Timeout == 0, "there is a timeout already; write the one or the other")
}

// who compiles the fields that name the device.
func (c *compiler) who(r *rule, s Rule) {
	meanings := []Meaning{r.otherwise}
	group := false
	for _, m := range r.cases {
		meanings = append(meanings, m.means)
		group = group || m.device > 0
	}
	ofDevice := slices.ContainsFunc(meanings, Meaning.ofDevice)
	r.means = slices.ContainsFunc(meanings, func(m Meaning) bool { return m != Ignore })
	c.check("device", s.Device == "" || s.DeviceJSON == "", "there is device_json, too; write the one or the other")
	var err error
	switch {
	case s.Device != "":
		r.device, err = parseTemplate(s.Device, r.pattern.names)
	case s.DeviceJSON != "":
	case slices.Contains(r.pattern.names, "device"):
		r.device, err = parseTemplate("{device}", r.pattern.names)
	case ofDevice && !group:
		c.fail("topic", errors.New("it captures no device: write {device} in topic, or device: from other captures"))
	}
	c.fail("device", err)
	r.behind, err = parseTemplate(s.Behind, r.pattern.names)
	c.fail("behind", err)
	if !ofDevice || s.Behind == "" {
		deaf := slices.ContainsFunc(meanings, func(m Meaning) bool { return m == Deaf || m == Heard })
		c.check("behind", !deaf || s.Behind != "", "it is missing; deaf and heard are about what stands behind it")
	}
}

// matcher compiles a case.
func (c *compiler) matcher(s Case) matcher {
	m := matcher{text: s.Text, empty: s.Empty, means: s.Means, json: c.pointer("json", s.JSON)}
	c.check("means", s.Means <= Reported, "there is no meaning %d", s.Means)
	var conditions []string
	for _, is := range []struct {
		field string
		there bool
	}{{"text", s.Text != nil}, {"json", s.JSON != ""}, {"regex", s.Regex != ""}, {"empty", s.Empty}} {
		if is.there {
			conditions = append(conditions, is.field)
		}
	}
	if len(conditions) > 1 {
		c.fail(conditions[1], fmt.Errorf("a case has only one condition, and there is %s already; write another case", conditions[0]))
	}
	m.always = len(conditions) == 0
	c.check("equals", len(s.Equals) == 0 || s.JSON != "", "it goes with json, which says what is compared; text: compares the whole payload")
	for _, want := range s.Equals {
		v, err := scalar(want)
		c.fail("equals", err)
		m.equals = append(m.equals, v)
	}
	if s.Regex != "" {
		c.fail("regex", m.compile(s.Regex))
	}
	return m
}

// scalar converts a value for value.equals.
func scalar(v any) (any, error) {
	switch v := v.(type) {
	case nil, string, bool, float64:
		return v, nil
	case int:
		return float64(v), nil
	case int64:
		return float64(v), nil
	case uint64:
		return float64(v), nil
	}
	return nil, fmt.Errorf("%v is neither a text, a number, true, false nor null", v)
}

// compile compiles a case's regular expression.
func (m *matcher) compile(text string) error {
	if len(text) > maxRegex {
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), maxRegex)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return fmt.Errorf("it is no regular expression: %w", err)
	}
	m.regex = re
	for i, name := range re.SubexpNames() {
		switch {
		case i == 0 || name == "":
		case name == "device":
			m.device = cmp.Or(m.device, i)
		case name == "seconds" && m.means == Sleep:
			m.seconds = cmp.Or(m.seconds, i)
		case name == "text" && m.means == Fail:
			m.failure = cmp.Or(m.failure, i)
		default:
			return fmt.Errorf("it has a group with the name %q, which means nothing here; there are device, seconds (for sleep) and text (for fail)", name)
		}
	}
	return nil
}

// subscriptions returns the subscriptions of the rules. It leaves out a filter that another one
// with the same quality of service covers.
func subscriptions(rules []rule) []Subscription {
	var all []Subscription
	for _, r := range rules {
		if !r.means {
			continue // it only hides topics from the rules below
		}
		s := Subscription{r.pattern.filter, r.qos}
		isCovered := func(by, s Subscription) bool { return by.QoS >= s.QoS && covers(by.Filter, s.Filter) }
		if slices.ContainsFunc(all, func(by Subscription) bool { return isCovered(by, s) }) {
			continue
		}
		all = append(slices.DeleteFunc(all, func(old Subscription) bool { return isCovered(s, old) }), s)
	}
	return all
}

// covers reports whether filter matches each topic that other matches.
func covers(filter, other string) bool {
	if filter == other {
		return true
	}
	if strings.HasPrefix(filter, "$share/") || strings.HasPrefix(other, "$share/") {
		return false // each gets its own copies
	}
	if other[0] == '$' && filter[0] != '$' {
		return false // wildcards do not reach there
	}
	for {
		a, restA, moreA := strings.Cut(filter, "/")
		b, restB, moreB := strings.Cut(other, "/")
		switch {
		case a == "#":
			return true
		case b == "#" || a != "+" && a != b:
			return false
		case !moreA || !moreB:
			return moreA == moreB || moreA && restA == "#"
		}
		filter, other = restA, restB
	}
}
