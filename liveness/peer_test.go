package liveness_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// The peer that Peer returns is that of the open session.
func TestPeer(t *testing.T) {
	inRig(t, liveness.Config{Devices: map[string]liveness.Policy{"never": {}}}, liveness.SourceConfig{}, func(r *rig) {
		want := func(id string, want liveness.Peer) {
			r.Helper()
			if got, ok := r.registry.Peer(id); got != want || ok != (want != nil) {
				r.Errorf("Peer(%s) = %v, %v, want %v", id, got, ok, want)
			}
		}
		want("nobody", nil)
		want("never", nil)
		first, second := new(peer), new(peer)
		s := r.openAs("a", liveness.Hello{}, first)
		r.open("without")
		want("a", first)
		want("without", nil)
		r.openAs("a", liveness.Hello{}, second)
		want("a", second)
		s.Close(r.now(), liveness.Closed)
		want("a", second)
		r.listen(30 * unit)
		want("a", second) // judged, and connected
		other := r.addSource(liveness.SourceConfig{Name: "other"})
		if _, err := other.Apply("a", liveness.Signal{At: other.Time(time.Now())}); err != nil {
			r.Error(err)
		}
		want("a", second) // heard elsewhere as well
		b := r.openAs("b", liveness.Hello{}, first)
		b.Bye(r.now())
		want("b", nil)
		r.openAs("c", liveness.Hello{}, first).Close(r.now(), liveness.Closed)
		want("c", nil)
		r.openAs("d", liveness.Hello{}, first)
		if err := r.registry.Forget("d"); err != nil {
			r.Error(err)
		}
		want("d", nil)
	})
}

// Peer is called while sessions come and go.
func TestPeerConcurrently(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		peers := [2]*peer{new(peer), new(peer)}
		var running sync.WaitGroup
		for i := range 2 {
			running.Go(func() {
				for n := range 500 {
					s := &liveness.Session{}
					if _, err := r.source.Open(s, "a", liveness.Hello{}, peers[i], r.now()); err == nil && n%3 == 0 {
						s.Close(r.now(), liveness.Closed)
					}
					time.Sleep(time.Nanosecond)
				}
			})
			running.Go(func() {
				for range 500 {
					if p, ok := r.registry.Peer("a"); ok && p != liveness.Peer(peers[0]) && p != liveness.Peer(peers[1]) {
						r.Errorf("Peer = %v", p)
					}
					time.Sleep(time.Nanosecond)
				}
			})
		}
		running.Wait()
	})
}
