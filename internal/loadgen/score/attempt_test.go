package score_test

import (
	"maps"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

// gaveUp is a device that said hello and closed the connection itself, because nothing answered. last is its last sign of life before
// all that, 0 if there was none.
func gaveUp(last, greeted, ended, back float64) plan.Truth {
	t := plan.Truth{At: at(ended), Greeted: at(greeted), Cause: plan.NoAnswer}
	if last != 0 {
		t.Last = at(last)
	}
	if back != 0 {
		t.Back = at(back)
	}
	return t
}

// brokenOff is the same, but it was the gateway that ended the connection.
func brokenOff(last, greeted, ended, back float64) plan.Truth {
	t := gaveUp(last, greeted, ended, back)
	t.Cause = "closed by peer"
	return t
}

// attemptCases are hellos that nothing answered: the gateway may have heard them, and need not have.
func attemptCases() []scoreCase {
	first := []any{gaveUp(0, 44, 50, 0), gaveUp(0, 44, 50, 57)}
	forGood := []any{gaveUp(0, 44, 50, 0)}
	thrice := []any{gaveUp(0, 10, 20, 0), gaveUp(0, 30, 40, 0), gaveUp(0, 60, 70, 0), gaveUp(0, 10, 20, 80)}
	reset := func(back float64) []any { return []any{did(plan.Reset, 50, back)} }
	again := func(greeted, ended, back float64) []any {
		list := append(reset(0), gaveUp(49, greeted, ended, 0))
		if back != 0 {
			list = append(list, did(plan.Reset, 50, back), gaveUp(49, greeted, ended, back))
		}
		return list
	}
	crash := []any{did(plan.Crash, 50, 0), gaveUp(49, 70, 80, 0), did(plan.Crash, 50, 90), gaveUp(49, 70, 80, 90)}
	return []scoreCase{
		{"never welcomed, heard, and closed by itself", first, numbered(on(45), off("closed", 52), on(57)), count{"right": 1}},
		{"never welcomed, and closed before it was", first, numbered(on(45), off("closed", 51.9), on(57)), count{"false": 1, "early": 1}},
		{"never welcomed, and closed without grace", first, numbered(on(45), off("closed", 50), on(57)), count{"false": 1, "early": 1}},
		{"never welcomed, and closed after the return", first, numbered(on(45), off("closed", 58), on(59)), count{"false": 1, "replaced": 1}},
		{"never welcomed, and called silent in time", first, numbered(on(45), off("silence", 55), on(57)), count{"right": 1}},
		{"never welcomed, and called silent too early", first, numbered(on(45), off("silence", 51), on(57)), count{"false": 1, "early": 1}},
		{"never welcomed, and called misbehaving", first, numbered(on(45), off("protocol", 52), on(57)), count{"reason": 1}},
		{"never welcomed, and not heard", first, numbered(on(57)), count{}},
		{"never welcomed, and offline before it said hello", first, numbered(on(30), off("closed", 35), on(57)), count{"false": 1}},
		{"never welcomed, not back, and not judged", forGood, numbered(on(45)), count{}},
		{"never welcomed, not back, and not heard", forGood, nil, count{}},
		{"never welcomed, and each attempt heard", thrice, numbered(on(11), off("closed", 22), on(31), off("closed", 42), on(61), off("closed", 72), on(80)), count{"right": 1, "excused": 2}},
		{"never welcomed, and broken off", []any{brokenOff(0, 40, 50, 55)}, numbered(on(45), off("protocol", 47), on(55)), count{"right": 1}},
		{"back within grace of what it gave up", []any{gaveUp(0, 44, 50, 51.5)}, numbered(on(45)), count{}},

		{"heard in time, and back in time after that", again(51, 61, 62.5), numbered(on(0)), count{}},
		{"heard in time, and closed after that", again(51, 61, 80), numbered(on(0), off("closed", 63), on(80)), count{"right": 1}},
		{"heard in time, and closed before that", again(51, 61, 80), numbered(on(0), off("closed", 52), on(80)), count{"right": 1}}, // it was not heard
		{"heard in time, and judged when it was, too", again(51, 61, 80), numbered(on(0), off("closed", 52), on(53), off("closed", 63), on(80)), count{"right": 1, "excused": 1}},
		{"heard in time, and not judged after that", again(51, 61, 80), numbered(on(0)), count{"missed": 1}},
		{"heard in time, not back, and not judged", again(51, 61, 0), numbered(on(0)), count{"missed": 1}},
		{"heard too late, and not judged before", again(70, 80, 81), numbered(on(0)), count{"missed": 1}},
		{"heard too late, online for a moment, and judged again too early", again(70, 80, 100), numbered(on(0), off("closed", 52), on(71), off("closed", 75), on(100)), count{"right": 1, "duplicates": 1}},
		{"heard too late, online for a moment, and judged again", again(70, 80, 100), numbered(on(0), off("closed", 52), on(71), off("closed", 82), on(100)), count{"right": 1, "excused": 1}},
		{"heard too late, and online for good", again(70, 80, 0), numbered(on(0), off("closed", 52), on(71)), count{"right": 1, "false online": 1}},
		{"heard just before the end", again(290, 297, 0), numbered(on(0), off("closed", 52), on(291)), count{"right": 1}},
		{"online before it said hello", again(80, 90, 100), numbered(on(0), off("closed", 52), on(60)), count{"right": 1, "false online": 1}},
		{"crashed, judged, and heard", crash, numbered(on(0), off("silence", 59), on(71), off("closed", 82), on(90)), count{"right": 1, "excused": 1}},
		{"crashed, not judged, and heard", crash, numbered(on(0), off("closed", 82), on(90)), count{"reason": 1}},
		{"said goodbye, came back, and was heard", []any{did(plan.Bye, 50, 0), gaveUp(49, 70, 80, 0)}, numbered(on(0), off("bye", 50), on(71), off("closed", 82)), count{"right": 1, "excused": 1}},
		{"said goodbye, and was not judged for it", []any{did(plan.Bye, 50, 0), gaveUp(49, 51, 61, 0), did(plan.Bye, 50, 62), gaveUp(49, 51, 61, 62)}, numbered(on(0)), count{"missed": 1}},
		{"stopped by the plan while it waited", []any{plan.Truth{Kind: plan.Reset, At: at(50), Greeted: at(45)}}, numbered(on(46), off("closed", 52)), count{"right": 1}},
	}
}

// A gateway that heard an attempt only late is not late with its verdict.
func TestLatencyOfAttempts(t *testing.T) {
	s, err := score.New(fleet(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Verdict(score.Verdict{URL: here, Kind: score.Following, Full: true})
	s.Add(did(plan.Reset, 50, 0))
	s.Add(gaveUp(49, 51, 61, 0))
	for _, v := range numbered(on(0), off("closed", 63)) {
		v.Epoch, v.Offset, v.ID = 1, v.Seq, "d-0:"+string(rune('0'+v.Seq))
		s.Verdict(v)
	}
	r := s.Finish(at(100))
	if got := found(r); !maps.Equal(got, count{"right": 1}) || time.Duration(r.Told.Max) > time.Millisecond {
		t.Errorf("found %v, told after %v; want right and at once", got, r.Told.Max)
	}
}
