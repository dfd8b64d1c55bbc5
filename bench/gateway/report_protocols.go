package main

import (
	"fmt"
	"strings"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// The targets.
const (
	wantEcho   = 0.85   // of the echo's messages
	wantSecure = 20_480 // bytes for a connection of TLS
)

// reportProtocols writes a table for one message per write and one for more.
func (b *bench) reportProtocols(w *strings.Builder) {
	fmt.Fprintf(w, "Each server has core 0 to itself with GOMAXPROCS=1, the client has core 1; %d rounds in turn. Figures are medians, least and most in parentheses.\n", b.config.rounds)
	for _, batch := range []int{1, pipelined} {
		t := b.spoken[batch]
		if len(t) == 0 {
			continue
		}
		what := "one message per read"
		if batch > 1 {
			what = fmt.Sprintf("%d messages per write", batch)
		}
		fmt.Fprintf(w, "\n### Protocols: %d connections, %s\n\n", b.config.connections, what)
		fmt.Fprintf(w, "Beside each the echo: an event loop of gnet that sends back what it reads, of the same heartbeats, understanding nothing. "+
			"DTUs are not answered, so theirs only reads. line-tls has %d connections of TLS 1.3 and nothing beside it.\n\n", min(secureConnections, b.config.connections))
		w.WriteString("| protocol | bytes | messages/s | echo, messages/s | ÷ echo | µs of CPU per message | per CPU second ÷ echo | server busy | client waiting | others | lost | target |\n" +
			"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
		for _, name := range dialects {
			if len(t[name]) > 0 {
				protocolRow(w, name, batch, t[name], t[name+"/bare"])
			}
		}
		fmt.Fprintf(w, "\nTarget: at least %.2f of the echo's messages, or per CPU second where the client is the limit; none for UDP and TLS.\n", wantEcho)
	}
}

func protocolRow(w *strings.Builder, name string, batch int, rs, bare []beatsResult) {
	d, err := newDialect(name)
	if err != nil {
		return
	}
	rate, perCPU := beatsResult.rate, beatsResult.perCPU
	percent := func(f func(beatsResult) float64) string {
		return fmt.Sprintf("%.0f %%", 100*figures.Median(figures.Each(rs, f)))
	}
	echo, ratio, ratioCPU, target := "–", "–", "–", "–"
	if len(bare) > 0 {
		echo = figures.Spread("%.0f", figures.Each(bare, rate))
		ratios := figures.Ratios(figures.Each(rs, rate), figures.Each(bare, rate))
		ratiosCPU := figures.Ratios(figures.Each(rs, perCPU), figures.Each(bare, perCPU))
		ratio, ratioCPU = figures.Spread("%.2f", ratios), figures.Spread("%.2f", ratiosCPU)
		if d.carrier == "" {
			target = fmt.Sprintf("%s; per CPU second %s", figures.Met(figures.Median(ratios) >= wantEcho), figures.Met(figures.Median(ratiosCPU) >= wantEcho))
		}
	}
	waiting := "–"
	if d.carrier != overTLS {
		waiting = percent(func(r beatsResult) float64 { return r.waiting })
	}
	fmt.Fprintf(w, "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, len(d.beats(0, batch)),
		figures.Spread("%.0f", figures.Each(rs, rate)), echo, ratio,
		figures.Spread("%.2f", figures.Each(rs, func(r beatsResult) float64 { return 1e6 / r.perCPU() })), ratioCPU,
		percent(func(r beatsResult) float64 { return r.Share }), waiting, percent(func(r beatsResult) float64 { return r.Others }),
		figures.Spread("%d", figures.Each(rs, func(r beatsResult) int { return r.lost })), target)
}

// reportCarriers writes what connections of TLS and sessions over UDP cost.
func (b *bench) reportCarriers(w *strings.Builder) {
	w.WriteString("Idle sessions of the line protocol, weighed like those above.\n\n| carrier | sessions | heap, B each | stacks, B each | resident, B each | sessions/s | target |\n" +
		"|---|--:|--:|--:|--:|--:|---|\n")
	for _, name := range carriers {
		rs := b.idle[name]
		if len(rs) == 0 {
			continue
		}
		target := "–"
		if strings.HasSuffix(name, overTLS) {
			user := figures.Median(figures.Each(rs, idleResult.user))
			resident := figures.Median(figures.Each(rs, func(r idleResult) float64 { return r.resident }))
			target = fmt.Sprintf("at most %d B, heap and stacks: %s; resident: %s", wantSecure, figures.Met(user <= wantSecure), figures.Met(resident <= wantSecure))
		}
		fmt.Fprintf(w, "| %s | %d | %s | %s | %s | %s | %s |\n", name, rs[0].connections,
			figures.Spread("%.0f", figures.Each(rs, func(r idleResult) float64 { return r.heap })),
			figures.Spread("%.0f", figures.Each(rs, func(r idleResult) float64 { return r.stacks })),
			figures.Spread("%.0f", figures.Each(rs, func(r idleResult) float64 { return r.resident })),
			figures.Spread("%.0f", figures.Each(rs, idleResult.rate)), target)
	}
}
