package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// world is a made-up run, in seconds from its origin.
type world struct {
	Evidence

	seq     map[string]uint64
	timeout time.Duration // of each device, by the API; 0: as it announced
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}

func (w *world) time(s float64) time.Time { return w.History.Origin.Add(seconds(s)) }

// after is an instant that has not come when the world ends.
const after = time.Duration(1 << 61)

// newWorld has one life from 1 on, and lasts until 300.
func newWorld() *world {
	w := &world{seq: map[string]uint64{}}
	w.Rules = Rules{TTLs: []time.Duration{10 * time.Second, 30 * time.Second}, Epsilon: time.Second}
	w.History.Origin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.History.Breaks = []Break{{Kind: Start, Asked: -after, Began: -after, Ending: seconds(0.5), Over: seconds(1)}}
	w.Until = seconds(300)
	return w
}

// brk adds a break: asked for at from, begun 0.1 later; ending at to, over 0.5 later.
func (w *world) brk(kind BreakKind, from, to float64) {
	w.History.Breaks = append(w.History.Breaks, Break{
		Kind: kind, Asked: seconds(from), Began: seconds(from + 0.1), Ending: seconds(to), Over: seconds(to + 0.5),
	})
}

// device adds a device with a timeout of 10 s, so a grace of 13.3 s, and without signs.
func (w *world) device(id string) *Device {
	w.Devices = append(w.Devices, Device{ID: id, TTL: 10 * time.Second})
	return &w.Devices[len(w.Devices)-1]
}

// on is a connection, greeted at from, with heartbeats every 2 s before to.
func (w *world) on(d *Device, from, to float64) {
	w.beat(d, from).Granted = w.time(from + 0.01).UnixNano()
	for t := from + 2; t < to; t += 2 {
		w.beat(d, t)
	}
}

// beat is a heartbeat that is answered 0.01 later.
func (w *world) beat(d *Device, at float64) *drive.Sign {
	d.Signs = append(d.Signs, drive.Sign{At: w.time(at).UnixNano(), Answered: w.time(at + 0.01).UnixNano()})
	return &d.Signs[len(d.Signs)-1]
}

func (w *world) step(d *Device, a plan.Kind, at float64) {
	d.Steps = append(d.Steps, plan.Truth{Kind: a, At: w.time(at), Connected: true})
}

// says adds an event to the log.
func (w *world) says(id, kind, reason string, at float64) *cloudevent.Event {
	w.seq[id]++
	e := cloudevent.Event{
		ID: fmt.Sprintf("%s:%d", id, w.seq[id]), Type: "io.holter." + kind, Subject: strings.TrimPrefix(id, "source/"), Time: w.time(at),
		Data: cloudevent.EventData{Offset: uint64(len(w.Events) + 1), Reason: reason, Seq: w.seq[id], Epoch: 1},
	}
	if e.Subject == id {
		e.Type = ofDevice + kind
	}
	w.Events = append(w.Events, e)
	return &w.Events[len(w.Events)-1]
}

// told lets the readers see the log, and the API say what it says.
func (w *world) told() {
	w.Followed, w.Seen = slices.Clone(w.Events), slices.Clone(w.Events)
	w.States = map[string]State{}
	announced := map[string]time.Duration{}
	for i := range w.Devices {
		announced[w.Devices[i].ID] = w.Devices[i].TTL
	}
	for _, e := range w.Events {
		if deviceOf(&e) == "" {
			continue
		}
		s := w.States[e.Subject]
		if e.Type == typeOnline || e.Type == typeOffline {
			s.State, s.Reason = strings.TrimPrefix(e.Type, ofDevice), e.Data.Reason
		}
		s.Seq, s.LastSeen = e.Data.Seq, w.time(300)
		s.Timeout = float64(cmp.Or(w.timeout, announced[e.Subject]).Milliseconds())
		w.States[e.Subject] = s
	}
}

// scenario is a device's life, and what a server says of it; want is what is to be found, "" for
// nothing.
type scenario struct {
	name  string
	build func(w *world, d *Device)
	want  ViolationKind
	say   string // in the detail
}

