package loadgen_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/loadgen"
)

// storyOf is a fleet that does a little of everything.
func storyOf(target string) *plan.Plan {
	p := &plan.Plan{
		Name: "a little of everything", Devices: 40, Targets: []string{target}, Interval: 500 * time.Millisecond, Timeout: 4 * time.Second,
		Grace: 2 * time.Second, Ramp: 5000, Backoff: 100 * time.Millisecond, BackoffMax: time.Second,
		Phases: []plan.Phase{{Name: "all", Length: 10 * time.Second, Acts: []plan.Act{
			{Kind: plan.Silent, Count: 6, After: 500 * time.Millisecond},
			{Kind: plan.Close, Count: 6, After: 700 * time.Millisecond, Back: 5500 * time.Millisecond},
			{Kind: plan.Bye, Count: 4, After: 800 * time.Millisecond, Back: 4 * time.Second},
			{Kind: plan.Crash, Count: 4, After: 900 * time.Millisecond, Back: 7500 * time.Millisecond},
			{Kind: plan.Reset, Count: 4, After: 2 * time.Second, Back: 100 * time.Millisecond},
			{Kind: plan.Duplicate, Count: 2, After: 2500 * time.Millisecond},
		}}},
	}
	p.Fill()
	return p
}

// withSignal is the same fleet, whose gateway is stopped for a moment, so that it may have been deaf.
func withSignal(p *plan.Plan) {
	p.Phases[0].Acts = append(p.Phases[0].Acts, plan.Act{Kind: plan.Signal, After: 500 * time.Millisecond, Back: time.Second})
}

// lieCase is a gateway, and what is to be said of it: names of mistakes, or words of the reasons. No names: it is honest.
type lieCase struct {
	name  string
	lie   lie
	names []string
	plan  func(p *plan.Plan)
}

// change makes a lie of changing what is said of a kind.
func change(kind string, f func(s *saying)) lie {
	return lie{says: func(_ *liar, s saying) []saying {
		if s.kind == kind {
			f(&s)
		}
		return []saying{s}
	}}
}

// drop makes a lie of not saying something; what is said later has the numbers that follow then, unless they are to show.
func drop(gap bool, is func(g *liar, s saying) bool) lie {
	return lie{says: func(g *liar, s saying) []saying {
		if !is(g, s) {
			return []saying{s}
		}
		if !gap {
			g.tenants[s.device].seq--
		}
		return nil
	}}
}

// falsely makes a lie of calling a device offline that is alive, once, some time after the beginning.
func falsely(f func(s *saying)) lie {
	return lie{each: func(g *liar, now time.Time) {
		if g.since() < 4*time.Second || g.marks["falsely"] > 0 {
			return
		}
		for id, d := range g.tenants {
			if d.state != "online" || now.Sub(d.last) > time.Second || d.epoch > 1 {
				continue
			}
			g.marks["falsely"]++
			d.seq++
			s := saying{
				kind: "device.offline", device: id, source: "line", reason: "silence", seq: d.seq, epoch: d.epoch, at: now, deadline: now, lastSeen: d.last,
				id: fmt.Sprintf("%s:%d", id, d.seq),
			}
			f(&s)
			g.later(s)
			g.say(id, "device.online", "", time.Time{})
			return
		}
	}}
}

// isOffline reports whether something is a verdict.
func isOffline(s saying) bool { return s.kind == "device.offline" }

func half(device string) bool { return (device[len(device)-1]-'0')%2 == 0 }

