package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain is the command, too: what is measured runs in a process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == subcommand {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	cfg, err := parse([]string{"-devices", "2000", "-only", "claim"}, os.Stderr)
	if err != nil || cfg.devices != 2000 || cfg.rounds != 3 || !cfg.only.MatchString(claimSQLite) || cfg.only.MatchString(recovery) {
		t.Errorf("parse = %+v, %v", cfg, err)
	}
	for _, args := range [][]string{{"x"}, {"-devices", "1"}, {"-claims", "1"}, {"-only", "("}, {"-rounds", "0"}} {
		if _, err := parse(args, new(bytes.Buffer)); err == nil {
			t.Errorf("parse(%q) gives no error", args)
		}
	}
}

// TestMeasure makes every measurement that takes no server and no long time, on a small scale.
func TestMeasure(t *testing.T) {
	names := []string{webhooksBare, webhooksSingle, webhooksBatch, claimSQLite, silentDelivered, recovery}
	b := &bench{log: t.Output(), config: config{
		devices: 1000, webhooks: 1000, claims: 1000, rounds: 1, only: regexp.MustCompile("^(" + strings.Join(names, "|") + ")$"),
	}}
	if err := b.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{webhooksBare, webhooksSingle, webhooksBatch, recovery} {
		if rs := b.rates[name]; len(rs) != 1 || rs[0].Events != 1000 || rs[0].Elapsed <= 0 || rs[0].CPU <= 0 || rs[0].Endpoint <= 0 {
			t.Errorf("%s: %+v", name, rs)
		}
	}
	if r := b.silent[silentDelivered][0]; r.Verdicts != 1000 || r.Committed <= 0 || r.Delivered < r.Committed || r.Peak < r.Before {
		t.Errorf("%s: %+v", silentDelivered, r)
	}
	if r := b.claims[claimSQLite][0]; r.Jobs != 1000 || r.Store <= 0 || r.Bare <= 0 {
		t.Errorf("%s: %+v", claimSQLite, r)
	}
	report := b.report()
	for _, row := range []string{"| delivered |", "| bare client | 1 |", "| in batches | ", "| SQLite | "} {
		if !strings.Contains(report, "\n"+row) {
			t.Errorf("the report has no row %q:\n%s", row, report)
		}
	}
}

func TestLatency(t *testing.T) {
	var got Latency
	if err := measureApart(t.Context(), order{Name: latency, N: 5}, &got); err != nil {
		t.Fatal(err)
	}
	if got.Events != 5 || got.Max < got.P99 || got.P99 < got.P50 {
		t.Errorf("%+v", got)
	}
}

func TestWeigh(t *testing.T) {
	at := time.Unix(1000, 0)
	committed, arrivals := make(map[string]time.Time), make(map[string]time.Time)
	for i := range 100 {
		id := strconv.Itoa(i)
		committed[id], arrivals[id] = at, at.Add(time.Duration(i)*time.Millisecond)
	}
	var l Latency
	if err := l.weigh(committed, arrivals); err != nil || l.P50 != 50*time.Millisecond || l.P99 != 99*time.Millisecond || l.Max != l.P99 {
		t.Errorf("%+v, %v", l, err)
	}
	delete(arrivals, "7")
	if err := l.weigh(committed, arrivals); err == nil {
		t.Error("one that did not come is not missed")
	}
}
