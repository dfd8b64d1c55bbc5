package chaos

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// at connects a device to an ear at an instant; it then sends heartbeats every 2 s.
func (w *world) at(d *Device, ear uint8, from, to float64) {
	w.on(d, from, to)
	d.Targets = append(d.Targets, ear)
}

// lapse adds a lapse of an ear, "" for all.
func (w *world) lapse(ear string, kind FaultKind, from, to float64) {
	lost := kind == EarKill || kind == EarTerm
	w.History.Lapses = append(w.History.Lapses, Lapse{Ear: ear, Kind: kind, Asked: seconds(from), Over: seconds(to), Lost: lost})
}

// An ear excuses what was said to it just before it was lost, for the grace of those who said it, and
// nothing else.
func TestLapses(t *testing.T) {
	// a device with a timeout of 30 s, so a grace of 20 s, that beats at ear a until 80, once more at
	// 99.9, and never again
	last := func(build func(w *world, d *Device), verdict float64) func(*world, *Device) {
		return func(w *world, d *Device) {
			d.TTL = 30 * time.Second
			w.at(d, 0, 1, 80)
			w.beat(d, 99.9)
			w.step(d, plan.Silent, 99.95)
			w.says(d.ID, "online", "", 1)
			build(w, d)
			if verdict > 0 {
				w.says(d.ID, "offline", "silence", verdict)
			}
		}
	}
	lost := func(ear string, kind FaultKind, from, to float64) func(*world, *Device) {
		return func(w *world, _ *Device) { w.lapse(ear, kind, from, to) }
	}
	// a device with a timeout of 10 s, so a grace of 13.3 s, that is with an ear until 100, and then
	// does something
	until := func(ear uint8, build func(w *world, d *Device)) func(*world, *Device) {
		return func(w *world, d *Device) {
			w.at(d, ear, 1, 100)
			w.says(d.ID, "online", "", 1)
			build(w, d)
		}
	}
	silent := func(kind FaultKind, to, verdict float64) func(*world, *Device) {
		return until(0, func(w *world, d *Device) {
			w.lapse("a", kind, 102, to)
			w.step(d, plan.Silent, 100)
			if verdict > 0 {
				w.says(d.ID, "offline", "silence", verdict)
			} else {
				w.at(d, 1, 180, 300)
			}
		})
	}
	for _, tt := range []scenario{
		{"killed, and its devices come back to another one", until(0, func(w *world, d *Device) {
			w.lapse("a", EarKill, 100, 104)
			w.at(d, 1, 101, 300)
		}), "", ""},
		{"killed, and a healthy device is judged", until(0, func(w *world, d *Device) {
			w.lapse("a", EarKill, 100, 104)
			w.at(d, 1, 101, 300)
			w.says(d.ID, "offline", "silence", 113.4)
			w.says(d.ID, "online", "", 115.01)
		}), FalseOffline, "the timeout is 10s"},
		{"its last heartbeat was lost with the ear", last(lost("a", EarKill, 100, 104), 120.1), "", ""},
		{"its last heartbeat was lost, and it is judged within the grace", last(lost("a", EarKill, 100, 104), 119.8), FalseOffline, "ear kill of its ear"},
		{"its last heartbeat came long before", last(lost("a", EarKill, 100.3, 104), 125), FalseOffline, "the timeout is 30s"},
		{"another ear is lost", last(lost("b", EarKill, 100, 104), 125), FalseOffline, "the timeout is 30s"},
		{"stopped for so short that it keeps all", last(lost("a", EarStop, 99.8, 101.5), 125), FalseOffline, "the timeout is 30s"},
		{"stopped for so long that it lets go", last(lost("a", EarLongStop, 99.8, 106), 122.3), "", ""},
		{"stopped for long, and judged within the grace", last(lost("a", EarLongStop, 99.8, 106), 122), FalseOffline, "ear long stop of its ear"},
		{"ended in order", last(lost("a", EarTerm, 100, 104), 125), FalseOffline, "the timeout is 30s"},
		{"ended in order, before it answered", last(func(w *world, d *Device) {
			w.lapse("a", EarTerm, 100, 104)
			d.Signs[len(d.Signs)-1].Answered = 0
		}, 125), "", ""},
		{"the judge was away for so long that it lets go", last(func(w *world, _ *Device) { w.brk(Killed, 100, 104) }, 124.2), "", ""},
		{"the judge was away for so long that it lets go, and judges within the grace", last(func(w *world, _ *Device) {
			w.brk(Killed, 100, 104)
		}, 123), FalseOffline, "the loss of the judge"},
		{"the judge was away for a moment", last(func(w *world, _ *Device) { w.brk(Killed, 100, 100.5) }, 125), FalseOffline, "the timeout is 30s"},
		{"its greeting cannot be lost", last(func(w *world, d *Device) {
			w.lapse("a", EarKill, 100, 104)
			d.Signs[len(d.Signs)-1].Granted = w.time(99.92).UnixNano()
			d.Targets = append(d.Targets, 0)
		}, 125), FalseOffline, "the timeout is 30s"},
		{"a verdict knows of no heartbeat that was lost", last(func(w *world, d *Device) {
			w.lapse("a", EarKill, 100, 104)
			w.says(d.ID, "offline", "silence", 122).Data.LastSeen = w.time(79)
		}, 0), "", ""},
		{"a verdict knows of no heartbeat that was not lost", last(func(w *world, d *Device) {
			w.says(d.ID, "offline", "silence", 130).Data.LastSeen = w.time(79)
		}, 0), AnswerLost, "heard last at +79"},
		{"silent, judged after the failover and the grace", silent(EarKill, 104, 128.5), "", ""},
		{"silent, judged later", silent(EarKill, 104, 130), MissedOffline, "it was at"},
		{"silent, never judged", silent(EarKill, 104, -1), Unjudged, "it never was"},
		{"silent, judged as if nothing had happened", silent(EarKill, 104, 109.2), "", ""},
		{"silent at an ear that drains, judged after its grace", silent(EarTerm, 108, 121.9), "", ""},
		{"silent at an ear that drains, judged as if nothing had happened", silent(EarTerm, 108, 110), "", ""},
		{"silent at an ear that drains, judged later", silent(EarTerm, 108, 125), MissedOffline, "it was at"},
		{"silent at an ear that drains for long after a trouble, judged after its grace", until(0, func(w *world, d *Device) {
			w.History.Troubles = []Trouble{{Kind: SlowDB, From: seconds(70), To: seconds(79)}}
			w.lapse("a", EarTerm, 80, 104)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 117.5)
		}), "", ""},
		{"silent at an ear that drains for long after a trouble, judged late", until(0, func(w *world, d *Device) {
			w.History.Troubles = []Trouble{{Kind: SlowDB, From: seconds(70), To: seconds(79)}}
			w.lapse("a", EarTerm, 80, 104)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 140)
		}), MissedOffline, "it was at"},
		{"its ear outlives judges until it has used up its graces", until(0, func(w *world, d *Device) {
			w.step(d, plan.Silent, 100)
			for _, from := range []float64{103, 113, 123, 133, 143} { // 4 s each, which the ear goes on to hear
				w.brk(Killed, from, from+4)
			}
			w.brk(Killed, 149.2, 160.2) // 11 s, which it does not
			w.says(d.ID, "offline", "silence", 161)
		}), "", ""},
		{"silent while another ear drains", until(1, func(w *world, d *Device) {
			w.lapse("a", EarTerm, 102, 108)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 114)
		}), MissedOffline, "to be offline by"},
		{"silent while another ear drains, and the judge is killed", until(1, func(w *world, d *Device) {
			w.lapse("a", EarTerm, 102, 108)
			w.brk(Killed, 103, 104)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 122)
		}), "", ""},
		{"greeted an ear that had no judge, and closes soon after it has one", until(0, func(w *world, d *Device) {
			w.lapse("a", EarCut, 98, 106)
			w.on(d, 104, 105)
			d.Targets, d.Signs[len(d.Signs)-1].Granted = append(d.Targets, 0), w.time(106.1).UnixNano()
			w.step(d, plan.Close, 107.5)
			w.says(d.ID, "offline", "closed", 120)
		}), "", ""},
		{"greeted an ear that had no judge, and is judged late", until(0, func(w *world, d *Device) {
			w.lapse("a", EarCut, 98, 106)
			w.on(d, 104, 105)
			d.Targets, d.Signs[len(d.Signs)-1].Granted = append(d.Targets, 0), w.time(106.1).UnixNano()
			w.step(d, plan.Close, 107.5)
			w.says(d.ID, "offline", "closed", 122)
		}), MissedOffline, "it was at"},
		{"closes soon after a judge is back, and was not heard since", until(0, func(w *world, d *Device) {
			w.brk(Ended, 100, 100.2)
			w.step(d, plan.Close, 102)
			w.says(d.ID, "offline", "closed", 114)
		}), "", ""},
		{"closes soon after a judge is back, and is judged late", until(0, func(w *world, d *Device) {
			w.brk(Ended, 100, 100.2)
			w.step(d, plan.Close, 102)
			w.says(d.ID, "offline", "closed", 120)
		}), MissedOffline, "it was at"},
		{"closes soon after a judge is back, and was heard since", until(0, func(w *world, d *Device) {
			w.brk(Ended, 100, 100.2)
			w.beat(d, 102)
			w.step(d, plan.Close, 103)
			w.says(d.ID, "offline", "closed", 114)
		}), MissedOffline, "it was at"},
		{"silent at an ear whose link is slow", silent(EarSlow, 112, 109.9), "", ""},
		{"silent at an ear whose link is slow, and judged late", silent(EarSlow, 112, 112), MissedOffline, "it was at"},
		{"its last heartbeat was lost with an ear whose link was slow", last(func(w *world, _ *Device) {
			w.lapse("a", EarSlow, 95, 99.95)
			w.lapse("a", EarKill, 100.3, 104)
		}, 120.4), "", ""},
		{"its last heartbeat was lost with an ear whose link lost packets", last(func(w *world, _ *Device) {
			w.lapse("a", EarLossy, 95, 99.95)
			w.lapse("a", EarKill, 100.8, 104)
		}, 120.9), "", ""},
		{"its last heartbeat came long before the end of an ear whose link lost packets", last(func(w *world, _ *Device) {
			w.lapse("a", EarLossy, 95, 99.95)
			w.lapse("a", EarKill, 101.3, 104)
		}, 121.4), FalseOffline, "the timeout is 30s"},
		{"silent at an ear whose link loses packets, and judged late", silent(EarLossy, 112, 112), MissedOffline, "it was at"},
		{"its last heartbeat came long before, and the link of another ear was slow", last(func(w *world, _ *Device) {
			w.lapse("b", EarSlow, 95, 99.95)
			w.lapse("a", EarKill, 100.3, 104)
		}, 120.4), FalseOffline, "the timeout is 30s"},
		{"closes while another ear drains", until(1, func(w *world, d *Device) {
			w.lapse("a", EarTerm, 98, 108)
			w.step(d, plan.Close, 100.01)
			w.says(d.ID, "offline", "closed", 114)
		}), MissedOffline, "it was at"},
		{"silent, and an ear stops for a moment", silent(EarStop, 103.5, 111.5), "", ""},
		{"silent, an ear stops for a moment, and judged late", silent(EarStop, 103.5, 114), MissedOffline, "it was at"},
		{"closes while another ear is removed a little late", until(0, func(w *world, d *Device) {
			w.lapse("b", EarLongStop, 97, 106)
			w.step(d, plan.Close, 100.01)
			w.says(d.ID, "offline", "closed", 124)
		}), "", ""},
		{"closes after another ear was removed, and was not heard since", until(0, func(w *world, d *Device) {
			w.lapse("b", EarLongStop, 97.5, 106)
			w.step(d, plan.Close, 102.6)
			w.says(d.ID, "offline", "closed", 123)
		}), "", ""},
		{"closes after another ear was removed, and was heard since", until(0, func(w *world, d *Device) {
			w.lapse("b", EarLongStop, 97.5, 106)
			w.beat(d, 101)
			w.step(d, plan.Close, 102.6)
			w.says(d.ID, "offline", "closed", 123)
		}), MissedOffline, "it was at"},
		{"closes while a new judge waits for another ear", until(0, func(w *world, d *Device) {
			w.lapse("b", EarCut, 96.5, 106)
			w.brk(Ended, 98, 98.2)
			w.step(d, plan.Close, 100.5)
			w.says(d.ID, "offline", "closed", 117)
		}), "", ""},
		{"closes after a new judge has waited for another ear", until(0, func(w *world, d *Device) {
			w.lapse("b", EarCut, 87, 96)
			w.brk(Ended, 89, 89.2)
			w.step(d, plan.Close, 100.01)
			w.says(d.ID, "offline", "closed", 117)
		}), MissedOffline, "it was at"},
		{"closes long after another ear was removed", until(0, func(w *world, d *Device) {
			w.lapse("b", EarLongStop, 92, 99)
			w.step(d, plan.Close, 100.01)
			w.says(d.ID, "offline", "closed", 124)
		}), MissedOffline, "it was at"},
		{"closes at an ear that is lost", until(0, func(w *world, d *Device) {
			w.lapse("a", EarKill, 100.1, 104)
			w.step(d, plan.Close, 100)
			w.says(d.ID, "offline", "silence", 115)
		}), "", ""},
		{"its ear outlives the judge, and it is judged as if nothing had happened", until(0, func(w *world, d *Device) {
			w.brk(Killed, 104, 108)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 109.1)
		}), "", ""},
		{"its ear outlives the judge, and it is judged too early", until(0, func(w *world, d *Device) {
			w.brk(Killed, 104, 107)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 108.5)
		}), FalseOffline, "the timeout is 10s"},
		{"its ear drains while the judge is away, and it is judged as if nothing had happened", until(0, func(w *world, d *Device) {
			w.lapse("a", EarTerm, 103, 123)
			w.brk(Ended, 104, 104.5)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 110)
		}), "", ""},
		{"its ear has ended when the judge is back, and it is judged without a grace", until(0, func(w *world, d *Device) {
			w.lapse("a", EarTerm, 90, 106)
			w.brk(Ended, 104, 106)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 112)
		}), FalseOffline, "the grace is"},
		{"its ear is killed with the judge, and it is judged without a grace", until(0, func(w *world, d *Device) {
			w.brk(Killed, 104, 108)
			w.lapse("a", EarKill, 106, 107)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 110)
		}), FalseOffline, "listening at most"},
		{"it was away for so long that no ear outlives it", until(0, func(w *world, d *Device) {
			w.brk(Killed, 104, 115)
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 116)
		}), FalseOffline, "listening at most"},
		{"closes at an ear that lives", until(0, func(w *world, d *Device) {
			w.step(d, plan.Close, 100)
			w.says(d.ID, "offline", "silence", 109)
		}), MissedOffline, "to be offline by +106"},
		{"its ear closes its connection", until(0, func(w *world, d *Device) {
			w.lapse("a", EarTerm, 100, 104)
			w.says(d.ID, "offline", "closed", 105)
			w.at(d, 1, 106, 300)
			w.says(d.ID, "online", "", 106)
		}), FalseOffline, "nothing of the kind"},
		{"says goodbye to a busy ear just before the judge is killed", until(0, func(w *world, d *Device) {
			w.step(d, plan.Bye, 100)
			w.brk(Killed, 100.6, 104)
			w.says(d.ID, "offline", "bye", 104.6)
		}), "", ""},
		{"gave up a greeting, and another one waits when that is judged", until(0, func(w *world, d *Device) {
			d.Busy = []int64{w.time(104).UnixNano()}
			w.at(d, 1, 108.8, 300)
			d.Signs[len(d.Signs)-96].Granted = w.time(109.4).UnixNano()
			w.says(d.ID, "offline", "closed", 109.2)
			w.says(d.ID, "online", "", 109.4)
		}), "", ""},
		{"gave up a greeting that was heard when it had been silent for long", until(0, func(w *world, d *Device) {
			w.step(d, plan.Silent, 100)
			w.says(d.ID, "offline", "silence", 109.1)
			d.Busy = []int64{w.time(150).UnixNano()}
			w.says(d.ID, "online", "", 150.2)
			w.step(d, plan.Silent, 153)
			w.at(d, 1, 155, 300)
		}), "", ""},
		{"gave up a greeting after a judge that had forgotten all", until(0, func(w *world, d *Device) {
			w.brk(Killed, 101, 104)
			w.History.Breaks[len(w.History.Breaks)-1].Forgets = true
			d.Busy = []int64{w.time(105).UnixNano()}
			w.step(d, plan.Silent, 105.5)
			w.says(d.ID, "offline", "silence", 117.5)
		}), "", ""},
		{"was heard again between its deadline and the verdict", until(0, func(w *world, d *Device) {
			w.step(d, plan.Silent, 100)
			w.beat(d, 109.3)
			w.says(d.ID, "offline", "silence", 109.9).Data.LastSeen = w.time(99)
			w.says(d.ID, "online", "", 109.95)
			for beat := 111.3; beat < 300; beat += 2 {
				w.beat(d, beat)
			}
		}), "", ""},
		{"says goodbye while the judge is away", until(0, func(w *world, d *Device) {
			w.brk(Killed, 100, 101)
			w.step(d, plan.Bye, 100.5)
			w.says(d.ID, "offline", "bye", 101.6)
		}), "", ""},
		{"came back to an ear that stood still", until(0, func(w *world, d *Device) {
			w.lapse("b", EarLongStop, 104, 111)
			w.step(d, plan.Silent, 100)
			w.at(d, 1, 105, 106)
			d.Signs[len(d.Signs)-1].Granted = w.time(112).UnixNano()
			for beat := 113.0; beat < 300; beat += 2 {
				w.beat(d, beat)
			}
			w.says(d.ID, "offline", "silence", 110.5)
			w.says(d.ID, "online", "", 112)
		}), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.History.Ears = []string{"a", "b"}
			tt.build(w, w.device("dev-1"))
			w.told()
			expect(t, Score(&w.Evidence), tt.want, tt.say)
		})
	}
}

// Without ears, a connection ends with its node, and its device has its grace.
func TestNoEars(t *testing.T) {
	w := newWorld()
	d := w.device("dev-1")
	w.at(d, 0, 1, 100) // a node
	w.brk(Killed, 104, 108)
	w.step(d, plan.Silent, 100)
	w.says(d.ID, "online", "", 1)
	w.says(d.ID, "offline", "silence", 110)
	w.told()
	expect(t, Score(&w.Evidence), FalseOffline, "listening at most")
}
