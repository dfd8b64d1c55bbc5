package score_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

// at is an instant of the tables: seconds after an arbitrary one, in whole microseconds.
func at(seconds float64) time.Time {
	return time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Add(time.Duration(math.Round(seconds*1e6)) * time.Microsecond)
}

// fleet is a plan with a timeout of 10 s and a grace of 2 s.
func fleet(devices int) *plan.Plan {
	return &plan.Plan{
		Name: "test", Devices: devices, ID: "d-%d", Protocol: plan.Line, Interval: 3 * time.Second, Timeout: 10 * time.Second, Grace: 2 * time.Second,
	}
}

// did was done to device 0 a second after its last sign of life; back 0: it is not back.
func did(k plan.Kind, when, back float64) plan.Truth {
	t := plan.Truth{Kind: k, At: at(when), Last: at(when - 1), Connected: true}
	if back != 0 {
		t.Back = at(back)
	}
	return t
}

func cut(when, back float64) plan.Truth {
	t := did(0, when, back)
	return plan.Truth{At: t.At, Last: t.Last, Back: t.Back, Cause: "closed by peer"}
}

const (
	here  = "http://a"
	there = "http://b"
)

// on, off and other are said of device 0; numbered gives them numbers from 1. off has the deadline that it was decided at.
func on(when float64) score.Verdict {
	return score.Verdict{URL: here, Source: "line", Device: "d-0", Kind: score.Online, Time: at(when), Seen: at(when)}
}

func off(reason string, when float64) score.Verdict {
	v := on(when)
	v.Kind, v.Reason, v.Deadline = score.Offline, reason, v.Time
	return v
}

func other(k score.Kind, when float64) score.Verdict {
	v := on(when)
	v.Kind = k
	return v
}

// plain is off without a deadline, as brokers say it.
func plain(reason string, when float64) score.Verdict {
	v := off(reason, when)
	v.Deadline = time.Time{}
	return v
}

// across is said by another gateway.
func across(v score.Verdict) score.Verdict {
	v.URL = there
	return v
}

func numbered(list ...score.Verdict) []score.Verdict {
	next := make(map[string]uint64)
	for i := range list {
		next[list[i].URL]++
		list[i].Seq = next[list[i].URL]
	}
	return list
}

func order(list []score.Verdict, places ...int) []score.Verdict {
	var out []score.Verdict
	for _, p := range places {
		out = append(out, list[p])
	}
	return out
}

type count = map[string]uint64

// found are the figures of a report that are not 0.
func found(r score.Report) count {
	c := make(count)
	for name, n := range map[string]uint64{"right": r.Right, "excused": r.Excused, "waiting": r.Waiting, "unjudged": r.Unjudged} {
		if n > 0 {
			c[name] = n
		}
	}
	for name, m := range map[string]score.Mistake{
		"false": score.FalseOffline, "early": score.EarlyOffline, "replaced": score.OldConnection, "missed": score.MissedOffline,
		"reason": score.WrongReason, "order": score.Order, "gaps": score.Gaps, "duplicates": score.Duplicates, "never": score.NeverOnline,
		"stuck": score.Stuck, "overtaken": score.Overtaken, "timeout": score.AnotherTimeout, "strangers": score.Strangers,
		"false online": score.FalseOnline, "late": score.TooLate, "future": score.Future, "backwards": score.Backwards,
		"contradictions": score.Contradictions, "lacking": score.Lacking, "forgotten": score.Removed, "log gaps": score.LogGaps,
		"log order": score.LogOrder, "deaf answered": score.DeafAnswered, "deaf unasked": score.DeafUnasked,
	} {
		if n := r.Figures[m].Count; n > 0 {
			c[name] = n
		}
	}
	return c
}

type scoreCase struct {
	name  string
	truth []any // plan.Truth, unknown
	said  []score.Verdict
	want  count
}

func TestScore(t *testing.T) {
	for _, cases := range [][]scoreCase{verdictCases(), returnCases(), lostCases(), aliveCases(), brokerCases(), numberCases(), deafCases(), elsewhereCases(), unknownCases(), attemptCases(), behindCases()} {
		for _, c := range cases {
			for _, mode := range []string{"truth first", "verdicts first", "judged meanwhile"} {
				t.Run(c.name+"/"+mode, func(t *testing.T) {
					s, err := score.New(fleet(1), 0)
					if err != nil {
						t.Fatal(err)
					}
					s.Verdict(score.Verdict{URL: here, Kind: score.Following})
					truth := func() {
						for _, x := range c.truth {
							add(s, x)
						}
					}
					if mode != "verdicts first" {
						truth()
					}
					for _, v := range c.said {
						s.Verdict(v)
					}
					if mode == "verdicts first" {
						truth()
					}
					if mode == "judged meanwhile" {
						for i := range 30 {
							s.JudgeUntil(at(float64(10 * i)))
						}
					}
					r := s.Finish(at(300))
					if got := found(r); !maps.Equal(got, c.want) {
						b, _ := json.MarshalIndent(r, "", " ")
						t.Errorf("found %v, want %v\n%s", got, c.want, b)
					}
				})
			}
		}
	}
}

func add(s *score.Score, x any) {
	switch x := x.(type) {
	case plan.Truth:
		s.Add(x)
	case unknown:
		s.Unknown(plan.Range{From: -1, To: 7}, at(float64(x)))
	default:
		panic(fmt.Sprintf("%T is no truth", x))
	}
}

