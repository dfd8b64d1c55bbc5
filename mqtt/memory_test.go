package mqtt_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/holter-iot/holter/mqtt"
)

// memory is a store in memory, which outlives the brokers that use it.
type memory struct {
	mu      sync.Mutex // guards the fields below
	records map[string]mqtt.Change
	err     error // that Load and Commit return
	lies    bool  // Commit keeps the changes all the same
}

func newMemory() *memory { return &memory{records: make(map[string]mqtt.Change)} }

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// Load loads the records in no order.
func (m *memory) Load(_ context.Context, each func(mqtt.Change) error) error {
	m.mu.Lock()
	records, err := maps.Clone(m.records), m.err
	m.mu.Unlock()
	for _, c := range records {
		err = errors.Join(err, each(c))
	}
	return err
}

// Commit keeps the changes.
func (m *memory) Commit(_ context.Context, changes []mqtt.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil && !m.lies {
		return m.err
	}
	for _, c := range changes {
		if key := fmt.Sprintf("%d %x", c.Kind, c.Key); c.Value == nil {
			delete(m.records, key)
		} else {
			m.records[key] = c
		}
	}
	return m.err
}

// kinds returns how many records there are, by kind.
func (m *memory) kinds() map[mqtt.Kind]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := make(map[mqtt.Kind]int)
	for _, c := range m.records {
		n[c.Kind]++
	}
	return n
}

// sorted returns the records, by kind.
func (m *memory) sorted() []mqtt.Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.records), func(a, b mqtt.Change) int { return cmp.Compare(a.Kind, b.Kind) })
}

// without returns a copy that lacks a record.
func (m *memory) without(c mqtt.Change) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	copied := &memory{records: maps.Clone(m.records)}
	delete(copied.records, fmt.Sprintf("%d %x", c.Kind, c.Key))
	return copied
}
