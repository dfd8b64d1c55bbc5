package store

import "math/bits"

// A column of numbers is kept in the smaller one of two ways: as the ages of a page of heartbeats are, width,
// low bits and exceptions; or, after a byte that is riceMark more than the width, the low bits and, for
// the rest of each number, as many 0 bits and a 1. The second way (Rice, "Some practical universal noiseless
// coding techniques", 1979) suits numbers of which the smaller are the more frequent, as distances are.
const riceMark = 64

// appendColumn appends numbers of at most 48 bits.
func appendColumn(b []byte, column []uint64) []byte {
	begin := len(b)
	b = appendAges(b, column)
	width, size := bestRice(column)
	if size >= len(b)-begin {
		return b
	}
	b = appendLow(append(b[:begin], byte(riceMark+width)), column, width)
	var word byte
	filled := 0
	put := func(bit byte) {
		word |= bit << filled
		if filled++; filled == 8 {
			b, word, filled = append(b, word), 0, 0
		}
	}
	for _, v := range column {
		for range v >> width {
			put(0)
		}
		put(1)
	}
	if filled > 0 {
		b = append(b, word)
	}
	return b
}

// bestRice returns the width with which the second way takes the fewest bytes, and how many.
func bestRice(column []uint64) (width, size int) {
	sum := float64(0)
	for _, v := range column {
		sum += float64(v)
	}
	mean := uint64(sum/float64(max(len(column), 1))) + 1
	least := ^uint64(0)
	for w := max(bits.Len64(mean)-2, 0); w <= min(bits.Len64(mean)+1, 48); w++ {
		bits := uint64(len(column)) * uint64(w+1)
		for _, v := range column {
			bits += v >> w
		}
		if bits < least {
			width, least = w, bits
		}
	}
	return width, int(min(least/8, 1<<40)) + 3 // up to two bytes are not full
}

// column reads a column of n numbers, nil if b has not as many.
func (r *reader) column(n int) []uint64 {
	mark := r.bytes(1)
	if r.bad {
		return nil
	}
	width := int(mark[0])
	if width <= 48 {
		return r.ages(n, width)
	}
	if width -= riceMark; width < 0 || width > 48 {
		return nil
	}
	column := r.low(n, width)
	if column == nil || !r.rests(column, width) {
		return nil
	}
	return column
}

// rests reads the rest of each number of a column.
func (r *reader) rests(column []uint64, width int) bool {
	at := uint64(0) // in bits
	for i := range column {
		rest := uint64(0)
		for ; ; at++ {
			if at/8 >= uint64(len(r.b)) || rest > maxTicks>>width {
				return false
			}
			if r.b[at/8]>>(at%8)&1 == 1 {
				break
			}
			rest++
		}
		at++
		column[i] |= rest << width
	}
	r.bytes((at + 7) / 8)
	return true
}
