package liveness_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// Sources are added before Run and while it runs, and a device of each that falls silent is judged.
func TestLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog(t, 0)
		registry := newRegistry(t, log, liveness.Config{Policy: liveness.Policy{Timeout: 10 * time.Second}})
		before, err := registry.AddLocal("before")
		if err != nil {
			t.Fatal(err)
		}
		if err := before.Beat("early"); err != nil { // nothing listens yet
			t.Fatal(err)
		}
		stop := start(t, registry)
		defer stop()
		during, err := registry.AddLocal("during")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := registry.AddLocal("during"); err == nil {
			t.Error("AddLocal took a name twice")
		}
		for range 12 {
			time.Sleep(5 * time.Second)
			if err := during.Beat("busy"); err != nil {
				t.Fatal(err)
			}
		}
		for id, want := range map[string]liveness.State{"early": liveness.Offline, "busy": liveness.Online} {
			if v, err := registry.Device(id); err != nil || v.State != want {
				t.Errorf("%s is %v (%v), want %v", id, v.State, err, want)
			}
		}
		time.Sleep(11 * time.Second)
		if v, _ := registry.Device("busy"); v.State != liveness.Offline {
			t.Errorf("busy is %v after 11 s of silence, want offline", v.State)
		}
		if err := during.Beat(""); err == nil {
			t.Error("Beat took a device without an id")
		}
	})
}

// The clock has stopped when Run returns.
func TestLocalEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := newRegistry(t, newLog(t, 0), liveness.Config{})
		source, err := registry.AddLocal("worker")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := registry.Run(ctx); err != nil {
			t.Fatal(err)
		}
		ended := source.Now()
		if ended < 59*time.Second {
			t.Errorf("the clock reads %v after a minute", ended)
		}
		time.Sleep(time.Minute)
		if now := source.Now(); now != ended {
			t.Errorf("the clock went on from %v to %v after Run", ended, now)
		}
	})
}
