package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/internal/testmqtt"
)

// TestMain is the command, too: what is measured runs in a process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == measured.Subcommand {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	cfg, err := parse([]string{"-quick", "-only", "relay/bridge"}, os.Stderr)
	if err != nil || cfg.Clients != 100 || cfg.rounds != 1 || !cfg.only.MatchString("relay/bridge") {
		t.Errorf("parse = %+v, %v", cfg, err)
	}
	for _, args := range [][]string{{"x"}, {"-clients", "1"}, {"-clients", "20001"}, {"-only", "("}, {"-seconds", "0"}} {
		if _, err := parse(args, new(bytes.Buffer)); err == nil {
			t.Errorf("parse(%q) gives no error", args)
		}
	}
}

func TestPrepare(t *testing.T) {
	const devices = 250
	stream := prepare(devices)
	if got, want := len(stream), 3; got != want {
		t.Fatalf("%d batches, want %d", got, want)
	}
	topics := make(map[string]bool)
	for in := bytes.NewReader(slices.Concat(stream...)); in.Len() > 0; {
		p, err := packets.ReadPacket(in)
		if err != nil {
			t.Fatal(err)
		}
		topics[p.(*packets.PublishPacket).TopicName] = true
	}
	if len(topics) != devices || !topics["fleet/device-000249/beat"] {
		t.Errorf("messages of %d devices, want %d", len(topics), devices)
	}
}

func TestWeigh(t *testing.T) {
	l := weigh([]time.Duration{time.Second, -1, 10, 175 * time.Millisecond, 176 * time.Millisecond}, 5*time.Second)
	want := Lags{N: 5, Early: 1, Over: 2, Min: -1, P50: 175 * time.Millisecond, P99: time.Second, Max: time.Second}
	if l != want {
		t.Errorf("weigh = %+v, want %+v", l, want)
	}
}

func TestJudge(t *testing.T) {
	at := time.Unix(1000, 0)
	f := &fleet{cut: 3, clients: []client{
		{sent: at, closed: at.Add(8 * time.Second)}, // judged 0.2 s late
		{sent: at, closed: at.Add(16 * time.Second)},
		{sent: at}, // never judged
		{sent: at, closed: at.Add(15 * time.Second)}, // before the verdict
	}}
	f.classes[0].keepAlive, f.classes[1].keepAlive = 5*time.Second, 10*time.Second
	var r Silence
	r.judge(f, []verdict{
		{clientID(0), "silence", at.Add(7700 * time.Millisecond)},
		{clientID(1), "silence", at.Add(15 * time.Second)},
		{clientID(1), "silence", at.Add(16 * time.Second)},
		{clientID(2), "closed", at},
		{clientID(3), "silence", at.Add(15100 * time.Millisecond)},
	})
	if r.Cut != 3 || r.Open != 1 || r.Ahead != 1 || r.Wrong != 2 {
		t.Errorf("judge = %+v, want 3 cut, 1 open, 1 ahead, 2 wrong", r)
	}
	if v := r.Verdict; v[0].N != 1 || v[0].Over != 1 || v[1].N != 2 || v[1].Over != 0 || r.Closed[0].Max != 500*time.Millisecond {
		t.Errorf("judge = %+v, want one late verdict of one, two good ones, 0.5 s to the end of the connection", r)
	}
}

func TestUndisturbed(t *testing.T) {
	good, bad := Silence{Stall: time.Millisecond}, Silence{Stall: time.Second}
	kept, out := undisturbed(table[Silence]{"a": {bad, good, bad}, "b": {bad}})
	if len(kept["a"]) != 1 || kept["a"][0] != good || len(kept["b"]) != 1 || out != 2 {
		t.Errorf("undisturbed = %v, %d", kept, out)
	}
}

// TestQuick runs everything but one variant, which differs in nothing that could break, and looks at what does not depend on the machine.
func TestQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	testmqtt.Have(t)
	figures, document := filepath.Join(t.TempDir(), "figures.json"), filepath.Join(t.TempDir(), "benchmarks.md")
	var out, log bytes.Buffer
	args := []string{"-quick", "-only", "^(replay|relay|at-once)/", "-results", figures, "-md", document}
	if err := run(t.Context(), args, nil, &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	text, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for _, subscriber := range subscribers {
		for _, taken := range [][]Taken{r.Replay[subscriber], r.Relay[subscriber]} {
			if len(taken) != 1 || taken[0].Messages == 0 || taken[0].Lost != 0 {
				t.Errorf("%s took %+v, want messages, and none lost", subscriber, taken)
			}
		}
	}
	for _, server := range servers {
		s := r.AtOnce[server]
		if len(s) != 1 || s[0].Closed[0].N+s[0].Closed[1].N != 100 || s[0].Cut+s[0].Open != 0 {
			t.Errorf("%s: %+v, want 100 connections closed", server, s)
		} else if server == serverHolter && (s[0].Verdict[0].N+s[0].Verdict[1].N != 100 || s[0].Wrong+s[0].Ahead+s[0].Verdict[0].Early != 0) {
			t.Errorf("%s: %+v, want 100 verdicts for silence, none early, no connection closed before", server, s)
		}
	}
	if doc, err := os.ReadFile(document); err != nil || !strings.Contains(string(doc), "<!-- mqtt:begin -->\n"+out.String()) {
		t.Errorf("the document is %s, %v, want it to hold what was printed", doc, err)
	}
	// Figures that are there need no new ones.
	var again bytes.Buffer
	if err := run(t.Context(), []string{"-quick", "-only", "^$", "-results", figures}, nil, &again, &log); err != nil {
		t.Fatal(err)
	}
	if _, tables, _ := strings.Cut(out.String(), "\n\n"); !strings.HasSuffix(again.String(), tables) {
		t.Errorf("the report of what was kept is\n%s\nwant\n%s", &again, tables)
	}
}
