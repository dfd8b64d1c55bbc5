package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
)

// A page holds the latest heartbeats of pageLen device numbers as bytes:
//
//	magic "HBP", version 1
//	store id, 16 bytes
//	page, number of the checkpoint, number of devices: variable-length
//	sources: how many, and for each the length of its name, the name, and its latest tick
//	runs, if there are sources: for each the index of a source (from 1; 0 is none) and its length,
//		until all devices are covered
//	width, 0 to 48: how many bits each device of a run with a source has
//	those bits, low ones first: how many ticks before the latest tick of its source the device was heard
//	exceptions: how many, and for each the distance to the device from the one before, and the bits
//		of its ticks above width
//	CRC-32C of all of the above, 4 bytes
//
// The width is that with the smallest page: a few devices that were heard long ago cost a few bytes
// each. General compression would gain nothing: the low bits of a regular fleet's heartbeats are noise.
const (
	pageLen     = 4096
	pageVersion = 1
	// maxTicks is the greatest listening time that a keep.Heard can hold.
	maxTicks = 1<<48 - 1
)

// page is a decoded page.
type page struct {
	store   [16]byte
	page    uint32
	number  uint64
	sources []string
	heard   []keep.Heard // their sources are indexes of sources
}

func heardOf(source int, ticks uint64) keep.Heard {
	return keep.Heard(uint64(source)<<48 | ticks)
}

func ticksOf(h keep.Heard) uint64 { return uint64(h) & maxTicks }

// appendPage appends a page to b. The sources of p.heard are indexes of names.
func appendPage(b []byte, p *page, names []string) []byte {
	begin := len(b)
	b = append(b, 'H', 'B', 'P', pageVersion)
	b = append(b, p.store[:]...)
	b = binary.AppendUvarint(b, uint64(p.page))
	b = binary.AppendUvarint(b, p.number)
	b = binary.AppendUvarint(b, uint64(len(p.heard)))

	places, latest := make([]int, len(names)), make([]uint64, len(names)) // by source; a place in the page counts from 1
	var used []int
	for _, h := range p.heard {
		if ticksOf(h) == 0 {
			continue
		}
		s := h.Source()
		if places[s] == 0 {
			used = append(used, s)
			places[s] = len(used)
		}
		latest[s] = max(latest[s], ticksOf(h))
	}
	b = binary.AppendUvarint(b, uint64(len(used)))
	for _, s := range used {
		b = binary.AppendUvarint(b, uint64(len(names[s])))
		b = append(b, names[s]...)
		b = binary.AppendUvarint(b, latest[s])
	}
	if len(used) > 0 {
		var ages []uint64
		b, ages = appendRuns(b, p.heard, places, latest)
		b = appendAges(b, ages)
	}
	return sealed(b, begin)
}

// sealed appends the checksum of b from begin on: CRC-32C, 4 bytes.
func sealed(b []byte, begin int) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[begin:], crc32.MakeTable(crc32.Castagnoli)))
}

// checksum returns the checksum of what is sealed.
func checksum(b []byte) uint32 { return binary.LittleEndian.Uint32(b[len(b)-4:]) }

// unsealed returns b without its checksum; false if that is wrong.
func unsealed(b []byte) ([]byte, bool) {
	end := len(b) - 4
	if end < 0 || crc32.Checksum(b[:end], crc32.MakeTable(crc32.Castagnoli)) != checksum(b) {
		return nil, false
	}
	return b[:end], true
}

// openPage checks what a page begins with, three letters and its version, and its checksum. It returns the id of its
// store, and what is between.
func openPage(b []byte, magic string, version byte) (store [16]byte, rest []byte, err error) {
	if len(b) < 4+16+4 || string(b[:3]) != magic {
		return store, nil, errors.New("it does not begin as a page does")
	}
	if b[3] != version {
		return store, nil, fmt.Errorf("it is of version %d, this program knows %d", b[3], version)
	}
	b, ok := unsealed(b)
	if !ok {
		return store, nil, errors.New("its checksum is wrong")
	}
	return [16]byte(b[4:20]), b[20:], nil
}

// appendRuns appends the runs, and returns how many ticks ago each device was heard.
func appendRuns(b []byte, heard []keep.Heard, places []int, latest []uint64) (_ []byte, ages []uint64) {
	ages = make([]uint64, 0, len(heard))
	run, length := -1, uint64(0)
	for _, h := range heard {
		place := 0
		if ticksOf(h) != 0 {
			place = places[h.Source()]
			ages = append(ages, latest[h.Source()]-ticksOf(h))
		}
		if place != run && length > 0 {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(run)), length)
			length = 0
		}
		run = place
		length++
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(run)), length), ages
}

