//go:build linux

package chaos

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report builds the report of a run.
func (r *trial) report(e *Evidence, length time.Duration) *Report {
	f := Score(e)
	out := &Report{
		Database: redacted(r.config.Database), Seed: r.config.Seed, Devices: r.config.Devices, Length: length, Rules: r.config.Rules,
		Plan: r.done, Starts: r.server.starts,
		Events: len(e.Events), Seen: len(e.Seen), Followed: len(e.Followed), Resumed: r.follower.resume,
		Verdicts: f.Verdicts, Due: f.Due, Raced: f.Raced,
		LagP50: f.Lags.Percentile(50), LagP99: f.Lags.Percentile(99), LagMax: f.Lags.Percentile(100),
		Violations: slices.Concat(f.Violations, r.server.wrong, r.crashes()), Notes: r.notes, ServerLog: r.logTail(8000), Evidence: e,
		Breaks: e.History.Breaks[1:], Troubles: e.History.Troubles,
		Bound: f.Bound, Writes: len(e.Writes), Shown: len(e.Shown),
	}
	for i, f := range r.fleets {
		out.Heartbeats += f.Stats().Sent
		out.Orders += r.faults[i].done
	}
	for i := range e.Devices {
		for _, s := range e.Devices[i].Signs {
			if s.Granted != 0 {
				out.Greetings++
			}
		}
	}
	for _, b := range e.History.Breaks[1:] {
		deaf := min(b.Over, e.Until) - b.Asked
		out.Deaf += deaf
		out.Longest = max(out.Longest, deaf)
	}
	for _, c := range f.Claims {
		out.Claimed += c.Over - c.Asked
	}
	return out
}

// crashes returns a violation for each crash and data race in the server's log.
func (r *trial) crashes() []Violation {
	text, err := os.ReadFile(filepath.Join(r.config.Dir, serverLog))
	if err != nil {
		return []Violation{{Kind: WrongEnd, Detail: err.Error()}}
	}
	var list []Violation
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		for _, mark := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
			if strings.HasPrefix(line, mark) {
				list = append(list, Violation{Kind: WrongEnd, Detail: fmt.Sprintf("line %d of the server's log: %.300s", n, strings.TrimSpace(line))})
			}
		}
	}
	return list
}

// redacted is the name of a database without a password.
func redacted(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		return "a database"
	}
	return u.Redacted()
}
