package liveness

import (
	"math/bits"
	"sync"
)

// numberAllocator gives out device numbers, from 1 on, the least that is free.
type numberAllocator struct {
	mu   sync.Mutex // guards the fields below; taken after a shard's
	used []uint64   // a bit for each number; number 0 is never given
	low  int        // all words before this one are full
}

// allocate gives out a number.
func (n *numberAllocator) allocate() uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ; ; n.low++ {
		if n.low == len(n.used) {
			n.growLocked(n.low)
		}
		if word := n.used[n.low]; word != ^uint64(0) {
			bit := bits.TrailingZeros64(^word)
			n.used[n.low] |= 1 << bit
			return uint32(n.low*64 + bit)
		}
	}
}

// claim takes a certain number, and reports whether it was free.
func (n *numberAllocator) claim(num uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.growLocked(int(num / 64))
	word, bit := &n.used[num/64], uint64(1)<<(num%64)
	if num == 0 || *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// growLocked makes room for a word.
func (n *numberAllocator) growLocked(word int) {
	if len(n.used) == 0 {
		n.used = append(n.used, 1)
	}
	for len(n.used) <= word {
		n.used = append(n.used, 0)
	}
}

// release takes a number back.
func (n *numberAllocator) release(num uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.used[num/64] &^= 1 << (num % 64)
	n.low = min(n.low, int(num/64))
}

// Numbers implements [operate.Registry].
func (r operator) Numbers() int { return r.numbers.bound() }

// bound returns a number that is greater than all in use.
func (n *numberAllocator) bound() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.used) * 64
}
