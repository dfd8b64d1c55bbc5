package mqtt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/fleet"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// grace is how long after the last deadline connections are waited for: mosquitto looks every few seconds.
const grace = 10 * time.Second

// silent is how a broker noticed that its clients fell silent.
type silent struct {
	measured.Usage // while all ping

	cut   int           // connections that the broker closed while the client pinged
	stall time.Duration // of the machine, at worst
	// noticed is how long after its deadline the verdict on a client came or, where there are none, its connection was closed. The deadline
	// is one and a half keep alives after the client began to send its last packet.
	noticed, closed []time.Duration
	early, late     int // late: after more than 1 % of the timeout and 100 ms
}

// row names the clients of a broker that have a keep alive in common.
func row(broker string, keepAlive time.Duration) string {
	return fmt.Sprintf("%s, %v", broker, keepAlive)
}

// silence makes the clients of a broker fall silent, for each keep alive.
func (b *bench) silence(ctx context.Context, broker string) error {
	for _, keepAlive := range b.keepAlives {
		var r silent
		var err error
		if r.stall, err = cores.Witness(func() error { return b.fallSilent(ctx, broker, keepAlive, &r) }); err != nil {
			return err
		}
		b.silent[row(broker, keepAlive)] = append(b.silent[row(broker, keepAlive)], r)
	}
	return nil
}

// plan returns the clients of a broker, which ping twice in their keep alive. None comes back.
func (b *bench) plan(broker string, keepAlive time.Duration) *plan.Plan {
	p := &plan.Plan{
		Protocol: plan.MQTT, Targets: []string{broker}, Devices: b.clients, Interval: keepAlive / 2, Timeout: keepAlive * 3 / 2, Ramp: 1e6,
		Backoff: time.Hour, BackoffMax: time.Hour,
	}
	fleet.Fill(p)
	return p
}

// fallSilent connects the clients, makes them ping, and then be silent.
func (b *bench) fallSilent(ctx context.Context, broker string, keepAlive time.Duration, r *silent) (err error) {
	p, err := measured.Start(ctx, measured.Alone, b.Name(), broker, b.Dir)
	if err != nil {
		return err
	}
	defer p.Stop()
	clients := b.plan(p.Addr.String(), keepAlive)
	d, stop, err := fleet.Play(ctx, drive.Config{Plan: clients, Journal: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err = r.ping(ctx, p, d, clients.Interval); err != nil {
		return err
	}
	for i := range clients.Devices {
		err = errors.Join(err, d.Order(drive.Order{Device: i, Step: plan.Step{Kind: plan.Silent}}))
	}
	for end := time.Now().Add(clients.Timeout + grace); err == nil && d.Stats().Open > 0 && time.Now().Before(end); {
		err = run.Wait(ctx, 100*time.Millisecond)
	}
	var verdicts map[string]time.Time
	if err == nil && broker == holter {
		err = p.Ask(measured.Work, &verdicts)
	}
	r.notice(clients, d, verdicts)
	return err
}

// ping measures for as long as it takes that each client has pinged.
func (r *silent) ping(ctx context.Context, p *measured.Process, d *drive.Drive, length time.Duration) (err error) {
	r.Usage, err = measured.During(func() error { return run.Wait(ctx, length) }, p.PID)
	r.cut = int(d.Stats().Lost)
	return err
}

// notice fills in when the silence of the clients was noticed. verdicts are nil where there are none.
func (r *silent) notice(clients *plan.Plan, d *drive.Drive, verdicts map[string]time.Time) {
	journals := d.Journals()
	for _, t := range d.Truths() {
		due := t.Last.Add(clients.Timeout)
		if ended := journals[t.Device].Ended; ended != 0 {
			r.closed = append(r.closed, time.Unix(0, ended).Sub(due))
		}
		if at, ok := verdicts[clients.DeviceID(t.Device)]; ok {
			r.noticed = append(r.noticed, at.Sub(due))
		}
	}
	if verdicts == nil {
		r.noticed = slices.Clone(r.closed)
	}
	slices.Sort(r.closed)
	slices.Sort(r.noticed)
	allowed := clients.Timeout/100 + 100*time.Millisecond
	r.early, _ = slices.BinarySearch(r.noticed, 0)
	onTime, _ := slices.BinarySearch(r.noticed, allowed+1)
	r.late = len(r.noticed) - onTime
}

// quantile returns a column with a part of some times, in milliseconds: 0 is the shortest, 1 the longest.
func quantile(title string, part float64, of func(silent) []time.Duration) figures.Column[silent] {
	return figures.Col(title, 0, func(r silent) float64 {
		times := of(r)
		if len(times) == 0 {
			return math.NaN()
		}
		return figures.Millis(times[int(part*float64(len(times)-1))])
	})
}

func (b *bench) reportSilence() string {
	var rows []string
	for _, broker := range brokers() {
		for _, keepAlive := range b.keepAlives {
			rows = append(rows, row(broker, keepAlive))
		}
	}
	noticed := func(r silent) []time.Duration { return r.noticed }
	table := figures.Table("broker, keep alive", rows, b.silent,
		figures.Count("noticed", func(r silent) int { return len(r.noticed) }),
		figures.Count("early", func(r silent) int { return r.early }), figures.Count("late", func(r silent) int { return r.late }),
		quantile("least, ms", 0, noticed), quantile("p50", 0.5, noticed), quantile("p99", 0.99, noticed), quantile("most", 1, noticed),
		quantile("closed, p99", 0.99, func(r silent) []time.Duration { return r.closed }),
		figures.Percent("others", func(r silent) float64 { return r.Others }), figures.Count("cut off while they pinged", func(r silent) int { return r.cut }),
		figures.Time("machine stalled, ms", 0, time.Millisecond, func(r silent) time.Duration { return r.stall }))
	if table == "" {
		return ""
	}
	var missing, early, late int
	for _, keepAlive := range b.keepAlives {
		for _, r := range b.silent[row(holter, keepAlive)] {
			missing, early, late = missing+b.clients-len(r.noticed), early+r.early, late+r.late
		}
	}
	return fmt.Sprintf("\n### %s clients fall silent, one after the other\n\nMilliseconds from the deadline, which is one and a half keep alives after the "+
		"client began to send its last packet, to the verdict of holter, or the end of the connection of the others. Late: after more than 1 %% of that time and "+
		"100 ms.\n\n%s\n"+
		"Targets for holter: all judged for silence: %s; none early: %s; none late: %s.\n", figures.Grouped(b.clients), table,
		figures.Met(missing == 0), figures.Met(early == 0), figures.Met(late == 0))
}
