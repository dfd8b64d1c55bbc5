package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// defaultTimeout is the timeout of the fleet's policy where none is given.
const defaultTimeout = 90 * time.Second

// defaultProbeWait is the default of probe_wait in a policy with probes.
const defaultProbeWait = 5 * time.Second

// policyFields lists the keys of a policy: of the fleet, a group or a device.
func policyFields(p *liveness.Policy) []strictyaml.Field {
	const least = time.Millisecond
	return []strictyaml.Field{
		strictyaml.Key("interval", strictyaml.Span(&p.Interval, least, aYear), "a third of timeout", "time between two heartbeats"),
		strictyaml.Key("timeout", strictyaml.Value(&p.Timeout, orNever), "90s",
			"silence after which the device is offline, 1ms to 365d; or `never`: silence does not count, and only another signal, such as a broker's, ends its session "+
				"(the API shows `null`, events leave `timeout_ms` out, and the API accepts the longest `timeout_ms`, 31622400000, for it)"),
		strictyaml.Key("late_after", strictyaml.SpanOrOff(&p.LateAfter, least, aYear), "off", "silence after which it is late"),
		strictyaml.Key("close_grace", strictyaml.Span(&p.CloseGrace, least, aYear), "10s or half of timeout, whichever is shorter", "time to come back after its connection ended"),
		strictyaml.Key("sleep_limit", strictyaml.Span(&p.SleepLimit, least, aYear), "1d", "longest sleep that a device may announce"),
		strictyaml.Key("probes", strictyaml.Number(&p.Probes, 0, 100), "0", "number of probes to a connected device before it is offline; 0: off"),
		strictyaml.Key("probe_wait", strictyaml.Span(&p.ProbeWait, least, aYear), "5s", "time from one probe to the next, and from the last one to the verdict"),
		strictyaml.Key("recover_after", strictyaml.Number(&p.RecoverAfter, 1, 255), "1", "number of heartbeats in a row that an offline device sends before it is online again"),
		strictyaml.Key("quiet", quiet(&p.Quiet), "none", "list of windows of the day in which silence does not count, up to 16"),
		strictyaml.Key("expect", strictyaml.Value(&p.Expect, parseExpect), "none", "when the device is [expected](#expected-by-a-schedule): a crontab expression and a time zone"),
		strictyaml.Key("learn.mode", strictyaml.Value(&p.Learn, judgement.ParseLearnMode), "suggest",
			"what is done with the deadline that is learned of a device: `off`; `suggest`: it is shown, and in force once it is applied; `apply`: it is in force and follows what is learned"),
		strictyaml.Key("learn.budget", strictyaml.Value(&p.LearnBudget, judgement.ParseLearnBudget), "1/month",
			"false alarms of a device that are accepted, as `1/month`, `3/week`, `0.1/day` or `2/year`, 0.001 to 1,000 a month of 30 days"),
		strictyaml.Key("learn.max", strictyaml.Span(&p.LearnMax, time.Second, judgement.MaxLearned), "1d", "longest deadline that is put in force because it was learned"),
	}
}

// orNever reads a timeout, or the word never.
func orNever(text string) (time.Duration, error) {
	if text == "never" {
		return liveness.Never, nil
	}
	d, err := strictyaml.DurationIn(text, time.Millisecond, aYear, false)
	if err != nil {
		err = fmt.Errorf("%w, or never", err)
	}
	return d, err
}

// policy stores a policy of a group or a device, whose timeout is unknown if it has none.
func policy(p *liveness.Policy) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		d.Mapping(path, n, policyFields(p))
		checkPolicy(d, path, *p, 0)
	}}
}

// quiet stores a list of windows of the day.
func quiet(text *string) strictyaml.Setter {
	return strictyaml.Setter{To: text, Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		var windows []string
		before := d.Mistakes()
		strictyaml.List(&windows, `write a window, as in ["22:00-06:00 Europe/Berlin"]`, parseQuiet).Read(d, path, n)
		if d.Mistakes() > before {
			return
		}
		joined, err := judgement.ParseQuiet(windows)
		if err != nil { // of all together
			d.Fail(path, n, "%v", err)
			return
		}
		*text = joined
	}}
}

func parseExpect(text string) (string, error) { return judgement.ParseExpect(text, "") }

func parseQuiet(window string) (string, error) { return judgement.ParseQuiet([]string{window}) }

// checkPolicy compares the durations of a policy that was read with its timeout. timeout is the default; 0 if
// it is unknown.
func checkPolicy(d *strictyaml.Reader, path string, p liveness.Policy, timeout time.Duration) {
	limit := duration.String(p.Timeout)
	if !d.Has(strictyaml.Join(path, "timeout")) {
		if p.Expect != "" {
			timeout = time.Hour
		}
		p.Timeout, limit = timeout, duration.String(timeout)+", the default"
	}
	fail := func(key, format string, args ...any) {
		d.FailAt(strictyaml.Join(path, key), fmt.Sprintf(format, args...))
	}
	if p.Timeout == 0 {
		return
	}
	if p.LateAfter >= p.Timeout {
		fail("late_after", "%s is not shorter than the timeout (%s): a device would be offline before it is late", duration.String(p.LateAfter), limit)
	}
	if p.Interval >= p.Timeout && p.Expect == "" {
		fail("interval", "%s is not shorter than the timeout (%s): a device would go offline between two heartbeats", duration.String(p.Interval), limit)
	}
	wait := cmp.Or(p.ProbeWait, defaultProbeWait)
	if span := time.Duration(p.Probes) * wait; span >= p.Timeout {
		fail("probes", "%d × probe_wait (%s) is not shorter than the timeout (%s), but the first question comes so long before the verdict", p.Probes, duration.String(wait), limit)
	}
}

// devices stores the policies of single devices.
func devices(all *map[string]liveness.Policy) strictyaml.Setter {
	return strictyaml.Setter{To: all, Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		pairs := d.Pairs(path, n)
		if len(pairs) == 0 {
			return
		}
		*all = make(map[string]liveness.Policy, len(pairs))
		for _, pair := range pairs {
			id, err := strictyaml.Label("device id", pair.Key, 128)
			if err != nil {
				d.Fail(path, pair.At, "%v", err)
				continue
			}
			var p liveness.Policy
			policy(&p).Read(d, devicePath(path, id), pair.Value)
			(*all)[id] = p
		}
	}}
}

func devicePath(path, id string) string { return fmt.Sprintf("%s[%q]", path, id) }

func flappingFields(f *liveness.FlappingConfig) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("threshold", strictyaml.Number(&f.Threshold, 2, 64), "5", "number of changes of state that make a device flapping"),
		strictyaml.Key("window", strictyaml.Span(&f.Window, time.Second, aYear), "10m", "time within which they happen"),
	}
}

func sourceFields(s *liveness.SourceConfig) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("reconnect_grace", strictyaml.Span(&s.ReconnectGrace, time.Millisecond, aYear), "10s",
			"listening time, beyond its own interval, that each device has to come back after a cut (a restart, a lost broker) before it can be judged"),
		strictyaml.Key("reconnect_grace_max", strictyaml.Span(&s.ReconnectGraceMax, time.Millisecond, aYear), "5m",
			"upper bound of interval and grace together; all gaps since a device's last heartbeat delay its verdict by at most three times their sum"),
	}
}
