package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/terminal"
)

const (
	// firstRetry and lastRetry are the pauses between attempts to open the database.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Second
	// lastWords is the time limit of the checkpoint at the end.
	lastWords = 10 * time.Second
)

// wait records what the start waits for.
func (s *server) wait(what string) { s.starting.Store(&what) }

// waiting returns what the start waits for; nil once it is done.
func (s *server) waiting() error {
	if what := s.starting.Load(); what != nil {
		return errors.New(*what)
	}
	return nil
}

// ready returns why the server is not ready; nil if it is.
func (s *server) ready() error {
	if err := s.waiting(); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	err := s.store.Health()
	switch {
	case s.draining.Load():
		return errors.New("draining: this server ends")
	case err == nil:
		return nil
	}
	if d := s.registry.Gauges().StalledFor; d > 0 {
		return fmt.Errorf("no verdicts for %v, all clocks stand still: %w", d.Round(time.Second), err)
	}
	return err
}

// restore opens the store and loads the stored state into the registry. It waits for a database that
// cannot be reached, and fails when ctx ends.
func (s *server) restore(ctx context.Context) error {
	began := time.Now()
	if err := s.openStore(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(s.config.Data, 0o700); err != nil {
		s.log.Warn("the data directory cannot be made; with a database elsewhere, that matters after a crash without it", "error", err)
	}
	if err := s.books.Open(ctx); err != nil {
		return fmt.Errorf("read the playbooks: %w", err)
	}
	if err := s.delivery.Load(ctx); err != nil { // events may be appended again, and become jobs
		return err
	}
	s.wait("devices are being restored")
	loaded, err := s.store.Load(ctx, s.registry)
	if err != nil {
		return fmt.Errorf("restore what was kept: %w", err)
	}
	s.known, s.listened = loaded.Devices, loaded.Checkpoint
	s.logLost(loaded.Lost)
	if loaded.Forgotten != nil {
		s.log.Warn("the process before did not end in order, and what it heard last is not known: devices count as heard at its last checkpoint",
			"checkpoint", loaded.Checkpoint, "reason", loaded.Forgotten)
	}
	if loaded.NoMemory != nil {
		s.log.Warn("the memory of this process does not outlive it: if it is killed, heartbeats since the last checkpoint are not known", "error", loaded.NoMemory)
	}
	if loaded.Astray != nil {
		s.log.Warn("what this server read while it stood by could not be used; all was read again", "error", loaded.Astray)
	}
	for _, bad := range loaded.Corrupt {
		s.log.Error("part of a checkpoint is damaged", "error", bad)
	}
	s.logAside(loaded.SetAside)
	if log := s.database.LogAside(); log != "" {
		s.log.Warn("the log of a database file that was replaced or overwritten lies aside, and what it holds is not in the database", "file", log, "help", LogAsideHelp)
	}
	what := []any{"devices", loaded.Devices, "followed", loaded.Followed, "took", time.Since(began)}
	if !loaded.Checkpoint.IsZero() {
		what = append(what, "checkpoint", loaded.Checkpoint)
	}
	s.log.Info("restored", what...)
	return nil
}

// logLost logs what the database has lost.
func (s *server) logLost(lost store.Lost) {
	what := []any{"from", lost.From, "to", lost.To, "events", lost.Events()}
	switch {
	case lost.Events() == 0:
	case lost.Why == nil:
		s.log.Warn("events that the database had committed and lost were appended again from memory; their notifications may be sent twice", what...)
	default:
		s.log.Error("the database has lost events that it had committed, and they cannot be appended again", append(what, "reason", lost.Why)...)
	}
}

// mostAside is the number of rows set aside that are logged one by one.
const mostAside = 10

func (s *server) logAside(rows []error) {
	for _, bad := range rows[:min(len(rows), mostAside)] {
		s.log.Error("the row of a device cannot be read; it was moved to the table set_aside, and the device counts as never seen until it is heard",
			"error", bad)
	}
	if len(rows) > mostAside {
		s.log.Error("more rows of devices cannot be read; all are in the table set_aside", "rows", len(rows))
	}
}

// detail returns what an operator should look at although the server is ready; "" if there is nothing.
func (s *server) detail() string {
	if n := s.store.Stats().SetAside; n > 0 {
		return AsideText(n) + ", in " + s.store.Place() + "; " + AsideHelp
	}
	return ""
}

// AsideText tells how many rows of devices are set aside.
func AsideText(n int) string {
	if n == 1 {
		return "1 row of a device could not be read and is set aside in the table set_aside"
	}
	return fmt.Sprintf("%s rows of devices could not be read and are set aside in the table set_aside", terminal.Grouped(n))
}

// LogAsideHelp tells what to do about a log that lies aside, see [sqldb.DB.LogAside].
const LogAsideHelp = "docs/run/troubleshoot.md says how to put it back; remove it if nothing is missing"

// AsideHelp tells what to do about rows of devices that are set aside.
const AsideHelp = "those devices are watched again once they are heard; look at its column why, and then remove the rows from that table"

// watchStore logs when the database starts to fail, when its error changes and when it works again,
// until ctx is done. Errors: store.ErrChanged.
func (s *server) watchStore(ctx context.Context) error {
	said := ""
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		err := s.store.Health()
		if errors.Is(err, store.ErrChanged) {
			return err
		}
		now := ""
		if errors.Is(err, sqldb.ErrFile) {
			now = err.Error()
		} else if err != nil {
			now = "database" // its text changes with the time that it has lasted
		}
		switch {
		case now == said:
		case err == nil:
			s.log.Info("the database works again")
		default:
			s.log.Error("the database does not work as it should: verdicts wait, and /readyz says so", "error", err)
		}
		said = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// openStore opens the store. It retries while that may help.
func (s *server) openStore(ctx context.Context) error {
	said := ""
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		err := s.store.Open(ctx)
		if err == nil || errors.Is(err, sqldb.ErrLocked) || errors.Is(err, sqldb.ErrNewerSchema) || errors.Is(err, sqldb.ErrLost) || errors.Is(err, sqldb.ErrMoved) {
			return err
		}
		if why := sqldb.Explain(err); why != said {
			s.wait("the database cannot be opened: " + why)
			s.log.Error("the database cannot be opened; it is tried again and again, and devices are let in once it can", "error", err, "why", why)
			said = why
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lastCheckpoint stores the latest heartbeats, so that silence is counted exactly across an orderly
// restart.
func (s *server) lastCheckpoint(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := s.store.Finish(ctx, s.registry); err != nil && !errors.Is(err, sqldb.ErrFenced) {
		s.log.Error("no last checkpoint; the next start goes on from the one before", "error", err)
	}
}
