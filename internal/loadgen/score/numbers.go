package score

// track is the state of one device at one gateway.
type track struct {
	top   uint64 // the highest number so far
	seen  uint32 // bit i: number top-1-i was there
	epoch uint64 // the highest so far
	since int64  // when the device came online there, in nanoseconds
	gone  int64  // when it went offline there, likewise
	at    int64  // the time of the latest event, in milliseconds
	place *place // the latest source that it was heard at
	state trackState
}

// trackState is what the gateway holds the device for.
type trackState uint8

const (
	unknown trackState = iota
	absent
	removed // forgotten; its numbers go on, or begin anew
	parted  // absent, and its session is over
	present // online; and so are those below
	late
	asleep
)

// here reports whether the device counts as connected, away whether it is offline.
func (s trackState) here() bool { return s >= present }
func (s trackState) away() bool { return s == absent || s == parted }

// numbered is what a number shows.
type numbered uint8

const (
	inOrder   numbered = iota
	duplicate          // it was there before
	disorder           // it comes after a higher one
	skips              // numbers before it are missing
)

// window is how far back numbers are remembered one by one; older ones count as duplicates.
const window = 32

// begin notes that the next number is the first one that is expected. It works like the window by
// which IPsec refuses replays (RFC 4303, 3.4.3).
func (t *track) begin(first uint64) { t.top, t.seen = first-1, ^uint32(0) }

// number takes an event's number, and returns how many before it are missing so far.
func (t *track) number(seq uint64) (numbered, uint64) {
	if seq > t.top {
		gap := seq - t.top - 1
		t.seen = t.seen<<(gap+1) | 1<<gap // what is shifted too far is gone
		t.top = seq
		if gap > 0 {
			return skips, gap
		}
		return inOrder, 0
	}
	back := t.top - seq // 0: the highest itself
	if back == 0 || back > window || t.seen&(1<<(back-1)) != 0 {
		return duplicate, 0
	}
	t.seen |= 1 << (back - 1)
	return disorder, 0
}

// session takes an event's epoch, and reports whether it went back.
func (t *track) session(epoch uint64) (fell bool) {
	fell = epoch != 0 && epoch < t.epoch
	t.epoch = max(t.epoch, epoch)
	return fell
}
