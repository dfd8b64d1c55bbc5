package link

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// oneByOne is beats without reading ahead. It returns how many heartbeats came in sessions that were
// replaced.
func (in *intake) oneByOne(b *linkpb.Beats) (belated int, err error) {
	slots, gens, ages := b.GetSlots(), b.GetGens(), b.GetAgesUs()
	if len(gens) != len(slots) || len(ages) != len(slots) {
		return 0, status.Error(codes.InvalidArgument, "the lists of heartbeats differ in length")
	}
	for i, slot := range slots {
		if err := checkSlot(slot); err != nil {
			return belated, err
		}
		st := in.find(slot, gens[i])
		if st == nil {
			continue
		}
		age := time.Duration(min(ages[i], maxAge)) * time.Microsecond
		if !st.Beat(in.past[st.input].At(age)) {
			belated++
			in.belated(st, age)
		}
	}
	return belated, nil
}

// intakeOf returns an intake of a member whose lock is held.
func intakeOf(m *member, now time.Time) *intake {
	in := &intake{member: m, now: now}
	for r := range m.inputs() {
		in.past[r.input] = r.source.Owner().Past(now)
	}
	return in
}

// twin is an ear at a judge, with the log of that.
type twin struct {
	*member

	log *eventlog.Log
}

const (
	twinSlots   = 3*beatsAhead + 7
	twinDevices = twinSlots * 2 / 3 // so that sessions replace each other
)

func newTwin(t *testing.T) twin {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	return twin{newMemberOf(t, log, &linkpb.Join{Name: "one", Datagrams: &linkpb.Datagrams{}}), log}
}

// listen pulses the ear's sources, so that they have listened until now. Verdicts show when they were
// found due, so each step waits for those of the one before.
func (w twin) listen(now time.Time) {
	for r := range w.inputs() {
		at := r.source.Pulse(now)
		synctest.Wait()
		r.source.Watermark(0, at)
		synctest.Wait()
	}
}

// state is all that the registry shows of the devices.
func (w twin) state(t *testing.T) (views []liveness.View) {
	t.Helper()
	for i := range twinDevices {
		v, err := w.judge.registry.Device(fmt.Sprint("d", i))
		if err != nil {
			v = liveness.View{}
		}
		views = append(views, v)
	}
	return views
}

