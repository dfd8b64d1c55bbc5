// Package ratewindow counts events by key over the last minute or two, in bounded memory: wrong passwords
// from an address, takeovers of a device.
package ratewindow

import (
	"sync"
	"time"
)

const (
	// length is how long events are counted together.
	length = time.Minute
	// mostKeys is how many keys a Window holds for a minute.
	mostKeys = 1 << 16
)

// Window counts events by key in the current minute and the one before, and keeps a note for
// each key. It holds at most 65,536 keys a minute; events of more keys are not counted. The zero
// Window is empty; its methods may be called concurrently.
type Window[K comparable, N any] struct {
	mu      sync.Mutex // guards the fields
	minute  time.Time
	current map[K]windowCount[N]
	before  map[K]windowCount[N]
}

type windowCount[N any] struct {
	count int
	note  N
}

// Add counts one event of a key, and returns the key's count.
func (w *Window[K, N]) Add(now time.Time, key K) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turnLocked(now)
	if e, ok := w.entryLocked(key); ok {
		e.count++
		w.current[key] = e
	}
	return w.countLocked(key)
}

// Count returns the count of a key, in the worse of both minutes.
func (w *Window[K, N]) Count(now time.Time, key K) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.minute.IsZero() {
		return 0
	}
	w.turnLocked(now)
	return w.countLocked(key)
}

// Note changes the note of a key that was counted. It returns the note from before.
func (w *Window[K, N]) Note(now time.Time, key K, change func(*N)) (before N) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.minute.IsZero() {
		return before
	}
	w.turnLocked(now)
	if w.countLocked(key) == 0 {
		return before
	}
	e, ok := w.entryLocked(key)
	if before = e.note; ok {
		change(&e.note)
		w.current[key] = e
	}
	return before
}

// Above returns how many keys have a count of at least least.
func (w *Window[K, N]) Above(now time.Time, least int) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turnLocked(now)
	for key, e := range w.current {
		if e.count >= least && w.before[key].count < least {
			n++
		}
	}
	for _, e := range w.before {
		if e.count >= least {
			n++
		}
	}
	return n
}

// entryLocked returns the entry of a key in this minute; ok is false if there is no room for it.
func (w *Window[K, N]) entryLocked(key K) (e windowCount[N], ok bool) {
	if w.current == nil {
		w.current = make(map[K]windowCount[N])
	}
	if e, ok = w.current[key]; ok {
		return e, true
	}
	return windowCount[N]{note: w.before[key].note}, len(w.current) < mostKeys
}

func (w *Window[K, N]) countLocked(key K) int {
	return max(w.current[key].count, w.before[key].count)
}

func (w *Window[K, N]) turnLocked(now time.Time) {
	switch age := now.Sub(w.minute); {
	case age < length:
		return
	case age < 2*length: // the next minute began when that one ended, whenever it is asked for
		w.before, w.minute = w.current, w.minute.Add(length)
	default:
		w.before, w.minute = nil, now
	}
	w.current = nil
}
