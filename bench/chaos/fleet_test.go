package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

func TestStepsOf(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steps := stepsOf([]plan.Truth{
		{Device: 1, Kind: plan.Close, At: at, Connected: true},
		{Device: 0, Kind: plan.Crash, At: at, Connected: true},
		{Device: 1, Kind: plan.Close, At: at, Connected: true, Back: at.Add(time.Second)}, // the same, told again
		{Device: 1, Kind: plan.Reset, At: at.Add(time.Minute)},                            // nothing was there to be reset
	}, 3)
	want := [][]plan.Kind{{plan.Silent}, {plan.Close, plan.Silent}, nil}
	for n := range steps {
		var kinds []plan.Kind
		for _, s := range steps[n] {
			kinds = append(kinds, s.Kind)
		}
		if !slices.Equal(kinds, want[n]) {
			t.Errorf("device %d did %v, want %v", n, kinds, want[n])
		}
	}
}

// Devices that are played by another process do the same as those that are played here.
func TestElsewhere(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	go func() { // a server that welcomes each device, and answers nothing else
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = fmt.Fprintln(c, "OK 1 ttl=10")
		}
	}()
	p := &plan.Plan{
		Devices: 2, ID: "dev-%d", Targets: []string{l.Addr().String()}, Timeout: 10 * time.Second, Interval: 100 * time.Millisecond,
		Ramp: 100, Phases: []plan.Phase{{Length: time.Hour}}, Sources: ownAddresses(0, 2),
	}
	p.Fill()
	ctx, cancel := context.WithCancel(t.Context())
	e, err := newElsewhere(ctx, filepath.Join(t.TempDir(), "devices"), drive.Config{Plan: p, Journal: true})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error)
	go func() { ran <- e.Run(ctx) }()
	if err := e.begin(time.Now()); err != nil {
		t.Fatal(err)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for limit := time.Now().Add(30 * time.Second); !ok(); <-time.After(pollEvery) {
			if time.Now().After(limit) {
				t.Fatalf("not seen: %s", what)
			}
		}
	}
	until("both are welcomed", func() bool {
		c, err := e.count()
		return err == nil && c == counted{Devices: 2, Welcomed: 2}
	})
	if err := e.give(drive.Order{Device: 1, Step: plan.Step{Kind: plan.Close}}); err != nil {
		t.Error(err)
	}
	until("one is gone", func() bool {
		c, err := e.count()
		return err == nil && c.Welcomed == 1
	})
	done, err := e.played()
	if err != nil || len(done.Journals) != 2 || len(done.Truths) != 1 || done.Truths[0].Kind != plan.Close || len(done.Journals[0].Signs) == 0 {
		t.Errorf("played %+v, %v", done, err)
	}
	if err := e.ask(nil, "dance", nil); err == nil {
		t.Error("a command that there is not is obeyed")
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	_ = l.Close()
	<-accepted
}

func TestPlayFleetRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "devices")
	for _, args := range [][]string{nil, {file}} {
		if _, err := playFleet(t.Context(), args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	for _, text := range []string{"{", "{}"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := playFleet(t.Context(), []string{file}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
