package score_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

// told is a truth or a verdict, and when the score gets it.
type told struct {
	when float64
	what any
}

// life is what happens to a device, and what a perfect judge says of it.
type life struct {
	truths []told
	said   []score.Verdict
}

// The judge of these tests knows a timeout of 10 s and a grace of 2 s. No absence ends within 3 s of its deadline, since a verdict may
// then come or not. attempts are hellos that nothing answers, heard or not.
func drawLife(t *rapid.T, device int, attempts bool) life {
	seconds := func(name string, from, to int) float64 {
		return float64(rapid.IntRange(from*1000, to*1000).Draw(t, name)) / 1000
	}
	var l life
	id := fmt.Sprintf("d-%d", device)
	say := func(kind score.Kind, reason string, when, deadline float64) {
		v := score.Verdict{URL: here, Source: "line", Device: id, Kind: kind, Reason: reason, Time: at(when), Seen: at(when + 0.1)}
		if deadline != 0 {
			v.Deadline, v.Timeout = at(deadline), 10*time.Second
		}
		l.said = append(l.said, v)
	}
	now := seconds("begin", 1, 20)
	say(score.Online, "", now, 0)
	for range rapid.IntRange(0, 5).Draw(t, "acts") {
		last := now + seconds("well", 1, 60)
		done := last + seconds("since", 0, 2) + 0.001
		kind := rapid.SampledFrom([]plan.Kind{
			0, plan.Bye, plan.Close, plan.Reset, plan.Silent, plan.Crash, plan.Duplicate, plan.Move, plan.Reconnect, plan.Sleep,
		}).Draw(t, "kind")
		due, reason := done+2, "closed"
		switch kind {
		case plan.Bye:
			due, reason = done, "bye"
		case plan.Silent, plan.Crash:
			due, reason = last+10, "silence"
		case 0: // the gateway's own doing, and it says so or waits
			if rapid.Bool().Draw(t, "silence") {
				due, reason = last+10, "silence"
			}
		case plan.Close, plan.Reset, plan.Move, plan.Reconnect, plan.Duplicate, plan.Sleep, plan.Stall, plan.Signal:
		}
		var tried plan.Truth
		if closes := reason == "closed" && kind != 0 && kind != plan.Duplicate && kind != plan.Sleep; closes && attempts && rapid.Bool().Draw(t, "tried") {
			greeted := done + seconds("hello", 0, 1)
			ended := greeted + 1 + seconds("waits", 0, 4)
			tried = gaveUp(last, greeted, ended, 0)
			if rapid.Bool().Draw(t, "heard") {
				due = ended + 2
			}
		}
		back := max(due, tried.At.Sub(at(0)).Seconds()+10) + seconds("more", 3, 40)
		if kind == 0 {
			back = last + 10 + seconds("more than silence", 3, 40)
		}
		short := kind != plan.Bye && tried.At.IsZero() && rapid.Bool().Draw(t, "short")
		if kind == plan.Duplicate || short {
			back = done + min(seconds("short absence", 0, 2), max(due-done-0.01, 0))
		}
		lag := seconds("lag", 0, 1)
		switch {
		case kind == plan.Duplicate:
			say(score.Replaced, "", back+lag, 0)
		case kind == plan.Sleep:
			say(score.Sleeping, "", done+lag, 0)
			say(score.Online, "", max(back, done+lag)+lag, 0)
		case !short:
			deadline := due
			if kind == plan.Bye {
				deadline = 0
			}
			say(score.Offline, reason, due+lag, deadline)
			say(score.Online, "", back+lag, 0)
		}
		l.tell(t, device, kind, done, last, back)
		if !tried.At.IsZero() {
			tried.Device = device
			l.truths = append(l.truths, told{tried.At.Sub(at(0)).Seconds() + 0.5, tried})
			tried.Back = at(back)
			l.truths = append(l.truths, told{back + 0.5, tried})
		}
		now = back + 2
	}
	l.number()
	return l
}

