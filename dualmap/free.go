package dualmap

const freePageLen = 1024

// freeQueue holds the slots that were released, first in, first out, so that they are used up
// evenly. It lies beside the slots: a list through the slots themselves would touch one more cache
// line for each release.
type freeQueue struct {
	pages      []*[freePageLen]uint32
	spare      *[freePageLen]uint32 // the page that was emptied last, or nil
	head, tail int                  // places, counted from the first page
}

func (q *freeQueue) empty() bool { return q.head == q.tail }

func (q *freeQueue) push(slot uint32) {
	if q.tail == len(q.pages)*freePageLen {
		page := q.spare
		if q.spare = nil; page == nil {
			page = new([freePageLen]uint32)
		}
		q.pages = append(q.pages, page)
	}
	q.pages[q.tail/freePageLen][q.tail%freePageLen] = slot
	q.tail++
}

// pop takes the slot that was released first; the queue must not be empty.
func (q *freeQueue) pop() uint32 {
	slot := q.pages[0][q.head]
	q.head++
	if q.head == freePageLen {
		q.spare, q.pages[0] = q.pages[0], nil
		q.pages = q.pages[1:]
		q.head, q.tail = 0, q.tail-freePageLen
	}
	return slot
}