func verdictCases() []scoreCase {
	of := func(k plan.Kind) []any { return []any{did(k, 50, 0)} }
	return []scoreCase{
		{"well", nil, numbered(on(0)), count{}},
		{"silence", of(plan.Silent), numbered(on(0), off("silence", 59)), count{"right": 1}},
		{"crash", of(plan.Crash), numbered(on(0), off("silence", 59)), count{"right": 1}},
		{"closed", of(plan.Close), numbered(on(0), off("closed", 52)), count{"right": 1}},
		{"reset", of(plan.Reset), numbered(on(0), off("closed", 52.5)), count{"right": 1}},
		{"bye", of(plan.Bye), numbered(on(0), off("bye", 50)), count{"right": 1}},
		{"never told", nil, numbered(on(0), off("silence", 100), on(101)), count{"false": 1}},
		{"before it was told", of(plan.Silent), numbered(on(0), off("silence", 40), on(41), off("silence", 59)), count{"false": 1, "right": 1}},
		{"1 µs early", of(plan.Silent), numbered(on(0), off("silence", 59-1e-6)), count{"false": 1, "early": 1}},
		{"closed without grace", of(plan.Close), numbered(on(0), off("closed", 50)), count{"false": 1, "early": 1}},
		{"missed silence", of(plan.Silent), numbered(on(0)), count{"missed": 1}},
		{"missed closed", of(plan.Close), numbered(on(0)), count{"missed": 1}},
		{"missed bye", of(plan.Bye), numbered(on(0)), count{"missed": 1}},
		{"late is no fault", of(plan.Silent), numbered(on(0), off("silence", 99)), count{"right": 1}},
		{"silence called closed", of(plan.Silent), numbered(on(0), off("closed", 59)), count{"reason": 1}},
		{"closed called silence", of(plan.Close), numbered(on(0), off("silence", 59)), count{"reason": 1}},
		{"closed called silence at once", of(plan.Close), numbered(on(0), off("silence", 52)), count{"reason": 1}},
		{"bye called closed", of(plan.Bye), numbered(on(0), off("closed", 52)), count{"reason": 1}},
		{"bye called silence", of(plan.Bye), numbered(on(0), off("silence", 59)), count{"reason": 1}},
		{"unheard-of reason", of(plan.Silent), numbered(on(0), off("admin", 59)), count{"reason": 1}},
		{"no reason", of(plan.Silent), numbered(on(0), off("", 59)), count{"right": 1}},
		{"will", of(plan.Close), numbered(on(0), off("will", 52)), count{"reason": 1}}, // there are none
		{"silence called admin", of(plan.Silent), numbered(on(0), off("admin", 59)), count{"reason": 1}},
		{"closed called protocol", of(plan.Close), numbered(on(0), off("protocol", 52)), count{"reason": 1}},
		{"will after a goodbye", of(plan.Bye), numbered(on(0), off("will", 52)), count{"reason": 1}},
		{"offline twice", of(plan.Silent), numbered(on(0), off("silence", 59), off("silence", 60)), count{"right": 1, "duplicates": 1, "contradictions": 1}},
		{"silent, then closed before the timeout", []any{did(plan.Silent, 50, 0), plan.Truth{Kind: plan.Close, At: at(55), Last: at(49), Connected: true}}, numbered(on(0), off("closed", 57)), count{"right": 1}},
		{"silent, then closed after the verdict", []any{did(plan.Silent, 50, 0), plan.Truth{Kind: plan.Close, At: at(90), Last: at(49), Connected: true}}, numbered(on(0), off("silence", 59)), count{"right": 1}},
		{"another timeout", of(plan.Silent), numbered(on(0), with(off("silence", 69), func(v *score.Verdict) { v.Timeout = 20 * time.Second })), count{"right": 1, "timeout": 1}},
		{"by the heard silence", of(plan.Silent), numbered(on(0), heard(64, 15)), count{"right": 1}},
		{"more silence than there was", of(plan.Silent), numbered(on(0), heard(59, 12)), count{"false": 1, "early": 1}},
		{"decided after the end", of(plan.Silent), numbered(on(0), off("silence", 400)), count{"right": 1}},
		{"not connected", []any{plan.Truth{Kind: plan.Close, At: at(50), Last: at(49)}}, numbered(on(0)), count{}},
		{"a signal", []any{plan.Truth{Kind: plan.Signal, At: at(50)}}, numbered(on(0)), count{}},
		{"no such device", []any{plan.Truth{Device: 7, Kind: plan.Bye, At: at(50), Last: at(49), Connected: true}}, numbered(on(0)), count{}},
	}
}

// unknown is from when nobody knows what the device does.
type unknown float64

