package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/net/shm"
	"github.com/holter-iot/holter/liveness"
)

// NoMemory is the [Config].Memory that keeps heartbeats in checkpoints only.
const NoMemory = "off"

// recall returns the memory of the process before, by the key that it committed. It returns nil and an
// error if that process was killed and its memory cannot be used, nil and no error if it ended in order.
func (s *Store) recall(key string) (*keep.Recollection, error) {
	if key == "" {
		return nil, nil
	}
	var k [16]byte
	if n, err := hex.Decode(k[:], []byte(key[:min(len(key), 32)])); err != nil || n != len(k) {
		return nil, fmt.Errorf("the key of the memory is damaged: %q", key)
	}
	if s.config.Memory == NoMemory {
		return nil, errors.New("the memory is turned off")
	}
	left, err := shm.Read(s.config.Memory, s.memoryName(), k)
	if err != nil {
		moved, notMoved := shm.ReadFile(s.movedMemory(), k)
		if notMoved != nil {
			return nil, err
		}
		left = moved
	}
	var blocks []keep.Block
	for _, b := range left.Blocks() {
		blocks = append(blocks, keep.Block(b))
	}
	c, whole := keep.Recall(blocks)
	if !whole {
		return nil, errors.New("there was not enough memory for all that was heard")
	}
	return c, nil
}

// memoryName returns the name of the file of the memory.
func (s *Store) memoryName() string {
	id := s.db.ID()
	return id[:min(len(id), 16)]
}

// movedMemory returns where the memory of the process before is moved if there is no room for it beside that of this one.
func (s *Store) movedMemory() string { return filepath.Join(s.db.Dir(), "memory.moved") }

// remember makes a memory for this process, and gives it to the registry. Without one, the next process
// has only the checkpoints. What the process before has left is needed until the first checkpoint of this one, or not at all. Call it with
// checkpoints held.
func (s *Store) remember(r *liveness.Registry, needed bool) error {
	var key [16]byte
	_, _ = rand.Read(key[:]) // never fails
	s.checkpoint.memory = hex.EncodeToString(key[:])
	if s.config.Memory == NoMemory {
		return nil
	}
	if s.db.Dir() == "" {
		return errors.New("the memory needs a data directory, with which it is deleted")
	}
	if !needed {
		s.discardMemory()
	}
	create := func() (*shm.Memory, error) { return shm.Create(s.config.Memory, s.memoryName(), s.db.Dir(), key) }
	m, err := create()
	if needed && errors.Is(err, syscall.ENOSPC) {
		if err := shm.MoveOut(s.config.Memory, s.memoryName(), s.movedMemory()); err != nil {
			return err
		}
		m, err = create()
	}
	if err != nil {
		return err
	}
	s.memory = m
	r.Keeper().UseMemory(m)
	return nil
}

// discardMemory removes what processes before have left.
func (s *Store) discardMemory() {
	if s.config.Memory == NoMemory || s.db.Dir() == "" { // nothing was made
		return
	}
	shm.Discard(s.config.Memory, s.memoryName())
	_ = os.Remove(s.movedMemory()) // mostly there is none
}

// Finish writes the last checkpoint and what was learned, and notes that the process ended in order. Call it when no
// heartbeat arrives any more.
func (s *Store) Finish(ctx context.Context, r *liveness.Registry) error {
	s.checkpoints.Lock()
	key := s.checkpoint.memory
	s.checkpoint.memory = ""
	s.checkpoints.Unlock()
	err := s.Checkpoint(ctx, r)
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	if err != nil {
		s.checkpoint.memory = key
		return err
	}
	if err := s.saveHabits(ctx, r); err != nil {
		return err // the process has ended in order all the same: what was learned since an hour ago is lost
	}
	if s.memory != nil {
		_ = s.memory.Remove() // nobody needs it
		s.memory = nil
	}
	return nil
}

// closeMemory leaves the memory to the next process.
func (s *Store) closeMemory() error {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	if s.memory == nil {
		return nil
	}
	m := s.memory
	s.memory = nil
	return m.Close()
}
