package replay

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// device is what a replay knows of a device. There may be a million.
type device struct {
	num         uint32
	rule, held  int32 // positions in fleet.policies: what the rules say, and the policy that is in force
	group       int32 // position in fleet.groups
	sessions    bool
	offline     bool          // now
	limit, last time.Duration // the greatest limit in the window, 0 if nothing is known; the end of its latest gap
	source      *source       // of its latest gap
	learned     time.Duration
	since       time.Time      // that something is known of it; zero: longer than anything is kept
	open        *judgement.Gap // not over yet, and long enough to be recorded
	current     time.Duration  // the limit at present
	id          string         // of a Question with ids only
	tally       *deviceTally   // the same; nil if nothing was counted
	spell       *spell         // nil if it is online by all policies that are tried
}

// fleet is the devices that a question is about.
type fleet struct {
	devices   []device
	byNum     map[uint32]int32
	policies  []liveness.Policy
	groups    []string
	unknown   int
	untracked int

	positions map[liveness.Policy]int32
	named     map[string]int32
}

func (f *fleet) of(num uint32) *device {
	if i, ok := f.byNum[num]; ok {
		return &f.devices[i]
	}
	return nil
}

func (f *fleet) has(num uint32) bool {
	_, ok := f.byNum[num]
	return ok
}

// fleetOf returns the devices that a question is about. Errors: ErrUnknown.
func (e *Engine) fleetOf(q *Question) (*fleet, error) {
	if q.Group != "" {
		if _, ok := e.registry.Operator().Outages(q.Group); !ok {
			return nil, fmt.Errorf("%w: no group %q is configured", ErrUnknown, q.Group)
		}
	}
	if q.Device != "" && !e.registry.Operator().Known(q.Device) {
		return nil, fmt.Errorf("%w: no device %q was ever seen or configured", ErrUnknown, q.Device)
	}
	f := &fleet{byNum: make(map[uint32]int32), positions: make(map[liveness.Policy]int32), named: make(map[string]int32)}
	e.registry.Operator().Silences(func(s *operate.Silence) {
		if (q.Group == "" || s.Group == q.Group) && (q.Device == "" || s.ID == q.Device) && (q.ids == nil || q.ids[s.ID]) {
			f.add(s, q.ids != nil)
		}
	})
	return f, nil
}

// add adds a device, with its id if it is to have a tally of its own. It is called with a lock of the
// registry held.
func (f *fleet) add(s *operate.Silence, single bool) {
	switch {
	case s.Num == 0:
		f.unknown++ // it was never heard
		return
	case s.Held.Timeout >= liveness.Never:
		f.untracked++
		return
	}
	d := device{
		num: s.Num, rule: f.policy(s.Set), held: f.policy(s.Held), group: f.groupNamed(s.Group), sessions: s.Sessions, offline: s.Offline, learned: s.Learned,
		current: s.Limit,
	}
	if open := &s.Open; open.Length > 0 && s.Limit > 0 && (open.Length-open.Slept > s.Limit || open.Reason != liveness.NoReason) {
		gap := s.Open
		d.open = &gap
	}
	if single {
		d.id = strings.Clone(s.ID) // it may lie within the device
	}
	f.byNum[d.num] = int32(len(f.devices))
	f.devices = append(f.devices, d)
}

func (f *fleet) policy(p liveness.Policy) int32 {
	i, ok := f.positions[p]
	if !ok {
		i = int32(len(f.policies))
		f.positions[p] = i
		f.policies = append(f.policies, p)
	}
	return i
}

func (f *fleet) groupNamed(name string) int32 {
	i, ok := f.named[name]
	if !ok {
		i = int32(len(f.groups))
		f.named[name] = i
		f.groups = append(f.groups, name)
	}
	return i
}

// settle completes what the records say of limits, and leaves out the devices of which nothing is known in
// the window.
func (f *fleet) settle(q *Question) {
	kept := f.devices[:0]
	clear(f.byNum)
	for _, d := range f.devices {
		if d.limit == 0 { // it did not change for as long as records are kept
			d.limit = d.current
		}
		if d.limit == 0 || !d.since.Before(q.To) {
			f.unknown++
			continue
		}
		f.byNum[d.num] = int32(len(kept))
		kept = append(kept, d)
	}
	f.devices = kept
}

// month is that of the budgets.
const month = 30 * 24 * time.Hour

// watched returns for how long the devices were watched in the window, all together, in months.
func (f *fleet) watched(q *Question) float64 {
	months := 0.0
	for i := range f.devices {
		from := q.From
		if f.devices[i].since.After(from) {
			from = f.devices[i].since
		}
		months += float64(q.To.Sub(from)) / float64(month)
	}
	return months
}

// limitOf returns from which value of a setting on a device's silences are all recorded. A silence after
// its connection ended is from half of the close grace on.
func (f *fleet) limitOf(d *device, field Field) time.Duration {
	if field == CloseGrace {
		return min(d.limit, f.policies[d.held].CloseGrace/2)
	}
	return d.limit
}

// limits returns the limits of the devices in order.
func (f *fleet) limits(field Field) []time.Duration {
	all := make([]time.Duration, len(f.devices))
	for i := range f.devices {
		all[i] = f.limitOf(&f.devices[i], field)
	}
	slices.Sort(all)
	return all
}
