package link_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// wanderer is a device without a connection. A balancer leads each of its datagrams to some ear, mostly to
// the same one. It notices after 3 s that an ear is dead.
type wanderer struct {
	device
}

// send has a datagram on its way to an ear. It may be lost there.
func (w *wanderer) send(r *rand.Rand, now time.Duration) {
	if w.dead || time.Now().Before(w.asleep) {
		return
	}
	w.said.Add(1)
	w.granted.Store(0)
	if !slices.ContainsFunc(w.ears, func(e *listener) bool { return !e.isAvoided() }) { // it is lost before it comes to an ear
		return
	}
	for w.at == nil || w.at.isAvoided() || !slices.Contains(w.ears, w.at) || r.IntN(6) == 0 {
		w.at = w.ears[r.IntN(len(w.ears))]
	}
	switch e := w.at; {
	case e.killed, e.lossCount()%2 == 1 && r.IntN(2) == 0:
	case e.stalled:
		e.unread = append(e.unread, w)
	default:
		e.reads(w, now)
	}
}

// isAvoided reports whether the balancer leads nobody to an ear.
func (l *listener) isAvoided() bool {
	return l.drains || l.killed && time.Since(l.died) > 3*time.Second
}

// reads has an ear read a datagram.
func (l *listener) reads(w *wanderer, now time.Duration) {
	s := l.known[w.id]
	if s == nil || !s.Beat(now) {
		h := liveness.Hello{Announced: liveness.Policy{Timeout: 7 * time.Second, Interval: 5 * time.Second}}
		s = l.OpenDatagrams(w.id, h, &w.far, now, nil)
		l.known[w.id] = s
	}
	w.session = s
}

// readDatagrams has an ear read what has come, and forget whom it need not know.
func (l *listener) readDatagrams(now time.Duration) {
	if l.stalled || l.killed {
		return
	}
	for _, w := range l.unread {
		l.reads(w, now)
	}
	l.unread = nil
	for id, s := range l.known {
		if s.Judged() {
			s.Release(now)
		}
		if s.Ended() {
			delete(l.known, id)
		}
	}
}

// loseFor has an ear lose datagrams for a while, and until it is quiet.
func (l *listener) loseFor(d time.Duration) {
	l.lose(true)
	time.Sleep(d + time.Second)
	l.lose(false)
}

// playDatagrams is a step of devices without connections.
func playDatagrams(wanderers []*wanderer, ears []*listener, tick int, r *rand.Rand, now time.Duration) {
	for i, w := range wanderers {
		if tick > 600 && i < 5 && !w.dead && r.IntN(1000) == 0 {
			w.dead, w.died = true, time.Now()
		}
		phase := (tick + i*7) % 50
		if phase == 0 {
			w.send(r, now)
		}
		if i > 12 && tick < 3000 && phase < 45 && w.session != nil && slices.Contains(w.ears, w.at) {
			w.sleep(r, now)
		}
	}
	for _, e := range ears {
		e.readDatagrams(now)
	}
	w := wanderers[r.IntN(len(wanderers))]
	if s := w.session; s != nil && r.IntN(100) == 0 { // its ear makes room for another
		s.Release(now)
	}
}
