package plan

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// FieldError is what is wrong with one field of a plan, and what to do about it. Field is written
// as in a scenario file, as in phases[1].acts[0].share; for whom an act takes it is the act.
type FieldError struct{ Field, Text string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Text }

// Bounds of a plan.
const (
	maxDevices = 100_000_000
	maxTimes   = 100_000
	maxActs    = 1000 // working out the fates takes time that grows with their square
	aYear      = 365 * 24 * time.Hour
	minRamp    = 0.1
	maxRamp    = 10_000_000
)

// Validate returns all that is wrong with a plan, each a [*FieldError], joined; nil if nothing is.
func (p *Plan) Validate() error {
	c := checker{p: p}
	c.fleet()
	c.connection()
	c.times()
	c.mqtt()
	c.phases()
	if len(c.errs) == 0 { // otherwise the draws would only repeat it
		c.errs = p.Fates(Range{}).errs
	}
	return errors.Join(c.errs...)
}

type checker struct {
	p    *Plan
	errs []error
}

func (c *checker) fail(field, format string, args ...any) {
	c.errs = append(c.errs, &FieldError{Field: field, Text: fmt.Sprintf(format, args...)})
}

// span reports a duration that is not from least to a year.
func (c *checker) span(field string, d, least time.Duration) {
	if d < least || d > aYear {
		c.fail(field, "%v is out of range; allowed are %v to 8760h", d, least)
	}
}

func (c *checker) fleet() {
	p := c.p
	if p.Devices < 1 || p.Devices > maxDevices {
		c.fail("devices", "%d is out of range; allowed are 1 to %d", p.Devices, maxDevices)
	}
	if text := p.checkID(); text != "" {
		c.fail("id", "%s", text)
	}
	if p.Group < 0 || p.Group > maxDevices {
		c.fail("group", "%d is out of range; allowed are 0 (no groups) to %d", p.Group, maxDevices)
	}
}

func (c *checker) connection() {
	p := c.p
	if _, known := protocols()[p.Protocol]; !known {
		c.fail("protocol", "%q is not known; known are %s", p.Protocol, strings.Join(Protocols(), ", "))
	}
	if len(p.Targets) == 0 {
		c.fail("targets", "there is none; say where to connect to (--target HOST:PORT)")
	}
	for i, t := range p.Targets {
		if text := checkTarget(t); text != "" {
			c.fail(item("targets", i), "%s", text)
		}
	}
	for i, a := range p.Sources {
		switch {
		case !a.IsValid():
			c.fail(item("sources", i), "is not an address")
		case a.IsUnspecified(), a.IsMulticast():
			c.fail(item("sources", i), "%v cannot be bound by one device; write an address of this machine", a)
		}
	}
	if p.Protocol == Line && strings.ContainsFunc(p.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		c.fail("token", "may hold only visible ASCII characters and no spaces")
	}
	if !(p.Ramp >= minRamp && p.Ramp <= maxRamp) {
		c.fail("ramp", "%v connections a second are out of range; allowed are %v to %d", p.Ramp, minRamp, maxRamp)
	}
}

func checkTarget(text string) string {
	host, port, err := net.SplitHostPort(text)
	switch {
	case strings.Contains(text, "@"): // there may be a password in it
		return "holds an @; write HOST:PORT, and give a name and a password with user and token"
	case err != nil && strings.Count(text, ":") > 1 && !strings.Contains(text, "["):
		return fmt.Sprintf("%q: write an IPv6 address in brackets, with its port, as in [::1]:7700", text)
	case err != nil:
		return fmt.Sprintf("%q is not an address; write HOST:PORT, as in 127.0.0.1:7700", text)
	case host == "":
		return fmt.Sprintf("%q has no host; write HOST:PORT, as in 127.0.0.1:7700", text)
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == '/' }):
		return fmt.Sprintf("%q has a host that is neither an IP address nor a name", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Sprintf("%q has the port %q; allowed are 1 to 65535", text, port)
	}
	return ""
}

