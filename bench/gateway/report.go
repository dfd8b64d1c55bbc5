package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// The targets.
const (
	wantRatio = 0.9                   // of gnet's messages
	wantEcho  = 0.85                  // of the echo's messages
	wantBytes = 900                   // of the program's memory for each connection
	wantTLS   = 20_480                // the same for a connection of TLS
	wantLag   = 50 * time.Millisecond // of 99 % of the verdicts
	wantHurt  = 2.0                   // RTT p99 while verdicts are made and connections closed, to that before
)

// publish publishes all sections that were measured; the others stay as they are.
func (b *bench) publish(ctx context.Context) error {
	intro := fmt.Sprintf("Each server has core 0 to itself with GOMAXPROCS=1, the client has core 1; %d rounds in turn. Figures are medians, least and "+
		"most in parentheses. Busy, waiting and others are shares of one core; others is all else on the machine.\n", b.Rounds)
	for _, s := range []struct{ title, name, intro, text string }{
		{"Gateway", "gateway", intro, b.reportBeats() + b.reportIdle() + b.reportVerdicts()},
		{"Gateway: protocols", "gateway-protocols", intro, b.reportProtocols()},
		{"Gateway: TLS and UDP", "gateway-transports", "", b.reportTransports()},
	} {
		if s.text == "" {
			continue
		}
		if err := b.Publish(ctx, s.title, s.name, s.intro+s.text); err != nil {
			return err
		}
	}
	return nil
}

// batches are the messages of one write in the measurements, and what a table says of them.
func batches(kind string) []struct{ measurement, text string } {
	return []struct{ measurement, text string }{
		{kind + "-1", "one message per read"},
		{fmt.Sprintf("%s-%d", kind, pipelined), fmt.Sprintf("%d messages per write", pipelined)},
	}
}

// usage are the columns that say who was busy.
func usage() []figures.Column[beats] {
	return []figures.Column[beats]{
		figures.Percent("server busy", func(r beats) float64 { return r.Share }),
		figures.Percent("client waiting", func(r beats) float64 { return r.waiting }),
		figures.Percent("others", func(r beats) float64 { return r.Others }),
	}
}

func (b *bench) reportBeats() string {
	var w strings.Builder
	rate, perCPU := figures.Ratio("÷ gnet", beats.rate, "gnet"), figures.Ratio("per CPU second ÷ gnet", beats.perCPU, "gnet")
	columns := append([]figures.Column[beats]{
		figures.Col("messages/s", 0, beats.rate), rate, figures.Col("µs of CPU per message", 2, beats.cost), perCPU,
	}, usage()...)
	for _, batch := range batches("beats") {
		results := b.beats[batch.measurement]
		if len(results) == 0 {
			continue
		}
		fmt.Fprintf(&w, "\n### Heartbeats: %d connections, %s\n\n%s", b.connections, batch.text, figures.Table("server", lineServers(), results, columns...))
		if len(results[serverHolter]) > 0 && len(results["gnet"]) > 0 {
			met := func(c figures.Column[beats]) string {
				return figures.Met(figures.Median(c.Figures(results, serverHolter)) >= wantRatio)
			}
			fmt.Fprintf(&w, "\nTarget: holter ÷ gnet at least %.1f: %s; per CPU second, which counts where the client is the limit: %s.\n",
				wantRatio, met(rate), met(perCPU))
		}
	}
	return w.String()
}

func (b *bench) reportProtocols() string {
	over := func(row string) string { return row + bareRow }
	rate := figures.Column[beats]{Title: "÷ echo", Format: figures.Fixed(2), Of: beats.rate, Over: over}
	perCPU := figures.Column[beats]{Title: "per CPU second ÷ echo", Format: figures.Fixed(2), Of: beats.perCPU, Over: over}
	var rows []string
	for _, d := range dialects() {
		rows = append(rows, d.name)
	}
	var w strings.Builder
	for _, batch := range batches("protocol") {
		results := b.beats[batch.measurement]
		if len(results) == 0 {
			continue
		}
		met := func(c figures.Column[beats], row string) string {
			return figures.Met(figures.Median(c.Figures(results, row)) >= wantEcho)
		}
		columns := append([]figures.Column[beats]{
			figures.Col("messages/s", 0, beats.rate),
			figures.Text("echo, messages/s", func(row string, _ []beats) string {
				return figures.Spread(figures.Fixed(0), figures.Each(results[over(row)], beats.rate))
			}),
			rate, figures.Col("µs of CPU per message", 2, beats.cost), perCPU,
		}, usage()...)
		columns = append(columns, figures.Count("lost", func(r beats) int { return r.lost }),
			figures.Text("target", func(row string, _ []beats) string {
				if strings.HasSuffix(row, overUDP) {
					return "–"
				}
				return met(rate, row) + "; per CPU second " + met(perCPU, row)
			}))
		fmt.Fprintf(&w, "\n### Protocols: %d connections, %s\n\nBeside each the echo: an event loop of gnet that sends back what it reads, of the same "+
			"heartbeats, understanding nothing. DTUs are not answered, so theirs only reads.\n\n%s\nTarget: at least %.2f of the echo's messages, or per "+
			"CPU second where the client is the limit; none for UDP.\n", b.connections, batch.text, figures.Table("protocol", rows, results, columns...), wantEcho)
	}
	return w.String()
}

// memory are the columns that say what an idle connection costs.
func memory() []figures.Column[held] {
	return []figures.Column[held]{
		figures.Col("heap, B each", 0, func(r held) float64 { return r.heap }),
		figures.Col("stacks, B each", 0, func(r held) float64 { return r.stacks }),
		figures.Col("resident, B each", 0, func(r held) float64 { return r.resident }),
		figures.Col("connections/s", 0, held.rate),
		figures.Col("µs of CPU each", 0, func(r held) float64 { return float64(r.CPU.Microseconds()) / float64(r.connections) }),
	}
}

