package sockets

import "time"

const (
	// passWithin is how long a barrier waits for the connections of one instant: a flood of them
	// holds a listening clock up for no longer.
	passWithin = 30 * time.Second
	// nextWave is how long after one instant that is still waited for the next may follow.
	nextWave = 50 * time.Millisecond
	// mostWaves is how many instants are waited for at a time. There are more only if Passed is not
	// asked for longer than passWithin.
	mostWaves = int(passWithin / nextWave)
)

// Barrier finds out when the connections that waited at listeners at an instant have been admitted
// or refused. It waits for several instants at a time. The zero Barrier waits for none; one
// goroutine uses it.
type Barrier struct {
	waves []wave // oldest first
}

// wave is the connections that waited at an instant.
type wave struct {
	at        time.Time
	listened  time.Duration
	listeners []*Listener
	asked     []uint64 // of each listener
}

// Note adds the connections that wait at the listeners now, at a listening time; unless the latest
// of those that are waited for were noted less than 50 ms ago, or 600 instants are waited for. The
// slice of listeners must not change.
func (b *Barrier) Note(now time.Time, listened time.Duration, listeners []*Listener) {
	if n := len(b.waves); n == mostWaves || n > 0 && now.Sub(b.waves[n-1].at) < nextWave {
		return
	}
	w := wave{at: now, listened: listened, listeners: listeners}
	for _, l := range listeners {
		w.asked = append(w.asked, l.Asked())
	}
	b.waves = append(b.waves, w)
}

// Passed returns the latest listening time that was noted and whose connections, and all those
// before them, have been admitted or were waited for in vain for 30 s. It returns each once; ok is
// false if there is none.
func (b *Barrier) Passed(now time.Time) (listened time.Duration, ok bool) {
	for len(b.waves) > 0 && (b.waves[0].entered() || now.Sub(b.waves[0].at) >= passWithin) {
		listened, ok = b.waves[0].listened, true
		b.waves = b.waves[1:]
	}
	return listened, ok
}

// Waiting reports whether connections are waited for.
func (b *Barrier) Waiting() bool { return len(b.waves) > 0 }

func (w *wave) entered() bool {
	for i, l := range w.listeners {
		if !l.Entered(w.asked[i]) {
			return false
		}
	}
	return true
}