func (c *checker) times() {
	p := c.p
	before := len(c.errs)
	c.span("interval", p.Interval, time.Millisecond)
	if !(p.Jitter >= 0 && p.Jitter <= 1) {
		c.fail("jitter", "%v is not a share; allowed are 0 to 1, as in 0.1 for 10%%", p.Jitter)
	}
	c.span("timeout", p.Timeout, time.Millisecond)
	c.span("grace", p.Grace, 0)
	c.span("backoff", p.Backoff, time.Millisecond)
	c.span("backoff_max", p.BackoffMax, time.Millisecond)
	if len(c.errs) > before {
		return
	}
	if longest := p.Interval + time.Duration(p.Jitter*float64(p.Interval)); p.Timeout <= longest {
		c.fail("timeout", "%v is not longer than the time between two heartbeats (%v with jitter): devices would be offline between them; "+
			"make it longer, or the interval shorter", p.Timeout, longest)
	}
	if p.BackoffMax < p.Backoff {
		c.fail("backoff_max", "%v is shorter than backoff (%v), the first pause", p.BackoffMax, p.Backoff)
	}
	const leastKeepAlive = 1500 * time.Millisecond
	if p.SpeaksMQTT() && p.Timeout < leastKeepAlive {
		c.fail("timeout", "%v is too short for mqtt, where a keep alive has at least one second; allowed are %v and more", p.Timeout, leastKeepAlive)
	}
}

func (c *checker) mqtt() {
	p := c.p
	if p.QoS > 1 {
		c.fail("qos", "%d is not supported; allowed are 0 and 1", p.QoS)
	}
	topics := []struct{ field, text string }{{"will_topic", p.WillTopic}, {"publish", p.Publish}}
	for _, t := range topics {
		rest := strings.ReplaceAll(t.text, "{device}", "")
		switch {
		case strings.ContainsAny(rest, "+#\x00"):
			c.fail(t.field, "%q is not a topic to publish to: it holds +, # or NUL", t.text)
		case strings.ContainsAny(rest, "{}"):
			c.fail(t.field, "%q holds braces that are not {device}, which stands for the id", t.text)
		case len(t.text)+maxID > 65535:
			c.fail(t.field, "is longer than a topic can be")
		}
	}
	if p.WillTopic == "" && (p.WillPayload != "" || p.BirthPayload != "") {
		c.fail("will_topic", "is missing: will_payload and birth_payload are sent to it")
	}
}

func (c *checker) phases() {
	if len(c.p.Phases) == 0 {
		c.fail("phases", "there is none; write at least one, with a length")
	}
	acts := 0
	for i, ph := range c.p.Phases {
		path := item("phases", i)
		c.span(path+".length", ph.Length, time.Millisecond)
		for j, a := range ph.Acts {
			c.act(actField(i, j), ph, a)
		}
		acts += len(ph.Acts)
	}
	if acts > maxActs {
		c.fail("phases", "there are %d acts; at most %d are allowed (times and every repeat one)", acts, maxActs)
	}
	if n := len(c.p.Phases); n > maxActs {
		c.fail("phases", "there are %d; at most %d are allowed", n, maxActs)
	} else if len(c.errs) == 0 && c.p.Length() > aYear {
		c.fail("phases", "take longer than a year together")
	}
}

func (c *checker) act(path string, ph Phase, a Act) {
	before := len(c.errs)
	if a.Kind < Bye || a.Kind > Signal {
		c.fail(path+".kind", "is missing or unknown; say what the devices do")
		return
	}
	c.whom(path, a)
	c.span(path+".after", a.After, 0)
	c.span(path+".within", a.Within, 0)
	c.span(path+".back", a.Back, 0)
	c.span(path+".back_within", a.BackWithin, 0)
	c.span(path+".every", a.Every, 0)
	if a.Times < 0 || a.Times > maxTimes {
		c.fail(path+".times", "%d is out of range; allowed are 1 to %d", a.Times, maxTimes)
	}
	if len(c.errs) == before {
		c.repeats(path, a)
		c.fits(path, ph, a)
		c.suits(path, a)
	}
}

