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
//	magic "HGP", version 2
//	store id, 16 bytes
//	hour and page as in the table gaps, number of gaps, least end by the wall clock in ms: variable-length
//	gaps, see gapCoder
//	CRC-32C of all of the above, 4 bytes
const (
	gapPageVersion = 2
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
	return min(max(at.UnixMilli(), -mostMillis), mostMillis)
}

const mostMillis = math.MaxInt64 / int64(time.Millisecond)

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
	c := gapCoder{least: mostMillis, kind: gapNoKind, places: make(map[string]int)}
	for i := range p.gaps {
		c.least = min(c.least, wallMillis(p.gaps[i].At))
	}
	b = binary.AppendVarint(b, c.least)
	for i := range p.gaps {
		b = c.append(b, &p.gaps[i])
	}
	return sealed(b, begin)
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
	count := r.number(uint64(min(maxGaps, len(rest)/gapLeast)))
	c := gapCoder{least: r.signed(), kind: gapNoKind}
	if r.bad || c.least < -mostMillis || c.least > mostMillis {
		return nil, fmt.Errorf("%w: its head is cut", errGapPage)
	}
	p.gaps = make([]judgement.Gap, count)
	for i := range p.gaps {
		if !c.read(&r, &p.gaps[i], reasons) {
			return nil, fmt.Errorf("%w: its parts do not fit", errGapPage)
		}
	}
	if len(r.b) > 0 {
		return nil, fmt.Errorf("%w: it goes on after its gaps", errGapPage)
	}
	return p, nil
}

// signed reads a number that may be negative.
func (r *reader) signed() int64 {
	u := r.number(math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

// gapCoder writes and reads gaps as numbers of variable length, relative to the gap before:
//
//	the distance to its device number, doubled, and 1 more if the kind is another
//	the kind, if it is another; the name of its source, if that is new, after its length
//	when it ended, in ms after the least end of the page
//	its length in ticks
//	for those that are gaps, by how many ticks the wall clock was ahead of the listening clock of its
//		source at its end, and then by how many more than at the gap of that source before
//	for a kind with more: when a sleep and a connection ended, the reason, and flags
//
// A kind is what ended the gap, gapMore if there is more to it, and the index of its source. So a gap of a fleet that
// beats once a minute takes 9 bytes. Most of them are noise: zstd makes a page no smaller.
type gapCoder struct {
	least  int64          // end in the page
	num    uint64         // of the gap before
	kind   uint64         // the same
	names  []string       // of the sources, in the order in which they come
	leads  []uint64       // by source
	places map[string]int // by name; only the writer needs it
}

const (
	gapEnd    = 1<<3 - 1 // the bits of a kind that say what ended the gap
	gapMore   = 1 << 3
	gapSource = 4 // the bits from here on are the index of the source

	gapNoKind = math.MaxUint64 // before the first gap
	gapLeast  = 3              // the fewest bytes that a gap takes
)

// append appends a gap.
func (c *gapCoder) append(b []byte, g *judgement.Gap) []byte {
	place, known := c.places[g.Source]
	if !known {
		place = len(c.leads)
		c.places[g.Source], c.leads = place, append(c.leads, 0)
	}
	more := [...]uint64{spanTicks(g.Slept), spanTicks(g.Closed), uint64(reasonCode(g.Reason)), flagsOf(g)}
	kind := uint64(place)<<gapSource | uint64(g.End)
	if more != [len(more)]uint64{} {
		kind |= gapMore
	}
	step := (uint64(g.Num) - c.num) << 1
	if c.num = uint64(g.Num); kind == c.kind {
		b = binary.AppendUvarint(b, step)
	} else {
		c.kind = kind
		b = binary.AppendUvarint(binary.AppendUvarint(b, step|1), kind)
		if !known {
			b = append(binary.AppendUvarint(b, uint64(len(g.Source))), g.Source...)
		}
	}
	at, length := wallMillis(g.At), spanTicks(g.Length)
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(at-c.least)), length)
	if isGap(g) {
		lead := (millisTicks(at) - length - spanTicks(g.Start)) & maxTicks
		b = binary.AppendVarint(b, int64((lead-c.leads[place])<<16)>>16)
		c.leads[place] = lead
	}
	if kind&gapMore != 0 {
		for _, v := range more {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

func flagsOf(g *judgement.Gap) uint64 {
	return uint64(flag(g.Suppressed, gapSuppressed) | flag(g.CutOff, gapCutOff) | flag(g.Running, gapRunning) |
		flag(g.AtOnce, gapAtOnce) | flag(g.Told, gapTold))
}

// read reads a gap. It reports whether there was one.
func (c *gapCoder) read(r *reader, g *judgement.Gap, reasons map[int64]liveness.Reason) bool {
	step := r.number(2*math.MaxUint32 + 1)
	if c.num += step >> 1; step&1 != 0 {
		c.kind = r.number(uint64(len(c.names))<<gapSource | gapMore | gapEnd)
		if c.kind>>gapSource == uint64(len(c.names)) {
			c.names, c.leads = append(c.names, string(r.bytes(r.number(uint64(liveness.MaxID))))), append(c.leads, 0)
		}
	}
	if r.bad || c.num == 0 || c.num > math.MaxUint32 || c.kind == gapNoKind || c.kind&gapEnd > uint64(endLast) {
		return false
	}
	place := c.kind >> gapSource
	at := c.least + int64(r.number(uint64(mostMillis-c.least)))
	length := r.number(maxTicks)
	*g = judgement.Gap{Num: uint32(c.num), Source: c.names[place], Length: tickSpan(length), At: time.UnixMilli(at), End: judgement.GapEnd(c.kind & gapEnd)}
	if isGap(g) {
		c.leads[place] += uint64(r.signed())
		g.Start = tickSpan((millisTicks(at) - length - c.leads[place]) & maxTicks)
	}
	if c.kind&gapMore != 0 {
		g.Slept, g.Closed = tickSpan(r.number(maxTicks)), tickSpan(r.number(maxTicks))
		reason, known := reasons[int64(r.number(math.MaxInt64))]
		flags := r.number(1<<gapFlags - 1)
		g.Reason, r.bad = reason, r.bad || !known
		g.Suppressed, g.CutOff, g.Running = flags&gapSuppressed != 0, flags&gapCutOff != 0, flags&gapRunning != 0
		g.AtOnce, g.Told = flags&gapAtOnce != 0, flags&gapTold != 0
	}
	return !r.bad
}