// appendAges appends the width, the low bits of ages, and the exceptions.
func appendAges(b []byte, ages []uint64) []byte {
	width := bestWidth(ages)
	b = appendLow(append(b, byte(width)), ages, width)
	exceptions := 0
	mask := uint64(1)<<width - 1
	for _, age := range ages {
		if age > mask {
			exceptions++
		}
	}
	b = binary.AppendUvarint(b, uint64(exceptions))
	before := 0
	for i, age := range ages {
		if age > mask {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i-before)), age>>width)
			before = i
		}
	}
	return b
}

// appendLow appends the low bits of ages.
func appendLow(b []byte, ages []uint64, width int) []byte {
	var word uint64 // the bits that are not in b yet
	filled := 0
	mask := uint64(1)<<width - 1
	for _, age := range ages {
		word |= (age & mask) << filled
		for filled += width; filled >= 8; filled -= 8 { // at most 7 + 48 bits
			b = append(b, byte(word))
			word >>= 8
		}
	}
	if filled > 0 {
		b = append(b, byte(word))
	}
	return b
}

// bestWidth returns the width with which ages take the fewest bits.
func bestWidth(ages []uint64) int {
	var lengths [49]int
	for _, age := range ages {
		lengths[bits.Len64(age)]++
	}
	best, least := 48, len(ages)*48
	longer := 0
	for width := 48; width >= 0; width-- {
		if size := len(ages)*width + longer*24; size < least {
			best, least = width, size
		}
		longer += lengths[width]
	}
	return best
}

var errPage = errors.New("store: damaged page of heartbeats")

// decodePage decodes a page. b may be anything; decodePage allocates no more than a multiple of its
// length and of pageLen.
func decodePage(b []byte) (*page, error) {
	store, rest, err := openPage(b, "HBP", pageVersion)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPage, err)
	}
	r := reader{b: rest}
	p := &page{store: store}
	p.page = uint32(r.number(1<<32 - 1))
	p.number = r.number(1<<64 - 1)
	devices := int(r.number(pageLen))
	sources := int(r.number(uint64(devices)))
	latest := make([]uint64, 0, min(sources, len(r.b)))
	for range sources {
		p.sources = append(p.sources, string(r.bytes(r.number(uint64(liveness.MaxID)))))
		latest = append(latest, r.number(maxTicks))
		if r.bad {
			break
		}
	}
	if r.bad {
		return nil, fmt.Errorf("%w: its head is cut", errPage)
	}
	p.heard = make([]keep.Heard, devices)
	if sources > 0 && !r.body(p.heard, latest) || r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: its parts do not fit", errPage)
	}
	return p, nil
}

// reader reads numbers from bytes. After the end of b, or a number out of bounds, bad is set.
type reader struct {
	b   []byte
	bad bool
}

// number reads a number of at most bound, else it returns 0.
func (r *reader) number(bound uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > bound || r.bad {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) || r.bad {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// body reads runs, ages and exceptions.
func (r *reader) body(heard []keep.Heard, latest []uint64) bool {
	var places []int // of the devices that were heard
	sources := make([]int, 0, len(heard))
	for at := 0; at < len(heard); {
		source, length := int(r.number(uint64(len(latest)))), int(r.number(uint64(len(heard)-at)))
		if length == 0 {
			return false
		}
		for ; length > 0; length-- {
			if source > 0 {
				places, sources = append(places, at), append(sources, source-1)
			}
			at++
		}
	}
	width := r.bytes(1)
	if width == nil || width[0] > 48 {
		return false
	}
	ages := r.ages(len(places), int(width[0]))
	if ages == nil {
		return false
	}
	for i, age := range ages {
		newest := latest[sources[i]]
		if age >= newest { // tick 0 would mean never
			return false
		}
		heard[places[i]] = heardOf(sources[i], newest-age)
	}
	return true
}

// low reads the low bits of n ages, nil if b has not as many.
func (r *reader) low(n, width int) []uint64 {
	packed := r.bytes(uint64(n*width+7) / 8)
	if r.bad {
		return nil
	}
	ages := make([]uint64, n)
	var word uint64
	filled, next := 0, 0
	for i := range ages {
		for ; filled < width; filled += 8 {
			word |= uint64(packed[next]) << filled
			next++
		}
		ages[i] = word & (1<<width - 1)
		word >>= width
		filled -= width
	}
	return ages
}

// ages reads n ages, nil if b has not as many.
func (r *reader) ages(n, width int) []uint64 {
	ages := r.low(n, width)
	if ages == nil {
		return nil
	}
	at := 0
	for range r.number(uint64(n)) {
		at += int(r.number(uint64(n)))
		more := r.number(maxTicks)
		if r.bad || at >= n {
			return nil
		}
		ages[at] |= more << width & maxTicks
	}
	return ages
}
