package jobs

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// New jobs of a lane take turns by their names. A *share* is those whose names have the same hash: so
// there are never too many of them to look at, whatever the senders call their jobs. Share 0 is the
// jobs without a name, and all that were claimed or had to wait before. Jobs of high and of low priority
// have shares of their own, also those without a name.
//
// A new job with a name has the number of its share in the column due, below 0, so that the index of
// due jobs finds it. If it has a key, it blocks those after it from the beginning.

// shares is how many shares the names of one priority have.
const shares = 4096

// A share of high or low priority has one of these bits beside its number.
const (
	highShare = 1 << 13
	lowShare  = 1 << 14
)

// claimShares is the maximum number of shares, without share 0, that one claim looks at.
const claimShares = 64

// shareOf returns the share of a new job.
func shareOf(name string, p Priority) (share uint16) {
	if name != "" {
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		share = uint16(h.Sum32()%shares) + 1
	}
	switch p {
	case PriorityHigh:
		share |= highShare
	case PriorityLow:
		share |= lowShare
	case PriorityNormal:
	}
	return share
}

// priorityOf returns the priority of the new jobs of a share.
func priorityOf(share uint16) Priority {
	switch {
	case share&highShare != 0:
		return PriorityHigh
	case share&lowShare != 0:
		return PriorityLow
	}
	return PriorityNormal
}

// dueInShare is the value of the column due of a new job of a share.
func dueInShare(share uint16) int64 { return -int64(share) }

// Shares returns the shares of a lane, without share 0, that may have new jobs, in the order of their
// turns. It does not query the database.
func (s *Store) Shares(lane Lane) []uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.shares[lane])
}

// offer notes that a share may have new jobs. Call it in the transaction that writes them, or later: a
// claim that looks at the share before can then not undo it.
func (s *Store) offer(lane Lane, list ...uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offerLocked(lane, list)
}

func (s *Store) offerLocked(lane Lane, list []uint16) {
	for _, share := range list {
		if !slices.Contains(s.shares[lane], share) {
			s.shares[lane] = append(s.shares[lane], share)
		}
	}
}

// takeSharesLocked returns the shares whose turn it is, without some, those of a higher priority first.
// They are offered no more. more reports whether there are others, for the next claim.
func (s *Store) takeSharesLocked(lane Lane, without []uint16) (taken []uint16, more bool) {
	var rest []uint16
	all := slices.Clone(s.shares[lane])
	slices.SortStableFunc(all, func(a, b uint16) int { return cmp.Compare(priorityOf(b), priorityOf(a)) })
	for _, share := range all {
		isLeft := slices.Contains(without, share)
		if len(taken) < claimShares && !isLeft {
			taken = append(taken, share)
		} else {
			rest = append(rest, share)
			more = more || !isLeft
		}
	}
	if len(rest) == 0 {
		delete(s.shares, lane)
	} else if len(taken) > 0 {
		s.shares[lane] = rest
	}
	return taken, more
}
