//go:build linux

package replays

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxLate is how late the plan may be played so that differences mean something: a silence is still clear of all
// deadlines then.
const maxLate = 300 * time.Millisecond

// errBusy is wrapped by the error of a run that shows nothing, since the plan was played too late.
var errBusy = errors.New("the machine is too busy")

// publish writes what came of all timeouts.
func (b *bench) publish(ctx context.Context, p *plan) error {
	late, wrong := time.Duration(0), b.wrong
	for _, player := range b.players {
		late = max(late, time.Duration(player.behind.Load()))
	}
	for _, r := range b.rows {
		for _, text := range r.wrong {
			wrong = append(wrong, fmt.Sprintf("timeout %v: %s", r.timeout, text))
		}
	}
	for _, text := range wrong[:min(len(wrong), 200)] {
		b.Progress("%s", text)
	}
	if late > maxLate && len(wrong) > 0 {
		return fmt.Errorf("%w: something happened %v later than planned, want %v at most; %d differences", errBusy, late, maxLate, len(wrong))
	}
	if err := b.Publish(ctx, "Replay", "replay", b.report(p, late, len(wrong))); err != nil {
		return err
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %d differences", errDiffers, len(wrong))
	}
	return nil
}

// report returns the section.
func (b *bench) report(p *plan, late time.Duration, wrong int) string {
	var t strings.Builder
	var stalled []string
	for _, s := range p.stalls {
		stalled = append(stalled, s.length.String())
	}
	fmt.Fprintf(&t, "%d devices over TCP, UDP and HTTP send a heartbeat every %v or so for %v, and are silent %d times beside: heartbeats are lost, devices flap, "+
		"connections end, a site fails, some devices never return. Seven servers with different timeouts are played the same plan with connections of their own, and are "+
		"stopped (SIGSTOP) for %s. The one with %v records all silences longer than %v, and is asked what each timeout would have done. `real` is what the server with that timeout said.\n\n",
		len(p.devices), p.interval, p.length, len(p.silences), strings.Join(stalled, " and "), p.recorded, b.limit.Round(time.Millisecond))
	t.WriteString("| timeout | offline: plan | real | replayed | `/v1/replay`: false alarms | outages seen | closed | late: real | replayed | differences | apart at most |\n" +
		"|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range b.rows {
		fmt.Fprintf(&t, "| %v | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d ms |\n", r.timeout, r.planned, r.real, r.replayed,
			r.answer.FalseAlarms, r.answer.Seen, r.answer.Closed, r.lates, r.answer.Lates, len(r.wrong), r.apart.Milliseconds())
	}
	fmt.Fprintf(&t, "\nEach verdict is compared by device, silence, reason and delay, in all three and with the counts of `/v1/replay` in total and for each device: %d differences. "+
		"The availability of each device on each server is that of the plan to %.2f %% of the time at most. Nothing in the plan ends within %v of a deadline, and all was played within %v of its time.\n",
		wrong, 100*b.share, margin, late.Round(time.Millisecond))
	return t.String()
}
