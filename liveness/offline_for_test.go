package liveness_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// offlineFor returns for each event of a device its type and how long it says that the device was
// offline, in units.
func (r *rig) offlineFor(id string) []string {
	r.Helper()
	var list []string
	for _, e := range r.events() {
		if e.Subject == id && e.Type != liveness.DeviceSessionReplaced {
			list = append(list, e.Type.String()+" "+(time.Duration(inUnits(e.OfflineFor))*time.Second).String())
		}
	}
	return list
}

// The event by which a device is back says how long it was offline, and no other does.
func TestOfflineFor(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.open("d")
		r.listen(50 * unit)
		r.open("d")
		r.open("d").Bye(r.now())
		r.listen(7 * unit)
		r.open("d").Sleep(r.now(), 10*unit)
		r.listen(5 * unit)
		r.open("d")
		want := []string{
			"device.online 0s", "device.offline 0s", "device.online 20s", "device.offline 0s", "device.online 7s",
			"device.sleeping 0s", "device.online 0s",
		}
		if got := r.offlineFor("d"); !slices.Equal(got, want) {
			r.Errorf("events %q, want %q", got, want)
		}
	})
}

// The time in which no process ran counts, too: the device was offline all the same.
func TestOfflineForAcrossRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{}, origin)
		l.source.Pulse(time.Now())
		l.open("d").Bye(l.now())
		l.listen(10 * unit)
		k.checkpoint(l.registry)
		l.stop()
		time.Sleep(1000 * unit)
		l = begin(t, k, liveness.Config{}, origin)
		defer func() { l.stop() }()
		l.pulse()
		l.events()
		l.open("d")
		if got, want := l.offlineFor("d"), []string{"device.online 16m50s"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}