func honestCases() []lieCase {
	return []lieCase{
		{name: "honest"},
		{name: "honest, 50 ms ahead", lie: lie{skew: 50 * time.Millisecond}},
		{name: "honest, 50 ms behind", lie: lie{skew: -50 * time.Millisecond}},
		{name: "honest, 200 ms ahead", lie: lie{skew: 200 * time.Millisecond}},
		{name: "honest, 200 ms behind", lie: lie{skew: -200 * time.Millisecond}},
		{name: "honest, and tells of a silence that was not waited for", lie: change("device.offline", func(s *saying) {
			s.timeout, s.heard = 4*time.Second, s.at.Sub(s.lastSeen)
			if s.reason == "bye" {
				s.deadline = s.lastSeen.Add(s.timeout)
			}
		})},
		{name: "honest, and forgot in a restart which connections had ended", plan: func(p *plan.Plan) {
			withSignal(p)
			p.Grace = 500 * time.Millisecond
		}, lie: lie{each: func(g *liar, _ time.Time) {
			for _, d := range g.tenants {
				if g.since() < 3*time.Second {
					d.closed = time.Time{}
				}
			}
			if g.since() > 3*time.Second && g.once("restart") {
				g.source("source.heard", time.Now(), 50*time.Millisecond)
			}
		}}},
		{name: "honest, an hour ahead", lie: lie{skew: time.Hour}},
		{name: "honest, with a log that is not new", lie: lie{used: 100}},
		{name: "honest, with a fleet that was there a moment ago", lie: lie{used: 100, resident: true, skew: time.Minute}},
		{name: "honest, and restarted", plan: withSignal, lie: lie{each: func(g *liar, _ time.Time) {
			if g.since() > 3*time.Second && g.once("restart") {
				g.source("source.deaf", time.Now().Add(-50*time.Millisecond), 50*time.Millisecond)
				g.source("source.heard", time.Now(), 50*time.Millisecond)
				g.restart()
			}
		}}},
	}
}

// moved is a gateway that judges nobody because it moves all devices to a source that is deaf from an instant on.
func moved(deafFrom time.Duration) lie {
	return lie{
		blind: func(*liar) bool { return true },
		each: func(g *liar, now time.Time) {
			if g.since() >= deafFrom && g.once("void") {
				g.write(saying{kind: "source.deaf", source: "void", at: now, seq: 1})
			}
			if g.since() > max(deafFrom, time.Second) && len(g.tenants) == g.p.Devices && g.once("moved") {
				for id := range g.tenants {
					g.say(id, "device.changed", "", time.Time{})
				}
			}
		},
		says: func(_ *liar, s saying) []saying {
			if s.kind == "device.changed" {
				s.source = "void"
			}
			return []saying{s}
		},
	}
}

// deafCases are lies about listening.
func deafCases() []lieCase {
	deafen := func(g *liar, now time.Time) {
		if g.since() > time.Second && g.once("deaf") {
			g.source("source.deaf", now, 0)
		}
	}
	never := func(*liar) bool { return true }
	return []lieCase{
		{name: "deaf once, and judges nobody", names: []string{"deaf at the end", "deaf for"}, lie: lie{
			blind: never, each: deafen,
		}},
		{name: "deaf without end, where it may be for a while", plan: withSignal, names: []string{"deaf at the end", "deaf while it answered"}, lie: lie{
			blind: never, each: deafen,
		}},
		{name: "deaf while it answered, where it may be for a while", plan: withSignal, names: []string{"deaf while it answered"}, lie: lie{
			blind: func(g *liar) bool { return g.since() < 11*time.Second }, each: func(g *liar, now time.Time) {
				if g.since() > 11*time.Second && g.once("told") {
					g.source("source.heard", now, 10*time.Second)
				}
			},
		}},
		{name: "deaf again and again", names: []string{"deaf for"}, lie: lie{blind: never, each: func(g *liar, now time.Time) {
			if n := int(g.since() / (500 * time.Millisecond)); n > g.marks["again"] {
				g.marks["again"] = n
				g.source("source.heard", now, 450*time.Millisecond)
			}
		}}},
		{name: "one deaf time told in many forms", names: []string{"deaf for"}, lie: lie{blind: never, each: func(g *liar, now time.Time) {
			if g.since() > 3*time.Second && g.once("told") {
				for i := range 100 {
					g.source("source.heard", now.Add(-time.Duration(i)*20*time.Millisecond), time.Second)
				}
			}
		}}},
		{name: "deaf at a source that devices are moved to", names: []string{"deaf at the end"}, lie: moved(time.Second)},
		{name: "deaf before anybody followed, at a source that devices are moved to", names: []string{"deaf at the end"}, lie: moved(0)},
		{name: "deaf long after it was stopped", names: []string{"deaf unasked"}, plan: func(p *plan.Plan) {
			withSignal(p)
			p.Phases[0].Length = 36 * time.Second
		}, lie: lie{each: func(g *liar, now time.Time) {
			if g.since() > 35*time.Second && g.once("told") {
				g.source("source.heard", now, time.Second)
			}
		}}},
		{name: "deaf at two sources while it answered, where it may be for a while", plan: withSignal, names: []string{"deaf while it answered"}, lie: lie{
			blind: func(g *liar) bool { return g.since() < 11*time.Second },
			says: func(_ *liar, s saying) []saying {
				if half(s.device) {
					s.source = "other"
				}
				return []saying{s}
			},
			each: func(g *liar, now time.Time) {
				if g.since() > 11*time.Second && g.once("told") {
					g.source("source.heard", now, 10*time.Second)
					g.write(saying{kind: "source.heard", source: "other", at: now, deaf: 9 * time.Second, seq: 1})
				}
			},
		}},
		{name: "deaf for less than no time", names: []string{"missed offline"}, lie: lie{blind: never, each: func(g *liar, now time.Time) {
			if g.since() > time.Second && g.once("told") {
				g.source("source.heard", now, -time.Hour)
				g.source("source.deaf", now, -time.Hour)
				g.source("source.heard", now, 0)
			}
		}}},
	}
}

