package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/timer"
)

// A page of gaps holds silences as bytes, sorted by device number, those of a device in order:
//
//	magic "HGP", version 1
//	store id, 16 bytes
//	hour and page as in the table gaps, number of gaps
//	least end by the wall clock in ms, least length in ticks
//	sources: how many, and for each the length of its name, the name, and its base
//	columns, see appendColumn
//	CRC-32C of all of the above, 4 bytes
//
// The columns are: 1 and the distance to the device number of the gap before; what ended the gap; the
// index of its source; when it ended, in ms after the least; its length in ticks beyond the least; for
// those that are gaps, by how many ticks more than the base of its source the wall clock was ahead of the
// listening clock at its end, which is nearly the same for all; and, mostly 0, when a sleep and a
// connection ended, the reason, and flags. As the first column has no 0, each gap takes
// a bit or more.
const (
	gapPageVersion = 1
	// maxGaps is how many gaps a page has at most.
	maxGaps = 1 << 20
	gapTick = timer.Resolution
)

var errGapPage = fmt.Errorf("store: %w", judgement.ErrDamagedGaps)

// gapPage is a decoded page of gaps.
type gapPage struct {
	store      [16]byte
	hour, page int64
	gaps       []judgement.Gap
}

// spanTicks rounds a length of time to ticks.
func spanTicks(d time.Duration) uint64 {
	return min((uint64(max(d, 0))+uint64(gapTick)/2)/uint64(gapTick), maxTicks)
}

func tickSpan(ticks uint64) time.Duration {
	return time.Duration(min(ticks, uint64(math.MaxInt64/gapTick))) * gapTick
}

// wallMillis returns an instant in ms, within what a page can hold.
func wallMillis(at time.Time) int64 {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return min(max(at.UnixMilli(), -most), most)
}

// millisTicks returns an instant of the wall clock in ticks, of which only the low bits count.
func millisTicks(ms int64) uint64 { return uint64(ms * int64(time.Millisecond) / int64(gapTick)) }

// endLast is the greatest number that stands for what ended a gap. These numbers are in databases, as
// those of package liveness are.
const endLast = judgement.EndLimit

// isGap reports whether a record is of a gap, which has a beginning.
func isGap(g *judgement.Gap) bool { return g.End <= judgement.EndBye }

// The flags of a gap. They are in databases.
const (
	gapSuppressed = 1 << iota
	gapCutOff
	gapRunning
	gapAtOnce
	gapTold
	gapFlags = iota // how many there are
)

// gapColumns are the columns of a page.
type gapColumns struct {
	nums, ends, sources, ats, lengths, leads, slept, closed, reasons, flags []uint64
}

func (c *gapColumns) all() []*[]uint64 {
	return []*[]uint64{&c.nums, &c.ends, &c.sources, &c.ats, &c.lengths, &c.leads, &c.slept, &c.closed, &c.reasons, &c.flags}
}

// gapHead is what the columns are relative to.
type gapHead struct {
	at     int64
	length uint64
	names  []string
	bases  []uint64
}

// sortGaps returns gaps sorted by device number, those of a device in the order that they had. It leaves
// out those of no device.
func sortGaps(gaps []judgement.Gap) []judgement.Gap {
	keys := make([]uint64, 0, len(gaps))
	for i := range gaps {
		if gaps[i].Num != 0 {
			keys = append(keys, uint64(gaps[i].Num)<<32|uint64(i))
		}
	}
	slices.Sort(keys)
	sorted := make([]judgement.Gap, len(keys))
	for i, key := range keys {
		sorted[i] = gaps[uint32(key)]
	}
	return sorted
}

// appendGapPage appends a page, whose gaps are sorted, to b.
func appendGapPage(b []byte, p *gapPage) []byte {
	begin := len(b)
	b = append(b, 'H', 'G', 'P', gapPageVersion)
	b = append(b, p.store[:]...)
	b = binary.AppendVarint(b, p.hour)
	b = binary.AppendVarint(b, p.page)
	b = binary.AppendUvarint(b, uint64(len(p.gaps)))
	head, columns := columnsOf(p.gaps)
	b = binary.AppendVarint(b, head.at)
	b = binary.AppendUvarint(b, head.length)
	b = binary.AppendUvarint(b, uint64(len(head.names)))
	for i, name := range head.names {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
		b = binary.AppendUvarint(b, head.bases[i])
	}
	for _, column := range columns.all() {
		b = appendColumn(b, *column)
	}
	return sealed(b, begin)
}

// columnsOf returns the columns of gaps.
func columnsOf(gaps []judgement.Gap) (head gapHead, c gapColumns) {
	for _, column := range c.all() {
		*column = make([]uint64, 0, len(gaps))
	}
	head.at, head.length = math.MaxInt64, maxTicks
	places := make(map[string]int)
	before := uint32(0)
	for i := range gaps {
		g := &gaps[i]
		place, ok := places[g.Source]
		if !ok {
			place = len(head.names)
			places[g.Source], head.names = place, append(head.names, g.Source)
		}
		c.nums, before = append(c.nums, uint64(g.Num-before)+1), g.Num
		c.ends, c.sources = append(c.ends, uint64(g.End)), append(c.sources, uint64(place))
		c.ats, c.lengths = append(c.ats, uint64(wallMillis(g.At))), append(c.lengths, spanTicks(g.Length))
		c.slept, c.closed = append(c.slept, spanTicks(g.Slept)), append(c.closed, spanTicks(g.Closed))
		c.reasons = append(c.reasons, uint64(reasonCode(g.Reason)))
		c.flags = append(c.flags, uint64(flag(g.Suppressed, gapSuppressed)|flag(g.CutOff, gapCutOff)|flag(g.Running, gapRunning)|
			flag(g.AtOnce, gapAtOnce)|flag(g.Told, gapTold)))
		head.at, head.length = min(head.at, wallMillis(g.At)), min(head.length, c.lengths[i])
		if isGap(g) {
			c.leads = append(c.leads, (millisTicks(wallMillis(g.At))-c.lengths[i]-spanTicks(g.Start))&maxTicks)
		}
	}
	head.rebase(gaps, &c)
	return head, c
}

