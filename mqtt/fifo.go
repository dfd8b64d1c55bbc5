package mqtt

import "slices"

// fifo is a queue of entries that were not sent yet. The zero fifo is empty.
type fifo struct {
	entries []entry
	head    int // where it begins
}

func (f *fifo) len() int { return len(f.entries) - f.head }

// all returns the entries, in their order.
func (f *fifo) all() []entry { return f.entries[f.head:] }

func (f *fifo) push(e entry) {
	if len(f.entries) == cap(f.entries) && f.head > len(f.entries)/2 {
		n := copy(f.entries, f.entries[f.head:])
		clear(f.entries[n:])
		f.entries, f.head = f.entries[:n], 0
	}
	f.entries = append(f.entries, e)
}

// peek returns the first entry; nil if there is none.
func (f *fifo) peek() *entry {
	if f.head == len(f.entries) {
		return nil
	}
	return &f.entries[f.head]
}

// pop takes out the first entry.
func (f *fifo) pop() entry {
	e := f.entries[f.head]
	f.entries[f.head] = entry{}
	if f.head++; f.head == len(f.entries) {
		f.entries, f.head = f.entries[:0], 0
	}
	return e
}

// popLast takes out the last entry.
func (f *fifo) popLast() entry {
	last := len(f.entries) - 1
	e := f.entries[last]
	f.entries[last] = entry{}
	f.entries = f.entries[:last]
	return e
}

// drop takes out the entries that are to go.
func (f *fifo) drop(goes func(*entry) bool) {
	kept := slices.DeleteFunc(f.all(), func(e entry) bool { return goes(&e) })
	f.entries = f.entries[:f.head+len(kept)]
}

// reset makes an empty fifo remember room for a few entries at most.
func (f *fifo) reset() {
	if f.entries, f.head = f.entries[:0], 0; cap(f.entries) > maxRoom {
		f.entries = nil
	}
}