// behindCases are gateways that say that their clock is behind.
func behindCases() []lieCase {
	// From the third second on, a clock stands still for 8 s.
	stands := func(g *liar) bool { return g.since() > 3*time.Second && g.since() < 11*time.Second }
	behind := func(g *liar) time.Duration {
		if stands(g) {
			return g.since() - 3*time.Second
		}
		return 0
	}
	returns := func(_ *liar, s saying) bool { return isOffline(s) && s.reason == "closed" }
	noneStays := func(p *plan.Plan) {
		p.Phases[0].Length, p.Phases[0].Acts = 16*time.Second, p.Phases[0].Acts[1:3]
		p.Phases[0].Acts[1].Count = 16
	}
	return []lieCase{
		{name: "honest, and behind while devices are back", plan: noneStays, lie: lie{
			blind: stands, lag: behind,
		}},
		{name: "judges nobody for a while, and is in time", plan: noneStays, names: []string{"missed offline"}, lie: lie{
			blind: stands, lag: func(*liar) time.Duration { return 0 },
		}},
		{name: "says that it is behind, and judges those that are not back", names: []string{"missed offline"}, lie: lie{
			says: drop(false, returns).says, lag: func(*liar) time.Duration { return time.Hour },
		}},
		{name: "behind for an hour, and judges nobody", names: []string{"missed offline"}, lie: lie{
			blind: func(*liar) bool { return true }, lag: func(*liar) time.Duration { return time.Hour },
		}},
	}
}