// tell tells a truth, and again with the return.
func (l *life) tell(t *rapid.T, device int, kind plan.Kind, done, last, back float64) {
	for _, b := range []float64{0, back} {
		when := max(done, b) + float64(rapid.IntRange(0, 1000).Draw(t, "delay"))/1000
		var end time.Time
		if b != 0 {
			end = at(b)
		}
		var what any = plan.Truth{Device: device, Kind: kind, At: at(done), Last: at(last), Back: end, Connected: true}
		if kind == 0 {
			what = plan.Truth{Device: device, At: at(done), Last: at(last), Back: end, Cause: "closed by peer"}
		}
		l.truths = append(l.truths, told{when, what})
	}
}

func (l *life) number() {
	for i := range l.said {
		l.said[i].Seq = uint64(i + 1)
	}
}

// judge scores lives, in the order in which their truths and verdicts come.
func judge(t *rapid.T, lives []life) score.Report {
	s, err := score.New(fleet(len(lives)), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Verdict(score.Verdict{URL: here, Kind: score.Following})
	var all []told
	for _, l := range lives {
		all = append(all, l.truths...)
		when := 0.0
		for _, v := range l.said {
			when = max(when, v.Seen.Sub(at(0)).Seconds()) // one stream keeps its order
			all = append(all, told{when, v})
		}
	}
	slices.SortStableFunc(all, func(a, b told) int { return cmp.Compare(a.when, b.when) })
	judged := 0.0
	for _, x := range all {
		if v, ok := x.what.(score.Verdict); ok {
			s.Verdict(v)
		} else {
			add(s, x.what)
		}
		if x.when > judged+5 {
			judged = x.when
			s.JudgeUntil(at(x.when - 1.5))
		}
	}
	return s.Finish(at(1000))
}

func drawLives(t *rapid.T, attempts bool) []life {
	lives := make([]life, rapid.IntRange(1, 8).Draw(t, "devices"))
	for i := range lives {
		lives[i] = drawLife(t, i, attempts)
	}
	return lives
}

func dump(r score.Report) string {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestPerfectJudge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t, true)
		r := judge(t, lives)
		offlines, verdicts := uint64(0), uint64(0)
		for _, l := range lives {
			for _, v := range l.said {
				verdicts++
				if v.Kind == score.Offline {
					offlines++
				}
			}
		}
		if got := (score.Limits{}).Check(r); len(got) > 0 || r.Right != offlines || r.Events != verdicts || r.Waiting != 0 || r.Excused != 0 ||
			r.Figures[score.Overtaken].Count != 0 || time.Duration(r.Latency.Max) > 1002*time.Millisecond {
			t.Fatalf("%q, %d of %d right\n%s", got, r.Right, offlines, dump(r))
		}
	})
}

// mutation changes what is said of one device; false if it does not apply. want reports whether the score has found it.
type mutation struct {
	name  string
	apply func(t *rapid.T, l *life) bool
	want  func(r score.Report) bool
}

func pick(t *rapid.T, l *life, ok func(i int) bool) (int, bool) {
	var fit []int
	for i := range l.said {
		if ok(i) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return 0, false
	}
	return rapid.SampledFrom(fit).Draw(t, "which"), true
}

