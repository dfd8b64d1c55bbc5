package main

import "fmt"

// column is a column of a table: the median of a metric, its spread, and, if versus is set, how many times Holter's it is.
type column struct {
	title  string
	metric metric
	versus bool
	best   bool   // the least median is set in bold
	early  metric // a rival that has any of it did not wait for its deadlines, and cannot be the best
	count  bool   // printed as a whole number
	text   func(contender) string
}

type table struct {
	title   string
	text    string
	columns []column
	rows    []string // rows that are no contender
}

const closingTitle = "Arming while it is closed"

// tables are printed in this order.
func tables(s sizes) []table { return append(operationTables(s), dueTables(s)...) }

func operationTables(s sizes) []table {
	return []table{
		{
			title: "Arm",
			text:  fmt.Sprintf("%s timers are started one after the other, with timeouts of 30 to 90 s.", count(s.n)),
			columns: []column{
				{title: "ns", metric: armNanos, versus: true, best: true},
				{title: "allocations", metric: armAllocs},
			},
		},
		{
			title: "Heartbeat",
			text: fmt.Sprintf("%s live timers are renewed once each, in random order. The last row is no timer: it is what one "+
				"compare-and-swap on a random eight-byte word costs in the same loop.", count(s.n)),
			columns: []column{
				{title: "renewed by", text: func(c contender) string { return c.renews }},
				{title: "ns", metric: touchNanos, versus: true, best: true},
				{title: "allocations", metric: touchAllocs},
			},
			rows: []string{baselineName},
		},
		{
			title:   "Cancel",
			text:    fmt.Sprintf("%s live timers, each renewed once, are cancelled in random order.", count(s.n)),
			columns: []column{{title: "ns", metric: cancelNanos, versus: true, best: true}},
		},
		{
			title: "Memory",
			text: fmt.Sprintf("Live bytes per timer with %s timers: after arming, without the caller's table of ids, and without "+
				"closures, since all share one func. Growth: with %s timers, before and after %d heartbeats of each but one, the "+
				"earliest, which is silent.", count(s.n), count(s.growth), heartbeats),
			columns: []column{
				{title: "bytes", metric: liveBytesPer, versus: true, best: true},
				{title: fmt.Sprintf("bytes, %s timers", count(s.growth)), metric: grownBefore},
				{title: fmt.Sprintf("bytes, after %d heartbeats", heartbeats), metric: grownAfter, versus: true, best: true},
			},
		},
		{
			title: "Garbage collection",
			text: fmt.Sprintf("`runtime.GC()` with %s live timers, the median of five. The ids are live too, and where they are "+
				"pointers they are scanned as well.", count(s.n)),
			columns: []column{{title: "ms", metric: gcMillis, versus: true, best: true}},
		},
	}
}

func dueTables(s sizes) []table {
	return []table{
		{
			title: "All due at one instant",
			text: fmt.Sprintf("%s timers are due at the same instant; each callback adds one to a counter. The time from that instant "+
				"to the end of the last callback, and how many callbacks started before it.", count(s.n)),
			columns: []column{
				{title: "callbacks run on", text: func(c contender) string { return c.runs }},
				{title: "last after, ms", metric: instantLast, versus: true, best: true, early: instantEarly},
				{title: "early", metric: instantEarly, count: true},
				{title: "early by at most, ms", metric: instantEarlyBy},
				{title: "never fired", metric: instantMissing, count: true},
			},
		},
		{
			title: fmt.Sprintf("Due over %v", s.window),
			text: fmt.Sprintf("%s timers, armed in random order, are due evenly over %v. The time from each deadline to the start of its "+
				"callback; CPU time of the process over those %v, the callbacks' own clock reading (some 50 ns each) among it.",
				count(s.spread), s.window, s.window),
			columns: []column{
				{title: "late p50, ms", metric: windowP50, versus: true, best: true, early: windowEarly},
				{title: "p99, ms", metric: windowP99, best: true, early: windowEarly},
				{title: "max, ms", metric: windowMax},
				{title: "early", metric: windowEarly, count: true},
				{title: "early by at most, ms", metric: windowEarlyBy},
				{title: "CPU, s", metric: windowCPU, versus: true, best: true, early: windowEarly},
			},
		},
		{
			title: "One slow callback",
			text: fmt.Sprintf("One callback blocks for %v, with one worker where a rival has workers. Meanwhile %s other timers fall due, "+
				"and a timer is armed, renewed and cancelled each millisecond. Behind one blocked worker callbacks must wait; the clock "+
				"and the operations need not. Holter says itself when it found a timer due (an upper bound, a power of two of µs); of the "+
				"others only the callbacks can be seen.", s.block, count(s.others)),
			columns: []column{
				{title: "callbacks run on", text: func(c contender) string { return c.runs }},
				{title: "found due late p99, ms", metric: slowEngineP99},
				{title: "callback late p99, ms", metric: slowRunP99},
				{title: "longest arm, ms", metric: slowArmMax},
				{title: "longest renewal, ms", metric: slowTouchMax},
				{title: "longest cancel, ms", metric: slowCancelMax},
			},
		},
		{
			title: closingTitle,
			text: fmt.Sprintf("%s goroutines arm one timer each, due at once; when a quarter has done so, it is closed. What the arming "+
				"came to, and how many of the armed ran. Lost: armed more than %v before the closing began, and never run.",
				count(s.adders), closeSlack),
			columns: []column{
				{title: "armed", metric: closeAccepted, count: true},
				{title: "of those ran", metric: closeRan, count: true},
				{title: "lost", metric: closeLost, count: true},
				{title: "refused with an error", metric: closeRefused, count: true},
				{title: "panicked", metric: closePanicked, count: true},
				{title: "never returned", metric: closeHung, count: true},
			},
		},
	}
}