// verdictCases are lies about who is there.
func verdictCases() []lieCase {
	anHour := func(s *saying) { s.at, s.deadline = s.at.Add(time.Hour), s.deadline.Add(time.Hour) }
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	return []lieCase{
		{name: "false offline", lie: falsely(func(*saying) {}), names: []string{"false offline"}},
		{name: "false offline, an hour from now", lie: falsely(anHour), names: []string{"false offline", "from the future"}},
		{name: "false offline in the year 9999", lie: falsely(func(s *saying) { s.at, s.deadline = year(9999), year(9999) }), names: []string{"false offline", "from the future"}},
		{name: "false offline in the year 2", lie: falsely(func(s *saying) { s.at, s.deadline = year(2), year(2) }), names: []string{"false offline", "time going back"}},
		{name: "false offline from before the last heartbeat", lie: falsely(func(s *saying) {
			s.at, s.deadline = s.lastSeen.Add(-time.Millisecond), s.lastSeen.Add(-time.Millisecond)
		}), names: []string{"false offline"}},
		{name: "false offline, and its clock cannot be told", names: []string{"false offline"}, lie: func() lie {
			l := falsely(func(*saying) {})
			n := 0
			l.stats = func(now time.Time) time.Time {
				n++
				return now.Add(time.Duration(n%3-1) * 10 * time.Second)
			}
			return l
		}()},
		{name: "all verdicts an hour from now", lie: change("device.offline", anHour), names: []string{"from the future"}},
		{name: "each verdict 8 s late, stamped in time", names: []string{"late"}, lie: change("device.offline", func(s *saying) {
			s.delay = 8 * time.Second
			if !s.deadline.IsZero() {
				s.at = s.deadline.Add(10 * time.Millisecond)
			}
		})},
		{name: "verdicts 4 s after the return, stamped in time", names: []string{"false offline", "overtaken"}, lie: lie{
			says: func(g *liar, s saying) []saying {
				switch {
				case !isOffline(s) || s.reason == "bye":
				case s.reason == "closed": // back after 4 s
					s.delay = 8 * time.Second
				default:
					s.delay = 6 * time.Second
				}
				return []saying{s}
			},
		}},
		{name: "half of the timeout", lie: lie{timeout: 2 * time.Second}, names: []string{"false offline", "early"}},
		{name: "half of the timeout, stamped with all of it", names: []string{"from the future", "false offline"}, lie: func() lie {
			l := change("device.offline", func(s *saying) {
				if s.reason == "silence" {
					s.at, s.deadline = s.at.Add(2*time.Second), s.deadline.Add(2*time.Second)
				}
			})
			l.timeout = 2 * time.Second
			return l
		}()},
		{name: "verdicts before their own deadlines", names: []string{"contradiction"}, lie: change("device.offline", func(s *saying) {
			s.deadline = s.at.Add(time.Second)
		})},
		{name: "three times the timeout", lie: lie{timeout: 12 * time.Second}, names: []string{"late"}},
		{name: "judges nobody", lie: lie{blind: func(*liar) bool { return true }}, names: []string{"missed offline"}},
		{name: "answers without hearing", lie: lie{deafTo: half}, names: []string{"false offline"}},
		{name: "says that the silent sleep", names: []string{"missed offline"}, lie: lie{says: func(_ *liar, s saying) []saying {
			if isOffline(s) {
				s.kind, s.reason = "device.sleeping", ""
			}
			return []saying{s}
		}}},
		{name: "reasons swapped", names: []string{"wrong reason"}, lie: change("device.offline", func(s *saying) {
			s.reason = map[string]string{"silence": "closed", "closed": "bye", "bye": "silence"}[s.reason]
		})},
		{name: "will as the reason for all", names: []string{"wrong reason"}, lie: change("device.offline", func(s *saying) { s.reason = "will" })},
		{name: "admin as the reason of closed ones", names: []string{"wrong reason"}, lie: change("device.offline", func(s *saying) {
			if s.reason == "closed" {
				s.reason = "admin"
			}
		})},
		{name: "verdicts on other devices", names: []string{"false offline", "missed offline"}, lie: change("device.offline", func(s *saying) {
			last := '0' + (s.device[len(s.device)-1]-'0'+1)%10
			s.device = s.device[:len(s.device)-1] + string(last)
			s.id = fmt.Sprintf("%s:%d", s.device, s.seq)
		})},
		{name: "verdicts on strangers", names: []string{"missed offline", "stranger"}, lie: change("device.offline", func(s *saying) { s.device = "x" + s.device })},
		{name: "silent after a while", names: []string{"missed offline"}, lie: drop(false, func(g *liar, _ saying) bool { return g.since() > 2*time.Second })},
	}
}

// silenceCases are lies about a silence that was judged rightly.
func silenceCases() []lieCase {
	tells := func(f func(s *saying)) lie {
		return change("device.offline", func(s *saying) {
			s.timeout, s.heard = 4*time.Second, s.at.Sub(s.lastSeen)
			f(s)
		})
	}
	contradiction := []string{"contradiction"}
	return []lieCase{
		{name: "last seen a second later than it was", names: contradiction, lie: tells(func(s *saying) { s.lastSeen = s.lastSeen.Add(time.Second) })},
		{name: "last seen an hour from now", names: contradiction, lie: tells(func(s *saying) { s.lastSeen = s.lastSeen.Add(time.Hour) })},
		{name: "last seen 3 s earlier than it was", names: contradiction, lie: tells(func(s *saying) { s.lastSeen = s.lastSeen.Add(-3 * time.Second) })},
		{name: "a longer timeout than it was", names: contradiction, lie: tells(func(s *saying) { s.timeout = 8 * time.Second })},
		{name: "a shorter timeout than it was", names: contradiction, lie: tells(func(s *saying) { s.timeout = time.Second })},
		{name: "less silence than the timeout", names: contradiction, lie: tells(func(s *saying) { s.heard = time.Second })},
	}
}