func TestVerdicts(t *testing.T) {
	silentAt := func(at, verdict float64, reason string) func(*world, *Device) {
		return func(w *world, d *Device) {
			w.on(d, 1, at)
			w.step(d, plan.Silent, at)
			w.says(d.ID, "online", "", 1)
			if verdict > 0 {
				w.says(d.ID, "offline", reason, verdict)
			}
		}
	}
	endAt := func(a plan.Kind, at, verdict float64, reason string) func(*world, *Device) {
		return func(w *world, d *Device) {
			w.on(d, 1, at)
			w.step(d, a, at)
			w.says(d.ID, "online", "", 1)
			w.says(d.ID, "offline", reason, verdict)
		}
	}
	healthy := func(w *world, d *Device) {
		w.on(d, 1, 300)
		w.says(d.ID, "online", "", 1)
	}
	back := func(w *world, d *Device, at float64) {
		w.on(d, at, 300)
		w.says(d.ID, "online", "", at+0.01)
	}
	tests := []scenario{
		{"healthy", healthy, "", ""},
		{"healthy and judged", func(w *world, d *Device) {
			healthy(w, d)
			w.says(d.ID, "offline", "silence", 50.5)
			w.says(d.ID, "online", "", 51.01)
		}, FalseOffline, "silent for 1.5s"},
		{"judged for no reason", endAt(plan.Silent, 50, 59, "protocol"), FalseOffline, "no device did anything"},
		{"silent", silentAt(50, 59.3, "silence"), "", ""}, // heard last at 49
		{"silent, judged too early", silentAt(50, 58.9, "silence"), FalseOffline, "silent for 9.9s"},
		{"silent, judged late", silentAt(50, 61.1, "silence"), MissedOffline, "it was at +61.1"},
		{"silent, never judged", func(w *world, d *Device) {
			silentAt(50, 0, "")(w, d)
			w.on(d, 95, 300)
		}, MissedOffline, "it never was"},
		{"silent for as long as anything excuses, never judged", func(w *world, d *Device) {
			silentAt(50, 0, "")(w, d)
			w.on(d, 101, 300)
		}, Unjudged, "it never was"},
		{"never judged, but not due", silentAt(293, 0, ""), "", ""},
		{"silent, judged as closed", silentAt(50, 59.3, "closed"), FalseOffline, "nothing of the kind"},
		{"silent for a while", func(w *world, d *Device) {
			silentAt(50, 0, "")(w, d)
			w.on(d, 55, 300)
		}, "", ""},
		{"silent for a while, and judged", func(w *world, d *Device) {
			silentAt(50, 57, "silence")(w, d)
			back(w, d, 58)
		}, FalseOffline, "silent for 8s"},
		{"judged, and back", func(w *world, d *Device) {
			silentAt(50, 59.3, "silence")(w, d)
			back(w, d, 80)
		}, "", ""},
		{"judged just before it was read that it is back", func(w *world, d *Device) {
			silentAt(50, 59.005, "silence")(w, d)
			back(w, d, 59.002)
		}, "", ""},
		{"judged long after it was back", func(w *world, d *Device) {
			silentAt(50, 64, "silence")(w, d)
			w.on(d, 59.5, 300)
			w.says(d.ID, "online", "", 64.1)
		}, FalseOffline, "silent for"},
		{"online while it is dead", func(w *world, d *Device) {
			silentAt(50, 59.3, "silence")(w, d)
			w.says(d.ID, "online", "", 100)
			w.says(d.ID, "offline", "silence", 110)
		}, WrongState, "it fell silent"},
		{"never online again", func(w *world, d *Device) {
			silentAt(50, 59.3, "silence")(w, d)
			w.on(d, 80, 300)
		}, WrongState, "offline by its events, want online"},
		{"closed", endAt(plan.Close, 50, 55.1, "closed"), "", ""},
		{"reset", endAt(plan.Reset, 50, 55.1, "closed"), "", ""},
		{"closed, judged too early", endAt(plan.Close, 50, 54.9, "closed"), FalseOffline, "the grace is 5s"},
		{"closed, judged late", endAt(plan.Close, 50, 56.2, "closed"), MissedOffline, "it was at"},
		{"closed, and back in time", func(w *world, d *Device) {
			endAt(plan.Close, 50, 55, "closed")(w, d)
			back(w, d, 53)
		}, FalseOffline, "within 3.01s"},
		{"closed, and judged twice", func(w *world, d *Device) {
			endAt(plan.Close, 50, 55.1, "closed")(w, d)
			back(w, d, 60)
			w.says(d.ID, "offline", "closed", 64)
			w.says(d.ID, "online", "", 64.01)
		}, FalseOffline, "judged already"},
		{"bye", endAt(plan.Bye, 50, 50.01, "bye"), "", ""},
		{"bye before it was said", endAt(plan.Bye, 50, 49.9, "bye"), FalseOffline, "nothing of the kind"},
		{"bye, judged late", endAt(plan.Bye, 50, 51.2, "bye"), MissedOffline, "to be offline by +51"},
		{"offline twice", func(w *world, d *Device) {
			silentAt(50, 59.3, "silence")(w, d)
			w.says(d.ID, "offline", "silence", 70)
		}, Disorder, "offline again"},
	}
	tests = append(tests, broken()...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.build(w, w.device("dev-1"))
			w.told()
			expect(t, Score(&w.Evidence), tt.want, tt.say)
		})
	}
}