func unknownCases() []scoreCase {
	of := func(k plan.Kind) []any { return []any{did(k, 50, 0), unknown(57)} } // silence is due at 59, the end of a connection at 52
	return []scoreCase{
		{"never told, later", []any{unknown(57)}, numbered(on(0), off("silence", 100)), count{"unjudged": 1}},
		{"never told, just then", []any{unknown(57)}, numbered(on(0), off("closed", 57)), count{"unjudged": 1}},
		{"never told, just before", []any{unknown(57)}, numbered(on(0), off("closed", 57-1e-6)), count{"false": 1}},
		{"never told, told later", []any{unknown(57)}, numbered(on(0), with(off("silence", 60), func(v *score.Verdict) { v.Deadline = at(56) })), count{"false": 1}},
		{"unknown twice", []any{unknown(57), unknown(70)}, numbered(on(0), off("silence", 60)), count{"unjudged": 1}},
		{"unknown twice, the other way round", []any{unknown(70), unknown(57)}, numbered(on(0), off("silence", 60)), count{"unjudged": 1}},
		{"due before", of(plan.Close), numbered(on(0), off("closed", 52)), count{"right": 1}},
		{"due before, decided later", of(plan.Close), numbered(on(0), with(off("closed", 70), func(v *score.Verdict) { v.Deadline = at(52) })), count{"right": 1}},
		{"due before, for a wrong reason", of(plan.Close), numbered(on(0), off("silence", 54)), count{"reason": 1}},
		{"due before, with a later deadline", of(plan.Close), numbered(on(0), off("closed", 60)), count{"unjudged": 1}},
		{"due before, and missed", of(plan.Close), numbered(on(0)), count{"missed": 1}},
		{"due too late to be missed", []any{did(plan.Close, 54, 0), unknown(57)}, numbered(on(0)), count{}},
		{"due later", of(plan.Silent), numbered(on(0), off("silence", 59)), count{"unjudged": 1}},
		{"due later, called closed", of(plan.Silent), numbered(on(0), off("closed", 59)), count{"unjudged": 1}},
		{"due later, and nothing said", of(plan.Silent), numbered(on(0)), count{}},
		{"offline twice", of(plan.Silent), numbered(on(0), off("silence", 59), off("silence", 60)), count{"unjudged": 2, "contradictions": 1}},
		{"asleep", []any{did(plan.Sleep, 50, 0), unknown(57)}, numbered(on(0), off("silence", 80)), count{"unjudged": 1}},
		{"back, and still offline", []any{did(plan.Bye, 40, 50), unknown(57)}, numbered(on(0), off("bye", 40)), count{"right": 1}},
		{"never online", []any{unknown(57)}, nil, count{}},
		{"a number is missing", []any{unknown(57)}, []score.Verdict{with(on(0), func(v *score.Verdict) { v.Seq = 1 }), with(off("silence", 70), func(v *score.Verdict) { v.Seq = 3 })}, count{"unjudged": 1, "gaps": 1}},
	}
}