// ghost makes a lie of calling devices online that had their verdict a moment ago.
func ghost(reason string) lie {
	said := map[string]time.Time{}
	return lie{
		says: func(_ *liar, s saying) []saying {
			if isOffline(s) && s.reason == reason {
				said[s.device] = s.at
			}
			return []saying{s}
		},
		each: func(g *liar, now time.Time) {
			for id, at := range said {
				if d := g.tenants[id]; d.state == "offline" && now.Sub(at) > 300*time.Millisecond && g.once(id) {
					d.epoch++
					g.say(id, "device.online", "", time.Time{})
					d.state = "gone"
				}
			}
		},
	}
}

// presenceCases are lies about who is back.
func presenceCases() []lieCase {
	nobody := drop(false, func(*liar, saying) bool { return true })
	used := func(state string, seen func(g *liar) time.Time) lie {
		l := nobody
		l.used = 100
		l.knows = func(g *liar, _ string) (string, time.Time) { return state, seen(g) }
		l.blind = func(*liar) bool { return true }
		return l
	}
	now := func(*liar) time.Time { return time.Now() }
	onlySteady := func(p *plan.Plan) { p.Phases[0].Acts, p.Phases[0].Length = nil, 2*time.Second }
	return []lieCase{
		{name: "half of the devices only", names: []string{"never online", "missed offline"}, lie: drop(false, func(_ *liar, s saying) bool { return half(s.device) })},
		{name: "half of the devices only, with a log that is not new", names: []string{"never online"}, plan: onlySteady, lie: func() lie {
			l := drop(false, func(_ *liar, s saying) bool { return half(s.device) })
			l.used = 100
			l.knows = func(g *liar, device string) (string, time.Time) {
				if half(device) {
					return "", time.Time{}
				}
				return "online", time.Now()
			}
			return l
		}()},
		{name: "announces nobody, with a log that is not new, and does not know them", names: []string{"never online"}, plan: onlySteady, lie: used("", now)},
		{name: "the same, and holds them for offline", names: []string{"never online"}, plan: onlySteady, lie: used("offline", now)},
		{name: "the same, and heard them an hour ago", names: []string{"never online"}, plan: onlySteady, lie: used("online", func(*liar) time.Time {
			return time.Now().Add(-time.Hour)
		})},
		{name: "returns never announced", names: []string{"stuck"}, lie: drop(false, func(g *liar, s saying) bool {
			return s.kind == "device.online" && s.seq > 1
		})},
		{name: "returns announced 6 s later", names: []string{"late"}, lie: lie{says: func(_ *liar, s saying) []saying {
			if s.kind == "device.online" && s.seq > 1 {
				s.delay = 6 * time.Second
			}
			return []saying{s}
		}}, plan: func(p *plan.Plan) { p.Phases[0].Length = 14 * time.Second }},
		{name: "online while away", names: []string{"false online"}, plan: func(p *plan.Plan) { p.Phases[0].Length = 14 * time.Second }, lie: lie{
			each: func(g *liar, now time.Time) {
				for id, d := range g.tenants {
					if d.state == "offline" && now.Sub(d.last) > 6*time.Second && g.once(id) {
						g.say(id, "device.online", "", time.Time{})
						d.state = "gone"
					}
				}
			},
		}},
		{name: "online a moment after goodbyes", names: []string{"false online"}, lie: ghost("bye")},
		{name: "online a moment after the end of connections", names: []string{"false online"}, lie: ghost("closed")},
		{name: "online for good after the end of connections", names: []string{"false online"}, lie: ghost("closed"), plan: func(p *plan.Plan) {
			p.Phases[0].Acts[1].Back = 0
		}},
		{name: "a session replaced while there is none", names: []string{"contradiction"}, lie: lie{says: func(g *liar, s saying) []saying {
			if !isOffline(s) {
				return []saying{s}
			}
			again := s
			again.kind, again.reason, again.deadline = "device.session_replaced", "", time.Time{}
			return []saying{s, again.next(g)}
		}}},
		{name: "forgets a device", names: []string{"forgotten"}, lie: lie{each: func(g *liar, _ time.Time) {
			if g.since() > 2*time.Second && g.once("forget") {
				for id := range g.tenants {
					g.say(id, "device.forgotten", "", time.Time{})
					return
				}
			}
		}}},
	}
}

