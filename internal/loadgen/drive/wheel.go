package drive

const (
	// slots are the ticks of one turn of the wheel. What is due later stays in its slot for as many
	// turns as it takes.
	slots = 8192
	// none ends a list; outside marks a device that is in no list.
	none    = -1
	outside = -2
)

// link is a device's place in the wheel.
type link struct {
	due        uint32 // tick
	next, prev int32
}

// wheel is a hashed timing wheel (Varghese and Lauck, 1987, scheme 6) whose lists run through the
// devices themselves. Each device is in it at most once.
type wheel struct {
	heads  []int32
	tick   uint32 // that is being served
	cursor int32  // the next device to look at in its list
}

func newWheel() wheel {
	w := wheel{heads: make([]int32, slots), cursor: none}
	for i := range w.heads {
		w.heads[i] = none
	}
	return w
}

// set makes device i due at a tick, or at the next one if that is past.
func (w *wheel) set(devs []device, i int32, tick uint32) {
	w.remove(devs, i)
	l := &devs[i].link
	l.due = max(tick, w.tick+1)
	head := &w.heads[l.due%slots]
	l.prev, l.next = none, *head
	if l.next != none {
		devs[l.next].link.prev = i
	}
	*head = i
}

// remove takes device i out, if it is in.
func (w *wheel) remove(devs []device, i int32) {
	l := &devs[i].link
	if l.next == outside {
		return
	}
	if w.cursor == i {
		w.cursor = l.next
	}
	if l.prev == none {
		w.heads[l.due%slots] = l.next
	} else {
		devs[l.prev].link.next = l.next
	}
	if l.next != none {
		devs[l.next].link.prev = l.prev
	}
	l.next = outside
}

// pop takes a device out that is due at a tick up to now.
func (w *wheel) pop(devs []device, now uint32) (int32, bool) {
	for {
		for w.cursor != none {
			i := w.cursor
			w.cursor = devs[i].link.next
			if devs[i].link.due <= w.tick {
				w.remove(devs, i)
				return i, true
			}
		}
		if w.tick >= now {
			return 0, false
		}
		w.tick++
		w.cursor = w.heads[w.tick%slots]
	}
}

// next returns the first tick within the given number of ticks that may have a device; the last one
// if there is none.
func (w *wheel) next(within uint32) uint32 {
	for t := w.tick + 1; t < w.tick+within; t++ {
		if w.heads[t%slots] != none {
			return t
		}
	}
	return w.tick + within
}