// rebase makes columns relative.
func (h *gapHead) rebase(gaps []judgement.Gap, c *gapColumns) {
	if len(gaps) == 0 {
		h.at, h.length = 0, 0
	}
	for i := range c.ats {
		c.ats[i] -= uint64(h.at)
		c.lengths[i] -= h.length
	}
	// The leads of a source lie in a part of the circle of maxTicks. Its base is the least of them, as seen
	// from the first.
	h.bases = make([]uint64, len(h.names))
	firsts, least, seen := make([]uint64, len(h.names)), make([]int64, len(h.names)), make([]bool, len(h.names))
	next := 0
	each := func(do func(source int, lead *uint64)) {
		next = 0
		for i := range gaps {
			if isGap(&gaps[i]) {
				do(int(c.sources[i]), &c.leads[next])
				next++
			}
		}
	}
	each(func(source int, lead *uint64) {
		if !seen[source] {
			seen[source], firsts[source] = true, *lead
		}
		least[source] = min(least[source], int64((*lead-firsts[source])<<16)>>16)
	})
	for i := range h.bases {
		h.bases[i] = (firsts[i] + uint64(least[i])) & maxTicks
	}
	each(func(source int, lead *uint64) { *lead = (*lead - h.bases[source]) & maxTicks })
}

// decodeGapPage decodes a page of gaps. b may be anything; decodeGapPage allocates no more than a multiple
// of its length.
func decodeGapPage(b []byte, reasons map[int64]liveness.Reason) (*gapPage, error) {
	store, rest, err := openPage(b, "HGP", gapPageVersion)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGapPage, err)
	}
	r := reader{b: rest}
	p := &gapPage{store: store, hour: r.signed(), page: r.signed()}
	count := int(r.number(uint64(min(maxGaps, 8*len(b)))))
	head := r.gapHead()
	if r.bad {
		return nil, fmt.Errorf("%w: its head is cut", errGapPage)
	}
	columns, ok := r.gapColumns(count)
	if ok {
		p.gaps, ok = gapsOf(&head, columns, reasons)
	}
	if !ok || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: its parts do not fit", errGapPage)
	}
	return p, nil
}

// signed reads a number that may be negative.
func (r *reader) signed() int64 {
	u := r.number(math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) gapHead() (h gapHead) {
	h.at, h.length = r.signed(), r.number(maxTicks)
	for n := r.number(uint64(len(r.b))); n > 0 && !r.bad; n-- {
		h.names = append(h.names, string(r.bytes(r.number(uint64(liveness.MaxID)))))
		h.bases = append(h.bases, r.number(maxTicks))
	}
	return h
}

// gapColumns reads the columns of a number of gaps.
func (r *reader) gapColumns(count int) (c gapColumns, ok bool) {
	for _, column := range c.all() {
		n := count
		if column == &c.leads {
			n = 0
			for _, end := range c.ends {
				n += int(flag(end <= uint64(judgement.EndBye), 1))
			}
		}
		if *column = r.column(n); *column == nil || r.bad {
			return c, false
		}
		if column == &c.nums && slices.Contains(c.nums, 0) {
			return c, false
		}
	}
	return c, true
}

// gapsOf returns the gaps of columns.
func gapsOf(h *gapHead, c gapColumns, reasons map[int64]liveness.Reason) ([]judgement.Gap, bool) {
	gaps := make([]judgement.Gap, len(c.nums))
	num, lead := uint64(0), 0
	for i := range gaps {
		num += c.nums[i] - 1
		length, at := h.length+c.lengths[i], h.at+int64(c.ats[i])
		reason, known := reasons[int64(c.reasons[i])]
		if num == 0 || num > math.MaxUint32 || length > maxTicks || c.ends[i] > uint64(endLast) || c.sources[i] >= uint64(len(h.names)) ||
			c.flags[i] >= 1<<gapFlags || !known || at != wallMillis(time.UnixMilli(at)) || at < h.at {
			return nil, false
		}
		g := &gaps[i]
		*g = judgement.Gap{
			Num: uint32(num), Source: h.names[c.sources[i]], Length: tickSpan(length), At: time.UnixMilli(at), End: judgement.GapEnd(c.ends[i]),
			Slept: tickSpan(c.slept[i]), Closed: tickSpan(c.closed[i]), Reason: reason, Suppressed: c.flags[i]&gapSuppressed != 0, CutOff: c.flags[i]&gapCutOff != 0,
			Running: c.flags[i]&gapRunning != 0, AtOnce: c.flags[i]&gapAtOnce != 0, Told: c.flags[i]&gapTold != 0,
		}
		if isGap(g) {
			g.Start = tickSpan((millisTicks(at) - length - h.bases[c.sources[i]] - c.leads[lead]) & maxTicks)
			lead++
		}
	}
	return gaps, true
}
