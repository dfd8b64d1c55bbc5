//go:build linux

package replays

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/liveness"
)

// tolerance is how far apart two verdicts on the same silence may be, in heard time.
const tolerance = 300 * time.Millisecond

// row is what came of a timeout.
type row struct {
	timeout                 time.Duration
	planned, real, replayed int // devices that went offline
	lates                   int // devices that were late, of the real ones
	falseAlarms, closed     int // of the real ones
	answer                  replay.Point
	bound                   bool          // not all silences as short as the timeout were recorded
	apart                   time.Duration // between a real and a replayed verdict on the same silence, at most
	wrong                   []string
}

// compare compares what the plan, a server and the replay say. Below the limit from which silences are
// recorded the replay may say less.
func (p *plan) compare(timeout, limit time.Duration, planned, actual, replayed verdicts) *row {
	r := &row{timeout: timeout, bound: timeout < limit}
	for i := range p.silences {
		s := &p.silences[i]
		want, said, again := planned.by[i], actual.by[i], replayed.by[i]
		r.count(p, s, want, said, again)
		if want.reason != said.reason || (want.offline-said.offline).Abs() > tolerance {
			r.fail(p, s, "the plan says %v, the server %v", want, said)
		}
		if r.bound && again.offline == 0 {
			continue
		}
		if said.reason != again.reason || (said.offline-again.offline).Abs() > tolerance || (said.late-again.late).Abs() > tolerance {
			r.fail(p, s, "the server says %v, the replay %v", said, again)
		}
	}
	for _, text := range actual.strange {
		r.wrong = append(r.wrong, "of the server: "+text)
	}
	for _, text := range replayed.strange {
		r.wrong = append(r.wrong, "of the replay: "+text)
	}
	return r
}

func (r *row) count(p *plan, s *silence, planned, actual, replayed verdict) {
	if planned.offline > 0 {
		r.planned++
	}
	if replayed.offline > 0 {
		r.replayed++
	}
	if actual.late > 0 {
		r.lates++
	}
	if actual.offline == 0 {
		return
	}
	r.real++
	switch {
	case actual.reason != liveness.Silence:
		r.closed++
	case !p.outage(s, actual):
		r.falseAlarms++
	}
	if replayed.offline > 0 {
		r.apart = max(r.apart, (actual.offline - replayed.offline).Abs())
	}
}

func (r *row) fail(p *plan, s *silence, format string, args ...any) {
	what := fmt.Sprintf("%s, silent from %v to %v (closed %v): ", p.devices[s.device], s.start, s.end, s.closed)
	r.wrong = append(r.wrong, what+fmt.Sprintf(format, args...))
}

func (v verdict) String() string {
	return fmt.Sprintf("%q after %v, late after %v", v.reason, v.offline, v.late)
}

// ask asks a server to replay what it has recorded, with all timeouts, of all devices or one.
func (p *player) ask(ctx context.Context, device string) (a replay.Answer, err error) {
	var values []string
	for _, t := range p.timeouts {
		values = append(values, t.String())
	}
	query := url.Values{"timeout": {strings.Join(values, ",")}}
	if device != "" {
		query.Set("device", device)
	}
	err = p.server.get(ctx, "/v1/replay", query, &a)
	if err == nil && len(a.Points) != len(p.timeouts) {
		err = fmt.Errorf("the answer has %d points, want %d", len(a.Points), len(p.timeouts))
	}
	return a, err
}

// counted compares what the API counts with what a server said.
func (r *row) counted() {
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"verdicts", r.answer.FalseAlarms + r.answer.Seen, r.real},
		{"false alarms", r.answer.FalseAlarms, r.falseAlarms},
		{"closed", r.answer.Closed, r.closed},
		{"late", r.answer.Lates, r.lates},
	} {
		if c.got > c.want || c.got < c.want && !r.bound {
			r.wrong = append(r.wrong, fmt.Sprintf("the API counts %d %s, and it were %d", c.got, c.what, c.want))
		}
	}
	if r.answer.Bound != r.bound {
		r.wrong = append(r.wrong, fmt.Sprintf("the API says that its counts are lower bounds: %v, want %v", r.answer.Bound, r.bound))
	}
}

// countedOf returns how often each device went offline.
func (p *plan) countedOf(v verdicts) []int {
	n := make([]int, len(p.devices))
	for i, said := range v.by {
		if said.offline > 0 {
			n[p.silences[i].device]++
		}
	}
	return n
}

// byDevice compares what the API counts of each device with what the servers said, by timeout.
func (p *player) byDevice(ctx context.Context, actual []verdicts) (wrong []string, err error) {
	var want [][]int
	for _, v := range actual {
		want = append(want, p.countedOf(v))
	}
	for i, id := range p.devices {
		a, err := p.ask(ctx, id)
		if err != nil {
			return wrong, err
		}
		for t, point := range a.Points {
			if got := point.FalseAlarms + point.Seen; got > want[t][i] || got < want[t][i] && !point.Bound {
				wrong = append(wrong, fmt.Sprintf("%s, %v: the API counts %d verdicts, and it were %d", id, p.timeouts[t], got, want[t][i]))
			}
		}
	}
	return wrong, nil
}

// availability compares the share of the time in which each device was up with what the plan says of it. It
// returns by how much it differs at most.
func (p *player) availability(ctx context.Context) (worst float64, wrong []string, err error) {
	from, to := p.interval*5, p.length
	planned := p.planned(p.server.timeout)
	for i, id := range p.devices {
		var a struct {
			Share   float64
			Outages int
		}
		query := url.Values{"from": {p.stamp(from)}, "to": {p.stamp(to)}}
		if err := p.server.get(ctx, "/v1/devices/"+url.PathEscape(id)+"/availability", query, &a); err != nil {
			return worst, wrong, err
		}
		down, outages := p.down(i, planned)
		want := 1 - float64(down)/float64(p.listened(to)-p.listened(from))
		worst = max(worst, math.Abs(a.Share-want))
		if math.Abs(a.Share-want)*p.length.Seconds() > maxDownError.Seconds() || a.Outages != outages {
			wrong = append(wrong, fmt.Sprintf("%s was up for %.4f of the time in %d outages, the plan says %.4f and %d", id, a.Share, a.Outages, want, outages))
		}
	}
	return worst, wrong, nil
}

// maxDownError is by how much the time may differ in which a device was down: some 100 ms for each of some
// verdicts.
const maxDownError = 2 * time.Second

func (p *player) stamp(at time.Duration) string {
	return p.began.Add(at).UTC().Format(time.RFC3339Nano)
}

// down returns for how long a device was not up in heard time, goodbyes included, and how often not without one.
func (p *plan) down(device int, planned verdicts) (down time.Duration, outages int) {
	for i := range p.silences {
		s := &p.silences[i]
		if s.device != device {
			continue
		}
		if said := planned.by[i]; said.offline > 0 {
			down += p.heard(s) - said.offline
			outages++
		}
		if s.ending == bye && s.end > 0 {
			next := slices.IndexFunc(p.acts[device], func(a act) bool { return a.at > s.end })
			down += p.listened(p.acts[device][next].at) - p.listened(s.end)
		}
	}
	return down, outages
}