// What a worker did is known until it told last, and that it is gone only later: what was judged meanwhile is judged again.
func TestUnknownIsLearntLater(t *testing.T) {
	s, err := score.New(fleet(3), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Verdict(score.Verdict{URL: here, Kind: score.Following})
	for _, v := range numbered(on(0)) {
		s.Verdict(v)
	}
	s.Add(did(plan.Close, 50, 0)) // due at 52
	s.JudgeUntil(at(55))
	if got := found(s.Report()); !maps.Equal(got, count{"missed": 1}) {
		t.Errorf("found %v, want what is missed", got)
	}
	late := off("closed", 58)
	late.Seq = 2
	s.Verdict(late)
	s.Unknown(plan.Range{From: 0, To: 2}, at(55))
	s.JudgeUntil(at(60))
	r := s.Report()
	if got := found(r); !maps.Equal(got, count{"unjudged": 1}) || r.UnjudgedDevices != 2 {
		t.Errorf("found %v of %d devices, want a verdict on one of two that is unjudged", got, r.UnjudgedDevices)
	}
	if got := found(s.Finish(at(60))); !maps.Equal(got, count{"unjudged": 1, "never": 1}) { // device 2
		t.Errorf("found %v at the end", got)
	}
}

// came is read when something came, and nothing before.
func came(v score.Verdict, when float64) score.Verdict {
	v.Seen = at(when)
	return v
}

// heardAt is a truth whose return was answered at an instant.
func heardAt(t plan.Truth, when float64) plan.Truth {
	t.Heard = at(when)
	return t
}

func with(v score.Verdict, change func(*score.Verdict)) score.Verdict {
	change(&v)
	return v
}

// heard is a verdict that tells its heard silence in place of its deadline.
func heard(when, silence float64) score.Verdict {
	return with(plain("silence", when), func(v *score.Verdict) {
		v.Timeout, v.HeardSilence = 10*time.Second, time.Duration(silence*float64(time.Second))
	})
}

func returnCases() []scoreCase {
	back := []any{did(plan.Silent, 50, 100)}
	quick := []any{did(plan.Reset, 50, 51)}
	again := []any{did(plan.Silent, 50, 60), did(plan.Silent, 61, 0)}
	slow := func(sent float64) []any {
		t := did(plan.Silent, 50, 58.9)
		t.Sent = at(sent)
		return []any{t}
	}
	twice := []any{did(plan.Silent, 50, 100), did(plan.Close, 150, 200)}
	told := []any{did(plan.Silent, 50, 0), did(plan.Silent, 50, 100), did(plan.Close, 150, 0), did(plan.Close, 150, 200)}
	return []scoreCase{
		{"came back", back, numbered(on(0), off("silence", 59), on(100)), count{"right": 1}},
		{"came back, not online", back, numbered(on(0), off("silence", 59)), count{"right": 1, "stuck": 1}},
		{"came back a moment ago", []any{did(plan.Silent, 50, 299)}, numbered(on(0), off("silence", 59)), count{"right": 1}},
		{"missed, and came back", back, numbered(on(0)), count{"missed": 1}},
		{"came back within grace", quick, numbered(on(0)), count{}},
		{"grace ignored", quick, numbered(on(0), off("closed", 50.5), on(51)), count{"false": 1, "early": 1}},
		{"old session's end", quick, numbered(on(0), off("closed", 52), on(53)), count{"false": 1, "replaced": 1}},
		{"moved", []any{did(plan.Move, 50, 50.1)}, numbered(on(0), other(score.Replaced, 50.1)), count{}},
		{"moved, and the old session's end", []any{did(plan.Move, 50, 50.1)}, numbered(on(0), off("closed", 52), on(53)), count{"false": 1, "replaced": 1}},
		{"verdict at the return", []any{did(plan.Silent, 50, 60)}, numbered(on(0), off("silence", 59.5), on(60)), count{"right": 1}},
		{"no verdict at the return", []any{did(plan.Silent, 50, 60)}, numbered(on(0)), count{}},
		{"deadline after the return", []any{did(plan.Silent, 50, 58)}, numbered(on(0), off("silence", 59), on(60)), count{"false": 1}},
		{"deadline while the return was being sent", slow(59.1), numbered(on(0), off("silence", 59), on(60)), count{"right": 1}},
		{"deadline after the return was sent", slow(58.99), numbered(on(0), off("silence", 59), on(60)), count{"false": 1}},
		{"no verdict while the return was being sent", slow(70), numbered(on(0)), count{}},
		{"decided long after the return", back, numbered(on(0), with(off("silence", 110), func(v *score.Verdict) { v.Deadline = at(59) }), on(111)), count{"false": 1, "overtaken": 1}},
		{"came long after the return", []any{did(plan.Silent, 50, 60)}, numbered(on(0), came(off("silence", 59.01), 64), came(on(60), 64)), count{"false": 1, "overtaken": 1}},
		{"came soon after the return", []any{did(plan.Silent, 50, 60)}, numbered(on(0), came(off("silence", 59.01), 61.9), came(on(60), 61.9)), count{"right": 1}},
		{"came soon after the return was heard", []any{heardAt(did(plan.Reset, 50, 60), 65)}, numbered(on(0), came(off("closed", 52), 66), came(on(65), 66)), count{"right": 1}},
		{"came long after the return was heard", []any{heardAt(did(plan.Reset, 50, 60), 65)}, numbered(on(0), came(off("closed", 52), 67.1), came(on(65), 67.1)), count{"false": 1, "overtaken": 1}},
		{"online while away", []any{did(plan.Silent, 50, 100)}, numbered(on(0), off("silence", 59), on(70)), count{"right": 1, "false online": 1}},
		{"online for good while away", []any{did(plan.Silent, 50, 0)}, numbered(on(0), off("silence", 59), on(70)), count{"right": 1, "false online": 1}},
		{"online while it tries to connect", []any{did(plan.Reset, 50, 0), plan.Truth{At: at(71), Last: at(49)}, did(plan.Reset, 50, 100), plan.Truth{At: at(71), Last: at(49), Back: at(100)}}, numbered(on(0), off("closed", 52), on(70)), count{"right": 1}},
		{"two in a row", again, numbered(on(0), with(off("silence", 61.5), func(v *score.Verdict) { v.Deadline = at(59) }), on(61.6), off("silence", 70)), count{"right": 2}},
		{"two absences", twice, numbered(on(0), off("silence", 59), on(100), off("closed", 152), on(200)), count{"right": 2}},
		{"each told twice", told, numbered(on(0), off("silence", 59), on(100), off("closed", 152), on(200)), count{"right": 2}},
		{"return not told", []any{did(plan.Silent, 50, 0), did(plan.Close, 150, 0)}, numbered(on(0), off("silence", 59), on(100), off("closed", 152)), count{"right": 2}},
		{"return not told, no verdict", []any{did(plan.Silent, 50, 0), did(plan.Close, 150, 0)}, numbered(on(0), off("closed", 152)), count{"right": 1}},
		{"bye needs a verdict at once", []any{did(plan.Bye, 50, 50.1)}, numbered(on(0)), count{"missed": 1}},
		{"bye, and back at once", []any{did(plan.Bye, 50, 50.1)}, numbered(on(0), plain("bye", 50.2), on(50.3)), count{"right": 1}},
		{"reconnect", []any{did(plan.Reconnect, 50, 57)}, numbered(on(0), off("closed", 52), on(57)), count{"right": 1}},
	}
}

func lostCases() []scoreCase {
	restart := []any{cut(50, 0), plan.Truth{At: at(51), Last: at(49), Cause: "refused"}, cut(50, 55)}
	return []scoreCase{
		{"lost and gone", []any{cut(50, 0)}, numbered(on(0), off("closed", 52)), count{"right": 1}},
		{"lost and gone, silence", []any{cut(50, 0)}, numbered(on(0), off("silence", 59)), count{"right": 1}},
		{"lost and gone, no verdict", []any{cut(50, 0)}, numbered(on(0)), count{"missed": 1}},
		{"lost and back", restart, numbered(on(0)), count{}},
		{"an operator ended its session", []any{cut(50, 0)}, numbered(on(0), off("admin", 52)), count{"right": 1}},
		{"lost before the verdict is told", restart, numbered(on(0), off("protocol", 51.5), on(55)), count{"right": 1}},
		{"cut off by a false verdict", []any{cut(50, 51)}, numbered(on(0), off("silence", 49.9), on(51)), count{"false": 1}},
		{"early, and cut off", []any{cut(50, 51)}, numbered(on(0), off("silence", 50.5), on(51)), count{"false": 1, "early": 1}},
		{"closed after the return", []any{cut(50, 50.2)}, numbered(on(0), off("closed", 52), on(53)), count{"false": 1, "replaced": 1}},
		{"silent, and cut off by the verdict", []any{did(plan.Silent, 50, 0), plan.Truth{At: at(59.1), Last: at(49)}}, numbered(on(0), off("silence", 59)), count{"right": 1}},
		{"told the other way round", []any{plan.Truth{At: at(59.1), Last: at(49)}, did(plan.Silent, 50, 0)}, numbered(on(0), off("silence", 59)), count{"right": 1}},
		{"cut off, and then meant to close", []any{cut(50, 0), plan.Truth{Kind: plan.Close, At: at(51), Last: at(49)}}, numbered(on(0), off("closed", 52)), count{"right": 1}},
		{"never welcomed", []any{plan.Truth{At: at(1), Cause: "refused"}}, nil, count{}},
		{"welcomed in the end", []any{plan.Truth{At: at(1)}, plan.Truth{At: at(1), Back: at(2)}}, nil, count{"never": 1}},
	}
}

func aliveCases() []scoreCase {
	stall, sleeps, rival := []any{did(plan.Stall, 50, 0)}, []any{did(plan.Sleep, 50, 0)}, []any{did(plan.Duplicate, 50, 50.1)}
	return []scoreCase{
		{"stalled", stall, numbered(on(0)), count{}},
		{"stalled and cut off", stall, numbered(on(0), off("protocol", 60)), count{"excused": 1}},
		{"stalled, but before", stall, numbered(on(0), off("silence", 40), on(41)), count{"false": 1}},
		{"socket full", []any{did(plan.Stall, 50, 0), cut(80, 0)}, numbered(on(0), off("silence", 89)), count{"right": 1}},
		{"sleeps", sleeps, numbered(on(0), other(score.Sleeping, 50)), count{}},
		{"sleeps too long", sleeps, numbered(on(0), other(score.Sleeping, 50), off("silence", 200)), count{"excused": 1}},
		{"sleeps and is judged before its timeout", sleeps, numbered(on(0), other(score.Sleeping, 50), off("silence", 59)), count{"false": 1}},
		{"sleeps, is judged, and comes back", []any{did(plan.Sleep, 50, 0), did(plan.Sleep, 50, 100)}, numbered(on(0), off("silence", 80), on(100)), count{"false": 1}},
		{"sleeps, loses its connection, and comes back", []any{did(plan.Sleep, 50, 100), plan.Truth{At: at(60), Last: at(50), Back: at(100)}}, numbered(on(0)), count{}},
		{"duplicate", rival, numbered(on(0), other(score.Replaced, 50.1)), count{}},
		{"duplicate takes the device offline", rival, numbered(on(0), other(score.Replaced, 50.1), off("closed", 52), on(53)), count{"false": 1, "replaced": 1}},
		{"duplicate does not get in", []any{did(plan.Duplicate, 50, 0)}, numbered(on(0), off("silence", 59)), count{"excused": 1}},
	}
}

// Brokers tell neither deadlines nor, with state topics, numbers.
func brokerCases() []scoreCase {
	kept := func(v score.Verdict) score.Verdict {
		v.Retained = true
		return v
	}
	return []scoreCase{
		{"will", []any{did(plan.Close, 50, 100)}, []score.Verdict{on(0), plain("", 52.1), on(100)}, count{"right": 1}},
		{"on its way while the device returns", []any{did(plan.Close, 50, 53)}, []score.Verdict{on(0), plain("", 53.5), on(53.6)}, count{"right": 1}},
		{"long after the return", []any{did(plan.Close, 50, 53)}, []score.Verdict{on(0), plain("", 55.5), on(55.6)}, count{"false": 1, "replaced": 1}},
		{"will of a session that was taken over", []any{did(plan.Move, 50, 50.1)}, []score.Verdict{on(0), plain("", 50.2), on(50.3)}, count{"false": 1, "early": 1}},
		{"half a second early", []any{did(plan.Silent, 50, 0)}, []score.Verdict{on(0), plain("", 58.5)}, count{"false": 1, "early": 1}},
		{"states are told again", []any{did(plan.Silent, 50, 0)}, []score.Verdict{kept(on(0)), kept(on(1)), plain("", 59), kept(plain("", 70))}, count{"right": 1}},
		{"state of before", nil, []score.Verdict{kept(plain("", 0)), on(1)}, count{}},
		{"state changed unseen", []any{did(plan.Silent, 50, 0)}, []score.Verdict{on(0), kept(plain("", 70))}, count{"right": 1}},
		{"no time told", []any{did(plan.Silent, 50, 0)}, []score.Verdict{on(0), with(plain("", 59.5), func(v *score.Verdict) { v.Time = time.Time{} })}, count{"right": 1}},
	}
}

func numberCases() []scoreCase {
	late := func(when float64) score.Verdict { return other(score.Other, when) }
	four := numbered(on(0), late(1), late(2), late(3))
	epochs := func(first, second uint64) []score.Verdict {
		return numbered(with(on(0), func(v *score.Verdict) { v.Epoch = first }), other(score.Late, 1), with(on(2), func(v *score.Verdict) { v.Epoch = second }))
	}
	gone := numbered(on(0), other(score.Forgotten, 1), on(2))
	gone[2].Seq = 1
	far := numbered(on(0), late(1))
	far[1].Seq = 101
	stranger := on(3)
	stranger.Device = "x"
	return []scoreCase{
		{"in order", nil, four, count{}},
		{"gap", nil, order(four, 0, 1, 3), count{"gaps": 1}},
		{"gap of two", nil, order(four, 0, 3), count{"gaps": 2}},
		{"gap of many", nil, far, count{"gaps": 99}},
		{"begins with 2", nil, order(numbered(on(0), on(1), late(2)), 1, 2), count{"gaps": 1}},
		{"swapped", nil, order(four, 0, 2, 1, 3), count{"order": 1}},
		{"backwards", nil, order(four, 3, 2, 1, 0), count{"order": 3}},
		{"again", nil, order(four, 0, 1, 1, 2, 3), count{"duplicates": 1}},
		{"again later", nil, order(four, 0, 1, 2, 3, 1), count{"duplicates": 1}},
		{"no event at all", nil, nil, count{"never": 1}},
		{"epoch rises", nil, epochs(1, 2), count{}},
		{"epoch goes back", nil, epochs(2, 1), count{"order": 1}},
		{"forgotten, and numbered anew", nil, gone, count{"forgotten": 1, "duplicates": 1}},
		{"forgotten, and on it goes", nil, numbered(on(0), other(score.Forgotten, 1), on(2)), count{"forgotten": 1}},
		{"stranger", nil, []score.Verdict{on(0), stranger}, count{"strangers": 1}},
	}
}

func deafCases() []scoreCase {
	deaf := func(from, to float64) []score.Verdict {
		d := with(other(score.SourceDeaf, from), func(v *score.Verdict) { v.Device = "" })
		h := with(d, func(v *score.Verdict) {
			v.Kind, v.Time, v.Seen, v.Deaf = score.SourceHeard, at(to), at(to), time.Duration((to-from)*float64(time.Second))
		})
		return []score.Verdict{d, h}
	}
	silent := []any{did(plan.Silent, 50, 0)}
	late := numbered(on(0), with(off("silence", 70), func(v *score.Verdict) {
		v.LastSeen, v.HeardSilence, v.Timeout = at(49), 21*time.Second, 10*time.Second
	}))
	elsewhere := with(deaf(55, 60)[1], func(v *score.Verdict) { v.Source = "line/2" })
	var stalls []score.Verdict
	for from := 55.0; from < 290; from += 9 {
		stalls = append(stalls, deaf(from, from+1)...)
	}
	return []scoreCase{
		{"late for deafness", silent, append(numbered(on(0), off("silence", 89)), deaf(55, 85)...), count{"right": 1}},
		{"missed for deafness", []any{did(plan.Silent, 50, 92)}, append(numbered(on(0)), deaf(55, 85)...), count{}},
		{"deaf just after the deadline", []any{did(plan.Silent, 50, 92)}, append(numbered(on(0)), deaf(60, 85)...), count{}},
		{"deaf long after the deadline", []any{did(plan.Silent, 50, 92)}, append(numbered(on(0)), deaf(62, 85)...), count{"missed": 1}},
		{"missed all the same", []any{did(plan.Silent, 50, 101)}, append(numbered(on(0)), deaf(55, 85)...), count{"missed": 1}},
		{"its reconnect grace", []any{did(plan.Silent, 50, 98)}, append(numbered(on(0)), deaf(55, 85)...), count{}},
		{"deaf again and again", silent, append(numbered(on(0)), stalls...), count{"missed": 1}},
		{"deaf again and again, and judged", silent, append(numbered(on(0), off("silence", 103)), stalls...), count{"right": 1}},
		{"deaf again and again, and alive", nil, append(numbered(on(0)), stalls...), count{}},
		{"false offline in spite of deafness", nil, append(numbered(on(0), off("silence", 86), on(87)), deaf(55, 85)...), count{"false": 1}},
		{"deaf to the end", silent, append(numbered(on(0)), deaf(55, 85)[0]), count{}},
		{"another source", silent, append(numbered(on(0)), with(deaf(55, 85)[0], func(v *score.Verdict) { v.Source = "mqtt" })), count{"missed": 1}},
		{"put off, and nothing was deaf", silent, late, count{"right": 1, "contradictions": 1}},
		{"put off, since another source was deaf", silent, []score.Verdict{late[0], elsewhere, late[1]}, count{"right": 1}},
		{"put off, since another gateway was deaf", silent, []score.Verdict{late[0], across(elsewhere), late[1]}, count{"right": 1, "contradictions": 1}},
		{"deaf before", silent, append(numbered(on(0)), deaf(10, 40)...), count{"missed": 1}},
	}
}

func elsewhereCases() []scoreCase {
	hop := []any{did(plan.Reconnect, 50, 51)}
	return []scoreCase{
		{"came back elsewhere", hop, numbered(on(0), across(on(51)), off("closed", 52)), count{"right": 1}},
		{"came back elsewhere, told late", hop, numbered(on(0), off("closed", 52), across(on(51))), count{"right": 1}},
		{"came back here", hop, numbered(across(on(0)), across(off("closed", 2)), on(3), off("closed", 52), on(53)), count{"false": 2, "replaced": 1}},
		{"there and back", []any{did(plan.Reconnect, 50, 53), did(plan.Reconnect, 100, 103)}, numbered(
			on(0), off("closed", 52), across(on(53)), across(off("closed", 102)), on(103)), count{"right": 2}},
		{"duplicate elsewhere", []any{did(plan.Duplicate, 50, 50.1)}, numbered(on(0), across(on(50.1)), off("closed", 52)), count{"excused": 1}},
		{"silent elsewhere", []any{did(plan.Reconnect, 50, 51), did(plan.Silent, 70, 0)}, numbered(
			on(0), across(on(51)), off("closed", 52), across(off("silence", 79))), count{"right": 2}},
	}
}

func TestLatency(t *testing.T) {
	s, err := score.New(fleet(100), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		t0 := did(plan.Silent, 50, 0)
		t0.Device = i
		s.Add(t0)
		v := off("silence", 59+float64(i+1)/1000)
		v.Device, v.Deadline, v.Seen = fmt.Sprintf("d-%d", i), at(59), v.Time.Add(time.Second)
		s.Verdict(v)
	}
	r := s.Finish(at(100))
	near := func(got report.Millis, want time.Duration) bool { return (time.Duration(got) - want).Abs() <= want/500 }
	if l := r.Latency; l.Count != 100 || !near(l.P50, 50*time.Millisecond) || !near(l.P99, 99*time.Millisecond) || !near(l.Max, 100*time.Millisecond) {
		t.Errorf("Latency = %+v", l)
	}
	if l := r.Told; l.Count != 100 || !near(l.P50, 1050*time.Millisecond) {
		t.Errorf("Told = %+v", l)
	}
	if n := r.Latency.Count; n != 100 {
		t.Errorf("the histogram has %d values", n)
	}
}

func TestExamples(t *testing.T) {
	s, err := score.New(fleet(30), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		v := on(0)
		v.Device = fmt.Sprintf("d-%d", i)
		s.Verdict(v)
		v = off("silence", 59)
		v.Device = fmt.Sprintf("d-%d", i)
		s.Verdict(v)
	}
	t0 := did(plan.Close, 55, 56)
	t0.Device = 3
	s.Add(t0)
	r := s.Finish(at(100))
	if n := len(r.Figures[score.FalseOffline].Examples); r.Figures[score.FalseOffline].Count != 20 || n != 10 {
		t.Fatalf("%d false offlines, %d examples; want 20, 10", r.Figures[score.FalseOffline].Count, n)
	}
	e := r.Figures[score.FalseOffline].Examples[3]
	for _, want := range []string{"d-3: offline (silence) at 03:00:59.000000", "close at 03:00:55.000000, last sign of life 03:00:54.000000, back 03:00:56.000000"} {
		if !strings.Contains(e.Device+": "+e.Said+"; "+e.Done, want) {
			t.Errorf("example %+v has no %q", e, want)
		}
	}
	if !e.At.Equal(at(59)) {
		t.Errorf("example %+v", e)
	}
	if got := r.Figures[score.FalseOffline].Examples[0].Done; got != "nothing was done to it" {
		t.Errorf("an untouched device's example says %q", got)
	}
	if r.Figures[score.NeverOnline].Count != 10 || r.Figures[score.Stuck].Count != 20 {
		t.Errorf("%d never online, %d stuck; want 10, 20", r.Figures[score.NeverOnline].Count, r.Figures[score.Stuck].Count)
	}
}

// What came late was missed until it came.
func TestLateVerdict(t *testing.T) {
	s, err := score.New(fleet(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Verdict(on(0))
	s.Add(did(plan.Silent, 50, 0))
	s.JudgeUntil(at(60))
	if r := s.Report(); r.Figures[score.MissedOffline].Count != 0 {
		t.Errorf("missed within the slack: %+v", r.Figures[score.MissedOffline])
	}
	s.JudgeUntil(at(70))
	if r := s.Report(); r.Figures[score.MissedOffline].Count != 1 || len(r.Figures[score.MissedOffline].Examples) != 1 {
		t.Errorf("not missed: %+v", r.Figures[score.MissedOffline])
	}
	s.Verdict(off("silence", 75))
	s.JudgeUntil(at(80))
	if r := s.Report(); r.Figures[score.MissedOffline].Count != 0 || len(r.Figures[score.MissedOffline].Examples) != 0 || r.Right != 1 || time.Duration(r.Latency.Max) < 15*time.Second {
		t.Errorf("missed although it came: %+v", r)
	}
}

// A verdict is not right before it is known that the device was not back.
func TestReturnToldLate(t *testing.T) {
	s, err := score.New(fleet(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Verdict(on(0))
	s.Add(did(plan.Silent, 50, 0))
	s.JudgeUntil(at(58))
	s.Verdict(off("silence", 59))
	if r := s.Report(); r.Right != 0 || r.Waiting != 1 {
		t.Errorf("judged too soon: %v", found(r))
	}
	s.Add(did(plan.Silent, 50, 58.5))
	s.JudgeUntil(at(70))
	if r := s.Report(); !maps.Equal(found(r), count{"false": 1}) {
		t.Errorf("found %v, want a false offline", found(r))
	}
}

// All methods may be called at once.
func TestConcurrency(t *testing.T) {
	const n = 500
	s, err := score.New(fleet(n), 0)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := part; i < n; i += 4 {
				truth := did(plan.Silent, 50, 0)
				truth.Device = i
				s.Add(truth)
			}
		})
		all.Go(func() {
			for i := part; i < n; i += 4 {
				for _, v := range numbered(on(0), off("silence", 59)) {
					v.Device = fmt.Sprintf("d-%d", i)
					s.Verdict(v)
				}
			}
		})
	}
	all.Go(func() {
		for i := range 20 {
			s.JudgeUntil(at(float64(i)))
			r := s.Report()
			_ = r.Latency.Count
		}
	})
	all.Wait()
	if r := s.Finish(at(100)); !maps.Equal(found(r), count{"right": n}) {
		t.Errorf("found %v, want %d right", found(r), n)
	}
}

func TestNew(t *testing.T) {
	bad := fleet(1)
	bad.Timeout, bad.Grace = 0, -1
	if _, err := score.New(bad, -1); err == nil || !strings.Contains(err.Error(), "timeout") ||
		!strings.Contains(err.Error(), "slack") || !strings.Contains(err.Error(), "grace") {
		t.Errorf("New = %v", err)
	}
	p := fleet(1)
	p.Protocol = plan.MQTT // keep alive 6 s, so 9 s
	s, err := score.New(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Verdict(on(0))
	s.Add(did(plan.Silent, 50, 0))
	s.Verdict(off("", 58))
	if r := s.Finish(at(100)); r.Right != 1 {
		t.Errorf("a verdict after one and a half of the keep alive is not right: %+v", r)
	}
}

// A broker waits for its clients a keep alive and 10 s after it was deaf, however often they ping.
func TestReconnectGraceOfMQTT(t *testing.T) {
	for _, protocol := range []string{plan.Line, plan.MQTT, plan.MQTT5} {
		p := fleet(1)
		p.Protocol = protocol // the interval is 3 s, the keep alive 6 s
		s, err := score.New(p, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Verdict(on(0))
		s.Add(did(plan.Silent, 50, 0))
		s.Verdict(deafness(score.SourceHeard, 60, 2))
		s.JudgeUntil(at(77)) // less than the slack of 2 s after the longer grace
		if r := s.Report(); (r.Figures[score.MissedOffline].Count == 0) != p.SpeaksMQTT() {
			t.Errorf("%s: missed %+v", protocol, r.Figures[score.MissedOffline])
		}
		if r := s.Finish(at(79)); r.Figures[score.MissedOffline].Count != 1 {
			t.Errorf("%s: after the longer grace missed %+v", protocol, r.Figures[score.MissedOffline])
		}
	}
}

func TestLimits(t *testing.T) {
	figure := score.Figure{Count: 2, Examples: []report.Example{{Device: "d-1", Said: "offline at 1", Done: "nothing was done to it"}}}
	one := score.Report{Events: 1}
	bad, wrong, deaf, incomplete := one, one, one, one
	lax := score.Limits{Deaf: -1}
	for m := range bad.Figures {
		bad.Figures[m], lax.Allowed[m] = figure, -1
	}
	wrong.Figures[score.FalseOffline] = figure
	bad.Told = report.Latency{Count: 1, P99: report.Millis(time.Second)}
	bad.Deaf = report.Deaf{Count: 1, Total: report.Millis(time.Minute)}
	deaf.Deaf.Total = bad.Deaf.Total
	quiet, still := bad, one
	still.Deaf.Still = []string{"line"}
	bad.Deaf.Still, bad.Waiting = still.Deaf.Still, 3
	incomplete.Incomplete = []string{"x"}
	for _, c := range []struct {
		name   string
		limits score.Limits
		report score.Report
		want   []string
	}{
		{"clean", score.Limits{}, one, nil},
		{"all", score.Limits{LatencyP99: time.Millisecond}, bad, []string{
			"2 × false offline, none allowed; the first: d-1: offline at 1; nothing was done to it", "missed offline", "false online", "wrong reason",
			"late", "never online", "stuck", "deaf while it answered", "deaf unasked", "sequence gap", "order violation", "duplicate", "contradiction",
			"from the future", "time going back", "incomplete event", "log gap", "log going back", "forgotten", "deaf at the end: the source line",
			"deaf for 1m0s in all",
			"within 1s after their deadline, at most 1ms", "3 verdicts could not be judged",
		}},
		{"nothing checked", lax, quiet, nil},
		{"deaf at the end", lax, still, []string{"deaf at the end"}},
		{"deaf for as long as it may", score.Limits{Deaf: time.Minute}, deaf, nil},
		{"two allowed", score.Limits{Allowed: score.Allowed{score.FalseOffline: 2}}, wrong, nil},
		{"no verdicts", lax, score.Report{Devices: 1}, []string{"no verdict came at all"}},
		{"incomplete", lax, incomplete, []string{"not complete: x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.limits.Check(c.report)
			if len(got) != len(c.want) {
				t.Fatalf("Check = %q, want %d sentences", got, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("Check: %q has no %q", got[i], want)
				}
			}
		})
	}
}