// bound tells whether the memory of connections is within a bound, in bytes.
func bound(rs []held, want float64) string {
	return fmt.Sprintf("at most %.0f B, heap and stacks: %s; resident: %s", want, figures.Met(figures.Median(figures.Each(rs, held.user)) <= want),
		figures.Met(figures.Median(figures.Each(rs, func(r held) float64 { return r.resident })) <= want))
}

func (b *bench) reportIdle() string {
	table := figures.Table("server", lineServers(), b.held, memory()...)
	if table == "" {
		return ""
	}
	text := fmt.Sprintf("\n### Idle connections: %d, greeted and answered\n\nMemory is what is left after a collection and `debug.FreeOSMemory`, less what was "+
		"there before the first connection. holter holds device, session and timer for each; its event log, of a fixed size, is full before.\n\n%s", b.idle, table)
	if rs := b.held[serverHolter]; len(rs) > 0 {
		text += "\nTarget: " + bound(rs, wantBytes) + ".\n"
	}
	return text
}

func (b *bench) reportTransports() string {
	columns := append([]figures.Column[held]{figures.Count("sessions", func(r held) int { return r.connections })}, memory()...)
	columns = append(columns, figures.Text("target", func(row string, rs []held) string {
		if strings.HasSuffix(row, overTLS) {
			return bound(rs, wantTLS)
		}
		return "–"
	}))
	table := figures.Table("transport", transports(), b.held, columns...)
	if table == "" {
		return ""
	}
	return "Idle sessions of the line protocol, measured like those above.\n\n" + table
}

func (b *bench) reportVerdicts() string {
	rs := b.verdicts
	if len(rs) == 0 {
		return ""
	}
	spread := func(digits int, of func(massVerdict) float64) string {
		return figures.Spread(figures.Fixed(digits), figures.Each(rs, of))
	}
	count := func(of func(massVerdict) int) string {
		return spread(0, func(r massVerdict) float64 { return float64(of(r)) })
	}
	millis := func(of func(massVerdict) time.Duration) string {
		return spread(2, func(r massVerdict) float64 { return figures.Millis(of(r)) })
	}
	var w strings.Builder
	fmt.Fprintf(&w, "\n### Mass verdict: %d of %d devices fall silent at once, ttl=%v; %d beat every %v\n\n", b.silent, b.silent+living, verdictTTL, living, beatEvery)
	repeated := 0
	for _, r := range rs {
		repeated += r.repeated
	}
	fmt.Fprintf(&w, "Judged %s of %d; wrong verdicts %s, early ones %s, living devices cut off %s. The last heartbeats lie %s ms apart. Closing the connections, at the "+
		"gateway's pace, took %s s. The machine itself stalled for up to %s ms; %d measurements were made anew because it stalled for more than %v.\n\n",
		count(func(r massVerdict) int { return r.judged }), b.silent,
		count(func(r massVerdict) int { return r.wrong }), count(func(r massVerdict) int { return r.early }), count(func(r massVerdict) int { return r.cut }),
		millis(func(r massVerdict) time.Duration { return r.spread }), spread(1, func(r massVerdict) float64 { return r.closing.Seconds() }),
		millis(func(r massVerdict) time.Duration { return r.stall }), repeated, disturbed)
	times := make(map[string][]quantiles)
	var rows []string
	row := func(name string, of func(massVerdict) quantiles) {
		rows = append(rows, name)
		for _, r := range rs {
			times[name] = append(times[name], of(r))
		}
	}
	row("verdict after its deadline", func(r massVerdict) quantiles { return r.lag })
	row("RTT of the living, before", func(r massVerdict) quantiles { return r.before.quantiles() })
	row("RTT of the living, while verdicts are made", func(r massVerdict) quantiles { return r.verdicts.quantiles() })
	row("RTT of the living, while connections are closed", func(r massVerdict) quantiles { return r.after.quantiles() })
	row("the client behind its plan", func(r massVerdict) quantiles { return r.late.quantiles() })
	w.WriteString(figures.Table("ms", rows, times,
		figures.Time("p50", 2, time.Millisecond, func(q quantiles) time.Duration { return q.p50 }),
		figures.Time("p99", 2, time.Millisecond, func(q quantiles) time.Duration { return q.p99 }),
		figures.Time("max", 2, time.Millisecond, func(q quantiles) time.Duration { return q.max })))
	all := !slices.ContainsFunc(rs, func(r massVerdict) bool { return r.judged != b.silent || r.wrong+r.early+r.cut > 0 })
	lag := figures.Median(figures.Each(rs, func(r massVerdict) float64 { return float64(r.lag.p99) }))
	hurt := figures.Median(figures.Each(rs, massVerdict.hurt))
	fmt.Fprintf(&w, "\nTargets: all judged, none wrong, early or cut off: %s; lag p99 at most %v: %s; RTT p99 at most doubled: %s (×%.2f).\n",
		figures.Met(all), wantLag, figures.Met(lag <= float64(wantLag)), figures.Met(hurt <= wantHurt), hurt)
	return w.String()
}

// hurt returns by what factor the 99th percentile of round trips grew.
func (r massVerdict) hurt() float64 {
	during := newRTTs()
	during.Merge(r.verdicts.Histogram)
	during.Merge(r.after.Histogram)
	return float64(during.quantiles().p99) / float64(r.before.quantiles().p99)
}
