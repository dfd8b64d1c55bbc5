//go:build linux

package replays

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// verdicts are by silence, as a position in the plan's silences.
type verdicts struct {
	by      map[int]verdict
	strange []string // verdicts on no silence of the plan
}

// note adds a verdict on a device that was silent since an instant of the plan.
func (v *verdicts) note(p *plan, device string, since time.Duration, said verdict) {
	i := slices.IndexFunc(p.silences, func(s silence) bool {
		return p.devices[s.device] == device && near(p.seen(s.start), since)
	})
	if i < 0 {
		v.strange = append(v.strange, fmt.Sprintf("%s, silent since %v: %v", device, since.Round(time.Millisecond), said))
		return
	}
	before := v.by[i]
	if before.late > 0 && said.late == 0 { // the verdict follows
		said.late = before.late
	}
	v.by[i] = said
}

// planned returns the verdicts that the plan calls for. It says nothing of what is late.
func (p *plan) planned(timeout time.Duration) verdicts {
	v := verdicts{by: make(map[int]verdict)}
	for i := range p.silences {
		if said := p.judged(&p.silences[i], timeout); said.offline > 0 {
			v.by[i] = said
		}
	}
	return v
}

// real returns what a server has said.
func (p *player) real(ctx context.Context) (verdicts, error) {
	v := verdicts{by: make(map[int]verdict)}
	events, err := p.server.events(ctx)
	if err != nil {
		return v, err
	}
	for i := range events {
		e := &events[i]
		heard := time.Duration(*e.Data.Silence * float64(time.Millisecond))
		said := verdict{late: heard}
		if e.Type == "io.holter."+liveness.DeviceOffline.String() {
			said = verdict{offline: heard, reason: reasonOf(e.Data.Reason)}
			if e.Data.Reason == liveness.Bye.String() {
				continue
			}
		}
		v.note(p.plan, e.Subject, e.Data.LastSeen.Sub(p.began), said)
	}
	return v, nil
}

func reasonOf(name string) liveness.Reason {
	for r := liveness.NoReason; r <= liveness.Reported; r++ {
		if r.String() == name {
			return r
		}
	}
	return liveness.NoReason
}

// recording is what a server has recorded, as its database has it after it ended.
type recording struct {
	*plan

	began  time.Time
	gaps   []judgement.Gap
	breaks map[string][]judgement.Break
	source map[string]liveness.SourceConfig
	ids    map[uint32]string
	set    map[uint32]liveness.Policy
	limit  time.Duration // the greatest of all devices
}

// read reads what a server has recorded that has ended.
func (p *player) read(ctx context.Context) (*recording, error) {
	db, err := sqldb.New(sqldb.Config{URL: "sqlite:" + p.server.data + "/holter.db"})
	if err != nil {
		return nil, err
	}
	s, err := store.New(db, store.Config{Memory: store.NoMemory})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	if err := s.Open(ctx); err != nil {
		return nil, err
	}
	registry, err := liveness.New(s, liveness.Config{Policy: liveness.Policy{
		Timeout: p.recorded, LateAfter: p.late(p.recorded), Interval: p.interval, CloseGrace: p.closeGrace,
	}})
	if err != nil {
		return nil, err
	}
	loaded, err := s.Load(ctx, registry)
	if err != nil {
		return nil, err
	}
	r := &recording{
		plan: p.plan, began: p.began, breaks: make(map[string][]judgement.Break), source: make(map[string]liveness.SourceConfig),
		ids: make(map[uint32]string), set: make(map[uint32]liveness.Policy),
	}
	return r, r.fill(ctx, s, registry, loaded.Checkpoint)
}

// fill reads what is kept. The server's clocks stand still since ended.
func (r *recording) fill(ctx context.Context, s *store.Store, registry *liveness.Registry, ended time.Time) error {
	from, to := r.began.Add(-time.Hour), time.Now().Add(time.Hour)
	breaks, err := s.Breaks(ctx, from, to)
	if err != nil {
		return err
	}
	for _, b := range breaks {
		r.breaks[b.Source] = append(r.breaks[b.Source], b)
	}
	for _, source := range registry.Sources() {
		r.source[source.Name()] = source.Config()
	}
	registry.Silences(func(s *liveness.DeviceSilence) {
		r.ids[s.Num], r.set[s.Num] = s.ID, s.Set
		r.limit = max(r.limit, s.Limit)
		if s.Open.Length > 0 {
			s.Open.At = ended
			r.gaps = append(r.gaps, s.Open)
		}
	})
	for g, err := range s.Gaps(ctx, from, to, nil) {
		if err != nil {
			return err
		}
		if g.End != judgement.EndLimit {
			r.gaps = append(r.gaps, g)
		}
	}
	return nil
}

// replayed returns what the recorded silences say with another timeout.
func (r *recording) replayed(timeout time.Duration) verdicts {
	v := verdicts{by: make(map[int]verdict)}
	for i := range r.gaps {
		g := &r.gaps[i]
		p := r.set[g.Num]
		p.Timeout = timeout
		cfg := r.source[g.Source]
		j := g.Judge(p.Complete(), cfg.Grace(p.Complete()), r.breaks[g.Source])
		if j.Late > 0 || j.Offline > 0 {
			v.note(r.plan, r.ids[g.Num], r.startOf(g).Sub(r.began), verdict{j.Late, j.Offline, j.Reason})
		}
	}
	return v
}

// startOf returns when a gap began, by the wall clock.
func (r *recording) startOf(g *judgement.Gap) time.Time {
	at := g.At.Add(-g.Length)
	for _, b := range r.breaks[g.Source] {
		if b.At > g.Start && b.At <= g.Start+g.Length && b.Kind != judgement.BreakSpare {
			at = at.Add(-b.Length)
		}
	}
	return at
}