// next is what is said after that.
func (s saying) next(g *liar) saying {
	d := g.tenants[s.device]
	d.seq++
	s.seq, s.id = d.seq, fmt.Sprintf("%s:%d", s.device, d.seq)
	return s
}

// numberCases are lies about the log.
func numberCases() []lieCase {
	all := func(f func(s *saying)) lie {
		return lie{says: func(_ *liar, s saying) []saying {
			f(&s)
			return []saying{s}
		}}
	}
	replay := func(g *liar, from int, renumber bool) {
		for _, s := range slices.Clone(g.log[from:]) {
			if renumber {
				s.offset = 0
			}
			g.write(s)
		}
	}
	return []lieCase{
		{name: "no numbers", names: []string{"incomplete event"}, lie: all(func(s *saying) { s.seq = 0 })},
		{name: "no sessions", names: []string{"incomplete event"}, lie: all(func(s *saying) { s.epoch = 0 })},
		{name: "no reasons", names: []string{"incomplete event"}, lie: all(func(s *saying) { s.reason = "" })},
		{name: "no deadlines", names: []string{"incomplete event"}, lie: all(func(s *saying) { s.deadline = time.Time{} })},
		{name: "no times", names: []string{"incomplete event"}, lie: all(func(s *saying) { s.at = time.Time{} })},
		{name: "ids of other numbers", names: []string{"incomplete event"}, lie: all(func(s *saying) { s.id = fmt.Sprintf("%s:%d", s.device, s.seq+1) })},
		{name: "sessions going back", names: []string{"order violation"}, lie: all(func(s *saying) { s.epoch = 100 - s.epoch })},
		{name: "one session for ever", names: []string{"order violation"}, lie: all(func(s *saying) { s.epoch = 1 })},
		{name: "a number left out", names: []string{"sequence gap"}, lie: drop(true, func(_ *liar, s saying) bool { return isOffline(s) && s.reason == "bye" })},
		{name: "4294967296 numbers left out", names: []string{"sequence gap"}, lie: all(func(s *saying) {
			if s.seq > 1 {
				s.seq += 1 << 32
				s.id = fmt.Sprintf("%s:%d", s.device, s.seq)
			}
		})},
		{name: "numbers in the wrong order", names: []string{"order violation"}, lie: all(func(s *saying) {
			if s.seq == 2 || s.seq == 3 {
				s.seq = 5 - s.seq
				s.id = fmt.Sprintf("%s:%d", s.device, s.seq)
			}
		})},
		{name: "each event twice", names: []string{"duplicate"}, lie: lie{says: func(_ *liar, s saying) []saying { return []saying{s, s} }}},
		{name: "each verdict twice, with numbers of their own", names: []string{"duplicate", "contradiction"}, lie: lie{says: func(g *liar, s saying) []saying {
			if !isOffline(s) {
				return []saying{s}
			}
			return []saying{s, s.next(g)}
		}}},
		{name: "each return twice, with numbers of their own", names: []string{"contradiction"}, lie: lie{says: func(g *liar, s saying) []saying {
			if s.kind != "device.online" {
				return []saying{s}
			}
			return []saying{s, s.next(g)}
		}}},
		{name: "times going back", names: []string{"time going back"}, lie: change("device.online", func(s *saying) {
			if s.seq > 1 {
				s.at = s.at.Add(-10 * time.Second)
			}
		})},
		{name: "late while offline", names: []string{"contradiction"}, lie: lie{says: func(g *liar, s saying) []saying {
			if !isOffline(s) {
				return []saying{s}
			}
			again := s
			again.kind, again.reason = "device.late", ""
			return []saying{s, again.next(g)}
		}}},
		{name: "places of the log left out", names: []string{"log gap"}, lie: lie{says: func(g *liar, s saying) []saying {
			if isOffline(s) {
				s.offset = g.log[len(g.log)-1].offset + 3
			}
			return []saying{s}
		}}},
		{name: "places of the log told again", names: []string{"log going back", "duplicate"}, lie: lie{each: func(g *liar, _ time.Time) {
			if g.since() > 5*time.Second && g.once("replay") {
				replay(g, len(g.log)-5, false)
			}
		}}},
		{name: "old events replayed after a restart", names: []string{"duplicate"}, plan: withSignal, lie: lie{each: func(g *liar, _ time.Time) {
			if g.since() > 5*time.Second && g.once("replay") {
				g.restart()
				replay(g, 0, true)
			}
		}}},
		{name: "its log is empty after a restart", names: []string{"log going back"}, plan: withSignal, lie: lie{each: func(g *liar, _ time.Time) {
			if g.since() > 4*time.Second && g.once("restart") {
				g.restart()
				id := slices.Sorted(maps.Keys(g.tenants))[0]
				g.say(id, "device.changed", "", time.Time{})
				g.log[len(g.log)-1].offset = 1
			}
		}}},
		{name: "its log is truncated", names: []string{"events were missed"}, lie: lie{each: func(g *liar, _ time.Time) {
			if g.since() > 4*time.Second && g.once("truncate") {
				g.write(saying{kind: "missed", offset: g.log[len(g.log)-1].offset + 3})
			}
		}}},
		{name: "verdicts that cannot be read", names: []string{"missed offline"}, lie: lie{says: func(_ *liar, s saying) []saying {
			s.torn = isOffline(s)
			return []saying{s}
		}}},
	}
}