// whom reports an act that does not say exactly once whom it takes.
func (c *checker) whom(path string, a Act) {
	said := 0
	for _, is := range []bool{a.Share != 0, a.Count != 0, a.Groups != 0, a.GroupShare != 0, a.All} {
		if is {
			said++
		}
	}
	if a.Kind == Signal {
		if said > 0 {
			c.fail(path, "a signal is done to no device; leave out share, count, groups and all")
		}
		return
	}
	if said != 1 {
		c.fail(path, "must say in one way whom it takes: share: 10%%, count: 100, groups: 3, groups: 10%% or all: true")
		return
	}
	if s := max(a.Share, a.GroupShare); a.Share+a.GroupShare != 0 && !(s > 0 && s <= 1) {
		c.fail(path, "%v is not a share; allowed are more than 0 to 1, as in 0.1 for 10%%", a.Share+a.GroupShare)
	}
	if n := a.Count + a.Groups; n < 0 || n > maxDevices {
		c.fail(path, "%d is out of range; allowed are 1 to %d", n, maxDevices)
	}
	if a.wholeGroups() && c.p.Group == 0 {
		c.fail(path, "takes groups, but there are none; say with group how many devices make one")
	}
}

// repeats reports what is wrong with the repetition.
func (c *checker) repeats(path string, a Act) {
	switch {
	case a.Times <= 1 && a.Every > 0:
		c.fail(path+".every", "means nothing without times, how often it happens")
	case a.Times > 1 && a.Every == 0:
		c.fail(path+".every", "is missing: it happens %d times to each", a.Times)
	case a.Kind == Signal:
	case a.Times > 1 && a.forGood():
		c.fail(path+".back", "is missing: what happens %d times to a device cannot be for good", a.Times)
	case a.Times > 1 && a.Every <= a.Back+a.BackWithin:
		c.fail(path+".every", "%v is not longer than a device stays away (%v): it would leave again before it is back", a.Every, a.Back+a.BackWithin)
	}
}

// fits reports an act that does not happen within its phase.
func (c *checker) fits(path string, ph Phase, a Act) {
	if a.Every > 0 && a.times() > int(aYear/a.Every) {
		c.fail(path+".times", "%d times %v are longer than a year", a.Times, a.Every)
		return
	}
	if end := a.After + a.happens(); end > ph.Length {
		c.fail(path, "goes on until %v after the beginning of its phase, which ends after %v; make the phase longer, or after, within or times less",
			end, ph.Length)
	}
}

// suits reports what does not fit the kind of an act.
func (c *checker) suits(path string, a Act) {
	switch {
	case a.Kind == Signal && (a.Within > 0 || a.BackWithin > 0):
		c.fail(path, "a signal is one instant; leave out within and back_within")
	case a.forGood() && a.BackWithin > 0:
		c.fail(path+".back_within", "means nothing without back, how long they stay away")
	case a.Kind == Sleep && a.Back == 0:
		c.fail(path+".back", "is missing: a device that sleeps says how long")
	case a.Kind == Sleep && !protocols()[c.p.Protocol].sleep:
		c.fail(path+".kind", "in %s a device cannot say that it sleeps; use close, or protocol line", c.p.Protocol)
	case a.Kind == Bye && !protocols()[c.p.Protocol].bye:
		c.fail(path+".kind", "in %s a device cannot say goodbye; use close", c.p.Protocol)
	case a.Kind == Move && len(c.p.Sources) < 2:
		c.fail(path+".kind", "a device can move only if there are at least two sources; give them (--source 127.0.0.2-127.0.0.40)")
	}
}

func item(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

func actField(phase, act int) string { return item(item("phases", phase)+".acts", act) }