func mutations() []mutation {
	offline := func(l *life) func(int) bool { return func(i int) bool { return l.said[i].Kind == score.Offline } }
	return []mutation{
		{"drop", func(t *rapid.T, l *life) bool {
			i, ok := pick(t, l, func(i int) bool { return i < len(l.said)-1 })
			if ok {
				l.said = slices.Delete(l.said, i, i+1)
			}
			return ok
		}, func(r score.Report) bool { return r.Figures[score.Gaps].Count == 1 }},
		{"say nothing at all", func(_ *rapid.T, l *life) bool {
			l.said = nil
			return true
		}, func(r score.Report) bool { return r.Figures[score.NeverOnline].Count == 1 }},
		{"no verdict", func(t *rapid.T, l *life) bool {
			i, ok := pick(t, l, offline(l))
			if ok {
				l.said = slices.Delete(l.said, i, i+1)
				l.number()
			}
			return ok
		}, func(r score.Report) bool { return r.Figures[score.MissedOffline].Count == 1 }},
		{"no return", func(t *rapid.T, l *life) bool {
			n := len(l.said)
			if n < 2 || l.said[n-2].Kind != score.Offline {
				return false
			}
			l.said = l.said[:n-1]
			return true
		}, func(r score.Report) bool { return r.Figures[score.Stuck].Count == 1 }},
		{"duplicate", func(t *rapid.T, l *life) bool {
			i, ok := pick(t, l, func(int) bool { return true })
			l.said = slices.Insert(l.said, i, l.said[i])
			return ok
		}, func(r score.Report) bool { return r.Figures[score.Duplicates].Count == 1 }},
		{"verdict twice", func(t *rapid.T, l *life) bool {
			i, ok := pick(t, l, offline(l))
			if ok {
				l.said = slices.Insert(l.said, i, l.said[i])
				l.number()
			}
			return ok
		}, func(r score.Report) bool { return r.Figures[score.Contradictions].Count == 1 }},
		{"swap", func(t *rapid.T, l *life) bool {
			i, ok := pick(t, l, func(i int) bool { return i > 0 })
			if ok {
				l.said[i-1], l.said[i] = l.said[i], l.said[i-1]
			}
			return ok
		}, func(r score.Report) bool {
			return r.Figures[score.Order].Count == 1 && r.Figures[score.Gaps].Count == 0
		}},
		{"early", func(t *rapid.T, l *life) bool {
			i, ok := pick(t, l, offline(l))
			if ok {
				v := &l.said[i]
				if v.Deadline.IsZero() {
					v.Deadline = v.Time.Add(-time.Second - 2*time.Microsecond) // the lag of a goodbye is up to 1 s
				} else {
					v.Deadline = v.Deadline.Add(-2 * time.Microsecond)
					if v.Reason == "closed" { // of a connection that the gateway ended it may be right
						v.Deadline = v.Deadline.Add(-3 * time.Second)
					}
				}
			}
			return ok
		}, func(r score.Report) bool { return r.Figures[score.FalseOffline].Count == 1 }},
		{"wrong reason", func(t *rapid.T, l *life) bool {
			i, ok := pick(t, l, offline(l))
			if !ok {
				return false
			}
			if v := &l.said[i]; v.Reason == "bye" {
				v.Reason = rapid.SampledFrom([]string{"silence", "closed", "will", "strange"}).Draw(t, "reason")
			} else {
				v.Reason = rapid.SampledFrom([]string{"bye", "strange"}).Draw(t, "reason")
			}
			return true
		}, func(r score.Report) bool { return r.Figures[score.WrongReason].Count == 1 }},
		{"false offline", func(t *rapid.T, l *life) bool {
			v := l.said[0]
			v.Kind, v.Reason, v.Time = score.Offline, rapid.SampledFrom([]string{"", "silence", "closed", "will", "bye"}).Draw(t, "reason"), v.Time.Add(time.Millisecond)
			on := l.said[0]
			on.Time = v.Time
			l.said = slices.Insert(l.said, 1, v, on)
			l.number()
			return true
		}, func(r score.Report) bool { return r.Figures[score.FalseOffline].Count == 1 }},
	}
}

func TestMutations(t *testing.T) {
	t.Parallel()
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				lives := drawLives(t, m.name != "early") // what an early verdict on an attempt is, nobody knows
				applied := false
				for i := range lives {
					if applied = m.apply(t, &lives[i]); applied {
						break
					}
				}
				if !applied {
					t.Skip("there is nothing of that kind")
				}
				if r := judge(t, lives); !m.want(r) {
					t.Fatalf("not found:\n%s", dump(r))
				}
			})
		})
	}
}
