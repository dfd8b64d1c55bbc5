package store

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"time"
)

// A file beside the database says from when until when a process was at work. It is overwritten in place, so it tells the truth on a full
// disk and while a server is away, when no checkpoint can be written: then the next process knows that heartbeats were lost for longer than
// between two checkpoints, and forgives the silence that it knows of.
const aliveLen = 16 // began, lived: Unix times in ns, little endian

// alivePath returns where the note is; several databases may share a directory.
func (s *Store) alivePath(storeID string) string {
	return filepath.Join(s.config.Dir, "alive-"+storeID[:min(len(storeID), 8)])
}

// aliveEvery is the time between two writes.
func (s *Store) aliveEvery() time.Duration { return min(s.config.Checkpoint, time.Second) }

// keepAlive writes that this process lives until ctx is done. Where there is no directory, or it cannot be written, nobody knows.
func (s *Store) keepAlive(ctx context.Context) {
	if s.config.Dir == "" {
		return
	}
	_, storeID, _ := s.identity()
	f, err := os.OpenFile(s.alivePath(storeID), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		s.record.outcome(s.wrap("note that it is alive", err))
		return
	}
	defer func() { _ = f.Close() }()
	renew := func() { // it may be gone, with all of the directory
		was, err := f.Stat()
		if now, gone := os.Stat(f.Name()); err != nil || gone == nil && os.SameFile(was, now) {
			return
		}
		if fresh, err := os.OpenFile(f.Name(), os.O_RDWR|os.O_CREATE, 0o600); err == nil {
			_ = f.Close() // nobody reads it any more
			f = fresh
		}
	}
	began := time.Now()
	write := func(now time.Time) {
		b := binary.LittleEndian.AppendUint64(nil, uint64(began.UnixNano()))
		_, _ = f.WriteAt(binary.LittleEndian.AppendUint64(b, uint64(now.UnixNano())), 0) // the next may succeed
	}
	write(began)
	_ = f.Sync() // gives it its place on the disk
	tick := time.NewTicker(s.aliveEvery())
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			renew()
			write(now)
		case <-ctx.Done():
			return
		}
	}
}

// unsaved returns for how long the process before lived after a checkpoint, 0 if that is not known or no more than there may be between
// two of them.
func (s *Store) unsaved(storeID string, checkpoint time.Time) time.Duration {
	if s.config.Dir == "" || checkpoint.IsZero() {
		return 0
	}
	b, err := os.ReadFile(s.alivePath(storeID))
	if err != nil || len(b) != aliveLen {
		return 0
	}
	began, lived := timeOf(int64(binary.LittleEndian.Uint64(b))), timeOf(int64(binary.LittleEndian.Uint64(b[8:])))
	if began.After(checkpoint) {
		checkpoint = began
	}
	if d := lived.Sub(checkpoint); d > 2*s.config.Checkpoint+time.Second {
		return d
	}
	return 0
}