// broken are scenarios with breaks of the server.
func broken() []scenario {
	// beats until a kill at 100, or a stop; the server is back at 104.5.
	until := func(kind BreakKind, build func(w *world, d *Device)) func(*world, *Device) {
		return func(w *world, d *Device) {
			w.brk(kind, 100, 104)
			w.on(d, 1, 100)
			w.says(d.ID, "online", "", 1)
			build(w, d)
		}
	}
	dies := func(kind BreakKind, at, verdict float64) func(*world, *Device) {
		return func(w *world, d *Device) {
			w.brk(kind, 100, 104)
			w.on(d, 1, min(at, 99.9))
			w.step(d, plan.Silent, at)
			w.says(d.ID, "online", "", 1)
			if verdict > 0 {
				w.says(d.ID, "offline", "silence", verdict)
			}
		}
	}
	// a device with a timeout of 30 s, so a grace of 20 s, that beats until 80, and once more at
	// 99.8
	rare := func(verdict float64, build func(last *drive.Sign, e *cloudevent.Event, w *world)) func(*world, *Device) {
		return func(w *world, d *Device) {
			w.brk(Killed, 100, 104)
			d.TTL = 30 * time.Second
			w.on(d, 1, 80)
			last := w.beat(d, 99.8)
			w.step(d, plan.Silent, 99.9)
			w.says(d.ID, "online", "", 1)
			build(last, w.says(d.ID, "offline", "silence", verdict), w)
		}
	}
	// dies at 99, and is back at 290, while the server is away for a time each period.
	recurring := func(kind BreakKind, period, away, verdict float64) func(*world, *Device) {
		return func(w *world, d *Device) {
			for at := 100.0; at < 280; at += period {
				w.brk(kind, at, at+away)
			}
			w.on(d, 1, 99)
			w.step(d, plan.Silent, 99)
			w.says(d.ID, "online", "", 1)
			if verdict > 0 {
				w.says(d.ID, "offline", "silence", verdict)
				w.says(d.ID, "online", "", 290.01)
			}
			w.on(d, 290, 300)
		}
	}
	return []scenario{
		{"killed, and all is well", until(Killed, func(w *world, d *Device) { w.on(d, 104.7, 300) }), "", ""},
		{"killed, and a healthy device is judged", until(Killed, func(w *world, d *Device) {
			w.on(d, 104.7, 300)
			w.says(d.ID, "offline", "silence", 106.5)
			w.says(d.ID, "online", "", 106.71)
		}), FalseOffline, "timeout is 10s"},
		{"killed, and judged at once", dies(Killed, 97, 104.2), FalseOffline, "silent for"},
		{"silent before, judged within the grace", dies(Killed, 92, 117.2), FalseOffline, "the grace is 13.3"},
		{"silent before, judged after the grace", dies(Killed, 92, 117.5), "", ""},
		{"silent before, judged late", dies(Killed, 92, 119), MissedOffline, "it was at"},
		{"silent before, never judged", func(w *world, d *Device) {
			dies(Killed, 92, 0)(w, d)
			w.on(d, 120, 300)
		}, MissedOffline, "it never was"},
		{"dies while the server is away", dies(Killed, 102, 117.5), "", ""},
		{"dies while the server is away, judged late", dies(Killed, 102, 119), MissedOffline, "it was at"},
		{"its silence began anew with the new life", func(w *world, d *Device) {
			dies(Killed, 80, 134)(w, d)
			d.TTL = 30 * time.Second
		}, MissedOffline, "it was at"},
		{"its last heartbeat was not answered", rare(125, func(last *drive.Sign, _ *cloudevent.Event, _ *world) { last.Answered = 0 }), "", ""},
		{"its last heartbeat is lost", rare(125, func(*drive.Sign, *cloudevent.Event, *world) {}), FalseOffline, "silent for"},
		{"its last heartbeat is lost in the verdict", rare(134.5, func(_ *drive.Sign, e *cloudevent.Event, w *world) {
			e.Data.LastSeen = w.time(79)
		}), AnswerLost, "heard last at +79"},
		{"its last heartbeat is known", rare(134.5, func(_ *drive.Sign, e *cloudevent.Event, w *world) { e.Data.LastSeen = w.time(99.8) }), "", ""},
		{"judged while no server lived", dies(Killed, 92, 102), FalseOffline, "no server was alive"},
		{"closed in the life before", until(Killed, func(w *world, d *Device) {
			w.step(d, plan.Close, 99)
			w.says(d.ID, "offline", "closed", 118)
		}), FalseOffline, "nothing of the kind"},
		{"closed in the life before, judged for silence", until(Killed, func(w *world, d *Device) {
			w.step(d, plan.Close, 99)
			w.says(d.ID, "offline", "silence", 118)
		}), "", ""},
		{"gives up before it came back after the restart", until(Killed, func(w *world, d *Device) {
			w.step(d, plan.Silent, 106)
			w.says(d.ID, "offline", "silence", 117.5)
		}), "", ""},
		{"turned away after the restart, and silent since", until(Killed, func(w *world, d *Device) {
			d.Busy = []int64{w.time(105).UnixNano()}
			w.step(d, plan.Silent, 105.5)
			w.says(d.ID, "offline", "silence", 115.2)
		}), "", ""},
		{"turned away after the restart, judged too early", until(Killed, func(w *world, d *Device) {
			d.Busy = []int64{w.time(105).UnixNano()}
			w.step(d, plan.Silent, 105.5)
			w.says(d.ID, "offline", "silence", 114.8)
		}), FalseOffline, "silent for 9.8s"},
		{"stopped, and all is well", until(Stopped, func(w *world, d *Device) { w.on(d, 100.5, 300) }), "", ""},
		{"said goodbye and came back during the stop", until(Stopped, func(w *world, d *Device) {
			w.step(d, plan.Bye, 100.5)
			w.says(d.ID, "offline", "bye", 104.2)
			w.on(d, 101, 300)
			d.Signs[slices.IndexFunc(d.Signs, func(s drive.Sign) bool { return s.At == w.time(101).UnixNano() })].Granted = w.time(104.21).UnixNano()
			w.says(d.ID, "online", "", 104.21)
		}), "", ""},
		{"stopped, and judged at once", dies(Stopped, 94.5, 104.2), FalseOffline, "silent for"},
		{"was due before the stop, told after it", dies(Stopped, 89.5, 104.1), "", ""},
		{"stopped, and judged by its silence", dies(Stopped, 92, 106.5), "", ""},
		{"stopped, judged within the length of the stop", dies(Stopped, 92, 109), "", ""},
		{"stopped, judged late", dies(Stopped, 92, 110.2), MissedOffline, "it was at"},
		{"crash loop, judged before it is over", recurring(Killed, 6, 0.5, 167), "", ""},
		{"crash loop, judged by the bound", recurring(Killed, 6, 0.5, 171.9), "", ""},
		{"crash loop, judged late", recurring(Killed, 6, 0.5, 174.1), Unjudged, "it was at"},
		{"crash loop, never judged", recurring(Killed, 6, 0.5, 0), Unjudged, "it never was"},
		{"stalls, judged", recurring(Stopped, 9.4, 1.2, 113.7), "", ""},
		{"stalls, judged late", recurring(Stopped, 9.4, 1.2, 140), MissedOffline, "it was at"},
		{"stalls, never judged", recurring(Stopped, 9.4, 1.2, 0), Unjudged, "it never was"},
		{"a full disk delays a verdict", func(w *world, d *Device) {
			w.History.Troubles = []Trouble{{Kind: Disk, From: seconds(100), To: seconds(120)}}
			dies(Stopped, 98, 123.5)(w, d)
		}, "", ""},
		{"a full disk stops the clock", func(w *world, d *Device) {
			w.History.Troubles = []Trouble{{Kind: Disk, From: seconds(100), To: seconds(120)}}
			dies(Stopped, 98, 128)(w, d)
		}, MissedOffline, "it was at"},
		{"the machine stood still", func(w *world, d *Device) {
			w.History.Troubles = []Trouble{{Kind: Starved, From: seconds(100), To: seconds(105)}}
			w.on(d, 1, 98)
			w.step(d, plan.Silent, 98)
			w.says(d.ID, "online", "", 1)
			w.says(d.ID, "offline", "silence", 114)
		}, "", ""},
		{"the server says that it was deaf", func(w *world, d *Device) {
			w.says("source/gateway", "source.deaf", "", 50)
			e := w.says("source/gateway", "source.heard", "", 57)
			e.Data.Deaf = new(7000.0)
			w.on(d, 1, 50)
			w.step(d, plan.Silent, 50)
			w.says(d.ID, "online", "", 1)
			w.says(d.ID, "offline", "silence", 66)
		}, MissedOffline, "it was at"},
		{"granted another timeout", func(w *world, d *Device) {
			w.on(d, 1, 300)
			w.says(d.ID, "online", "", 1)
			w.timeout = 20 * time.Second
		}, WrongState, "has a timeout of 20000ms by the API"},
	}
}