// events are those of each device in their order, and how many of them are verdicts of silence.
func (w twin) events(t *testing.T) (lines []string, verdicts int) {
	t.Helper()
	events, err := w.log.Read(nil, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(events, func(a, b liveness.Event) int { return cmp.Compare(a.Subject, b.Subject) }) // those of one instant have no order
	for i := range events {
		e := &events[i]
		if e.Type == liveness.DeviceOffline && e.Reason == liveness.Silence {
			verdicts++
		}
		lines = append(lines, fmt.Sprint(e.ID(), e.Type, e.Reason, e.Epoch, e.Time, e.Source, e.Policy, e.LastSeen, e.Deadline, e.HeardSilence,
			e.Timeout, e.Message, e.Flapping, e.Deaf, e.Members, e.Silent))
	}
	return lines, verdicts
}

// randomAsk returns a frame of a session at a slot: it is opened, in a generation of its own, or says
// something.
func randomAsk(rnd *rand.Rand, gens []uint32) *linkpb.EarFrame {
	slot := rnd.Uint32N(twinSlots)
	age := rnd.Int64N(int64(time.Second))
	a := &linkpb.Ask{Slot: slot, Gen: gens[slot], AgeNs: age}
	switch rnd.IntN(12) {
	case 0:
		return &linkpb.EarFrame{Body: &linkpb.EarFrame_Close{Close: &linkpb.Close{Slot: slot, Gen: gens[slot], AgeNs: age}}}
	case 1:
		a.What = &linkpb.Ask_Sleep{Sleep: &linkpb.Sleep{LengthNs: int64(30 * time.Second)}}
	case 2:
		a.What = &linkpb.Ask_Fail{Fail: &linkpb.Fail{Message: "hot"}}
	case 3:
		a.What = &linkpb.Ask_Bye{Bye: &linkpb.Bye{}}
	default:
		gens[slot]++
		a.Gen = gens[slot]
		a.What = &linkpb.Ask_Open{Open: &linkpb.Open{
			Id: fmt.Sprint("d", rnd.IntN(twinDevices)), Datagrams: rnd.IntN(2) == 0, TimeoutNs: (4 + rnd.Int64N(10)) * int64(time.Second),
		}}
	}
	return &linkpb.EarFrame{Body: &linkpb.EarFrame_Ask{Ask: a}}
}

func randomBeats(rnd *rand.Rand, gens []uint32) *linkpb.Beats {
	b := &linkpb.Beats{}
	for range rnd.IntN(twinSlots) {
		slot := rnd.Uint32N(twinSlots)
		gen, age := gens[slot], rnd.Uint64N(1_500_000) // no timeout passes while the message is applied
		switch rnd.IntN(2000) {
		case 0:
			slot = maxSlots
		case 1:
			slot = maxSlots - 1
		}
		if rnd.IntN(20) == 0 {
			gen--
		}
		b.Slots, b.Gens, b.AgesUs = append(b.Slots, slot), append(b.Gens, gen), append(b.AgesUs, age)
	}
	return b
}

// Heartbeats whose sessions are read ahead do what they do one by one: with sessions that were
// replaced or have ended, devices that sleep, are offline or late, and ears that make no sense.
func TestBeatsAhead(t *testing.T) {
	seeds := uint64(2)
	if testenv.Checks() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { beatsAheadAndOneByOne(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func beatsAheadAndOneByOne(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	ahead, single := newTwin(t), newTwin(t)
	gens := make([]uint32, twinSlots)
	var heard, belated, senseless int
	for round := range 300 {
		time.Sleep(time.Duration(rnd.Int64N(int64(700 * time.Millisecond))))
		if rnd.IntN(50) == 0 {
			time.Sleep(10 * time.Second) // the sources are deaf
		}
		now := time.Now()
		var frames []*linkpb.EarFrame
		for range rnd.IntN(8) {
			frames = append(frames, randomAsk(rnd, gens))
		}
		beats := &linkpb.Beats{}
		if rnd.IntN(40) > 0 {
			beats = randomBeats(rnd, gens)
		}
		silent := round/40%3 == 2 // long enough for verdicts
		for _, w := range []twin{ahead, single} {
			if err := w.receive(w.stream, frames, now); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if !silent {
			ahead.mu.Lock()
			got := intakeOf(ahead.member, now).beats(beats)
			ahead.mu.Unlock()
			single.mu.Lock()
			n, want := intakeOf(single.member, now).oneByOne(beats)
			single.mu.Unlock()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("round %d: beats = %v, want %v", round, got, want)
			}
			if heard, belated = heard+len(beats.GetSlots()), belated+n; want != nil {
				senseless++
			}
		}
		for _, w := range []twin{ahead, single} {
			w.listen(now)
			w.queue.nextFrame(w.stream)
		}
		got, want := ahead.state(t), single.state(t)
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("round %d: device %d is\n%+v, one by one\n%+v", round, i, got[i], want[i])
			}
		}
		if got, want := ahead.judge.registry.Stats(), single.judge.registry.Stats(); !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d: stats %+v, one by one %+v", round, got, want)
		}
	}
	got, _ := ahead.events(t)
	events, verdicts := single.events(t)
	if !slices.Equal(got, events) {
		t.Fatalf("events are\n%s\none by one\n%s", strings.Join(got, "\n"), strings.Join(events, "\n"))
	}
	t.Logf("%d heartbeats, %d in sessions that were over, %d senseless messages, %d events, %d verdicts", heard, belated, senseless, len(events), verdicts)
	if belated == 0 || verdicts == 0 {
		t.Error("the test is too tame")
	}
}