// The judge catches each lie by its name, and lets the honest pass.
func TestLies(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(honestCases(), deafCases(), behindCases(), verdictCases(), silenceCases(), presenceCases(), numberCases()) {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, c.judged) })
	}
}

// judged plays a fleet against a gateway.
func (c *lieCase) judged(t *testing.T) {
	p := storyOf("127.0.0.1:1")
	if c.plan != nil {
		c.plan(p)
	}
	g := begin(t, p, c.lie)
	h, url := g.follower(t)
	f, err := loadgen.Run(t.Context(), loadgen.With(loadgen.Config{
		Plan: p, Limits: loadgen.DefaultLimits(p), Followers: []loadgen.Follower{{Follower: h, URL: url, Knows: h.Knows}},
	}, g.devices.players))
	g.end()
	c.check(t, f, err)
}

func (c *lieCase) check(t *testing.T, f *report.Final, err error) {
	t.Helper()
	if f == nil || f.Verdicts == nil {
		t.Fatalf("there is no report: %v", err)
	}
	var text strings.Builder
	if err := report.WriteSummary(&text, f); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", &text)
	wrong, ok := errors.AsType[*loadgen.Error](err)
	switch {
	case len(c.names) == 0 && err != nil:
		t.Errorf("it is honest, and does not pass: %v", err)
	case len(c.names) > 0 && (!ok || wrong.Status != loadgen.StatusFailed):
		t.Errorf("Run = %v, want status %d", err, loadgen.StatusFailed)
	}
	for _, name := range c.names {
		i := slices.IndexFunc(f.Verdicts.Mistakes, func(m report.Mistake) bool { return m.Name == name })
		switch {
		case i >= 0 && f.Verdicts.Mistakes[i].Count > 0:
		case i < 0 && err != nil && strings.Contains(err.Error(), name):
		default:
			t.Errorf("it is not called %q", name)
		}
	}
	if skew := time.Duration(f.Verdicts.Clocks[0].Skew); c.lie.stats == nil && (skew-c.lie.skew).Abs() > 20*time.Millisecond {
		t.Errorf("the clock is said to be %v ahead, want %v", skew, c.lie.skew)
	}
	if len(c.names) == 0 && f.Verdicts.Right < 15 && c.lie.used == 0 {
		t.Errorf("%d verdicts are right", f.Verdicts.Right)
	}
}