// expect checks that there is a violation of a kind, and none of another; none at all if want is
// "".
func expect(t *testing.T, f Findings, want ViolationKind, say string) {
	t.Helper()
	found := false
	for _, v := range f.Violations {
		if v.Kind != want {
			t.Errorf("%s: %s offset %d: %s", v.Kind, v.Subject, v.Offset, v.Detail)
		}
		found = found || (v.Kind == want && strings.Contains(v.Detail, say))
	}
	if want != "" && !found {
		t.Errorf("no %s with %q among %+v", want, say, f.Violations)
	}
}

// TestPlanted plants faults in the log of a run that is clean, and in what the readers saw.
func TestPlanted(t *testing.T) {
	clean := func() *world {
		w := newWorld()
		w.brk(Killed, 100, 104)
		for i := range 3 {
			d := w.device(fmt.Sprintf("dev-%d", i))
			w.on(d, 1, 50)
			w.step(d, plan.Silent, 50)
			w.on(d, 80, 300)
		}
		w.Devices = slices.Clone(w.Devices)
		for _, at := range []float64{1, 59.3, 80} {
			for i := range 3 {
				kind, reason := "online", ""
				if at == 59.3 {
					kind, reason = "offline", "silence"
				}
				w.says(fmt.Sprintf("dev-%d", i), kind, reason, at+float64(i)/100)
			}
		}
		w.says("source/gateway", "source.deaf", "", 100)
		w.says("source/gateway", "source.heard", "", 104.4).Data.Deaf = new(4400.0)
		w.told()
		return w
	}
	renumber := func(w *world) {
		for i := range w.Events {
			w.Events[i].Data.Offset = uint64(i + 1)
		}
		w.Followed, w.Seen = slices.Clone(w.Events), slices.Clone(w.Events)
	}
	tests := []struct {
		name  string
		plant func(w *world)
		want  []ViolationKind
	}{
		{"nothing", func(*world) {}, nil},
		{"the last event is gone", func(w *world) { w.Events = w.Events[:10] }, []ViolationKind{LostEvent}},
		{
			"an event in the middle is gone", func(w *world) { w.Events = slices.Delete(w.Events, 9, 10) },
			[]ViolationKind{LostEvent, OffsetGap, SequenceGap},
		},
		{"only the reader saw it", func(w *world) { w.Events, w.Followed = w.Events[:10], w.Followed[:10] }, []ViolationKind{LostEvent}},
		{"only the follower saw it", func(w *world) { w.Events, w.Seen = w.Events[:10], w.Seen[:10] }, []ViolationKind{LostEvent}},
		{"an event is another one now", func(w *world) { w.Events[4].Time = w.Events[4].Time.Add(time.Microsecond) }, []ViolationKind{LostEvent}},
		{"a number is missing", func(w *world) {
			w.Events = slices.Delete(w.Events, 9, 10)
			renumber(w)
		}, []ViolationKind{SequenceGap}},
		{"a number is there twice", func(w *world) {
			e := w.Events[7]
			w.Events = append(w.Events, e)
			renumber(w)
		}, []ViolationKind{Disorder}},
		{"numbers change places", func(w *world) {
			w.Events[0].Data.Seq, w.Events[3].Data.Seq = 2, 1
			renumber(w)
		}, []ViolationKind{SequenceGap, Disorder}},
		{"numbers begin anew after the restart", func(w *world) {
			w.Events[9].Data.Seq, w.Events[10].Data.Seq = 5, 6
			renumber(w)
		}, []ViolationKind{SequenceGap}},
		{"an epoch goes back", func(w *world) {
			w.Events[1].Data.Epoch = 3
			renumber(w)
		}, []ViolationKind{Disorder}},
		{"an offset is missing", func(w *world) {
			for i := range w.Events[6:] {
				w.Events[6+i].Data.Offset++
			}
			w.Followed, w.Seen = nil, slices.Clone(w.Events)
			w.Followed = slices.Clone(w.Events)
		}, []ViolationKind{OffsetGap, WrongStream}},
		{
			"the log has forgotten its beginning", func(w *world) { w.Events = w.Events[3:] },
			[]ViolationKind{OffsetGap, SequenceGap, LostEvent},
		},
		{"the follower is told twice", func(w *world) { w.Followed = slices.Insert(w.Followed, 5, w.Followed[4]) }, []ViolationKind{WrongStream}},
		{"the follower is not told", func(w *world) { w.Followed = slices.Delete(w.Followed, 5, 6) }, []ViolationKind{WrongStream}},
		{"the follower is not told of the last", func(w *world) { w.Followed = w.Followed[:10] }, []ViolationKind{WrongStream}},
		{"the follower is told that it missed some", func(w *world) { w.Missed = 1 }, []ViolationKind{WrongStream}},
		{"the API has another state", func(w *world) {
			w.States["dev-1"] = State{State: "unknown", Seq: 3, Timeout: 10_000, LastSeen: w.time(300)}
		}, []ViolationKind{WrongState}},
		{"the API has forgotten a device", func(w *world) { delete(w.States, "dev-1") }, []ViolationKind{WrongState, SequenceGap}},
		{"the API is ahead of the log", func(w *world) {
			w.States["dev-1"] = State{State: "online", Seq: 4, Timeout: 10_000, LastSeen: w.time(300)}
		}, []ViolationKind{SequenceGap}},
		{"the API has forgotten a heartbeat", func(w *world) {
			s := w.States["dev-1"]
			s.LastSeen = w.time(290)
			w.States["dev-1"] = s
		}, []ViolationKind{AnswerLost}},
		{"a state was shown that is not in the log", func(w *world) { w.Shown = map[string]bool{"dev-1:3": true, "dev-1:4": true} }, []ViolationKind{AnswerLost}},
		{"an answered write is there", func(w *world) {
			w.Writes = []Written{{Kind: "TTL", Device: "written-1-7", Found: &State{Timeout: 7_200_000}}, {Kind: "DELETE", Device: "written-1-0"}}
		}, nil},
		{"an answered write is gone", func(w *world) {
			w.Writes = []Written{{Kind: "TTL", Device: "written-1-7", Found: &State{Timeout: 3_600_000}}}
		}, []ViolationKind{AnswerLost}},
		{"what was deleted is back", func(w *world) {
			w.Writes = []Written{{Kind: "DELETE", Device: "written-1-0", Found: &State{State: "online"}}}
		}, []ViolationKind{AnswerLost}},
		{"a device that was written to", func(w *world) { w.says("written-1-7", "online", "", 200); renumber(w) }, nil},
		{"a stranger", func(w *world) { w.says("dev-9", "online", "", 200); renumber(w) }, []ViolationKind{WrongState}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := clean()
			tt.plant(w)
			found := map[ViolationKind]bool{}
			f := Score(&w.Evidence)
			for _, v := range f.Violations {
				found[v.Kind] = true
				if !slices.Contains(tt.want, v.Kind) {
					t.Errorf("%s: %s offset %d: %s", v.Kind, v.Subject, v.Offset, v.Detail)
				}
			}
			for _, kind := range tt.want {
				if !found[kind] {
					t.Errorf("no %s among %+v", kind, f.Violations)
				}
			}
		})
	}
}
