package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/liveness"
)

const (
	// lookAtSelf is how often it is looked whether the process hears, and whether its status has changed.
	lookAtSelf = 500 * time.Millisecond
	// maxStatus is the length of a status, in bytes.
	maxStatus = 300
)

// tellManager tells the service manager something, see sd_notify(3). Without one that wants to know, with the
// environment variable NOTIFY_SOCKET, it does nothing; and it cannot help it if the manager does not listen.
func tellManager(lines ...string) { _, _ = daemon.SdNotify(false, strings.Join(lines, "\n")) }

// managerReloads tells the service manager that the configuration is being read again, until done is called.
func managerReloads() (done func()) {
	tellManager(daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec())
	return func() { tellManager(daemon.SdNotifyReady) }
}

// activity is what the process does at the time, for the service manager.
type activity struct {
	ready    bool            // the start is over
	status   func() string   // one line
	progress func() []uint64 // counts that stand still only if the process hears no more; nil: there is nothing to hear yet
}

// service tells the service manager how the process does. The zero value is ready for use; its methods may be
// called concurrently.
type service struct {
	role    atomic.Pointer[activity]
	readied atomic.Bool
	ending  atomic.Bool
}

// is sets what the process does from now on. The manager is told at once.
func (s *service) is(r activity) {
	s.role.Store(&r)
	lines := []string{statusLine(r.status())}
	if r.ready && !s.readied.Swap(true) {
		lines = append(lines, daemon.SdNotifyReady)
	}
	tellManager(lines...)
}

// stopping tells the manager that the process ends, once.
func (s *service) stopping() {
	if !s.ending.Swap(true) {
		tellManager(daemon.SdNotifyStopping)
	}
}

// begin runs s until ctx is done, or end is called, which waits for it.
func (s *service) begin(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { s.run(ctx) })
	return func() {
		cancel()
		all.Wait()
	}
}

// run feeds the watchdog while the process hears, and keeps the status, until ctx is done.
func (s *service) run(ctx context.Context) {
	defer s.stopping()
	limit, _ := daemon.SdWatchdogEnabled(false) // 0 if the manager asks for nothing, or for nothing that can be understood
	tick := time.NewTicker(lookAtSelf)
	defer tick.Stop()
	var dog watchdog
	var said string
	var saidIn *activity // said was told in it; is tells another one's status
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		r, now := s.role.Load(), time.Now()
		if r == nil {
			continue
		}
		if limit > 0 && dog.due(now, r, limit/10) {
			tellManager(daemon.SdNotifyWatchdog)
		}
		if line := statusLine(r.status()); line != said || r != saidIn {
			tellManager(line)
			said, saidIn = line, r
		}
	}
}

// statusLine returns the status for the manager: a line, whatever the text holds.
func statusLine(text string) string {
	text = terminal.Printable(strings.Join(strings.Fields(text), " "))
	if len(text) > maxStatus {
		text = strings.ToValidUTF8(text[:maxStatus], "") + "…"
	}
	return "STATUS=" + text
}

// startActivity is that of a judge that starts.
func (s *server) startActivity() activity {
	return activity{status: func() string {
		if err := s.waiting(); err != nil {
			return "starting: " + err.Error()
		}
		return "starting"
	}}
}

// judgeActivity is that of a judge whose start is over.
func (s *server) judgeActivity() activity {
	return activity{ready: true, progress: s.progress, status: func() string {
		status := "judging " + terminal.Plural(s.registry.Gauges().Devices, "device", "devices") + deafText(s.registry)
		if err := s.ready(); err != nil {
			status += "; not ready: " + err.Error()
		}
		return status
	}}
}

// progress returns the counts of all that hears devices in this process.
func (s *server) progress() []uint64 {
	all := s.api.Progress()
	if s.gateway != nil {
		all = append(all, s.gateway.Operator().Progress()...)
	}
	return all
}

// deafText tells which of the sources that are here are deaf, and since when.
func deafText(registry *liveness.Registry) string {
	var out strings.Builder
	for _, s := range registry.Sources() {
		if v := s.View(); !v.Absent && !v.DeafSince.IsZero() {
			fmt.Fprintf(&out, "; %s is deaf since %s", v.Name, v.DeafSince.UTC().Format(time.RFC3339))
		}
	}
	return out.String()
}
