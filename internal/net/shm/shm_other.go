//go:build !linux

package shm

import (
	"errors"
	"fmt"
)

// Memory is the memory of a life.
type Memory struct{}

// Create is not supported on this system.
func Create(string, string, string, [16]byte) (*Memory, error) {
	return nil, fmt.Errorf("shm: %w", errors.ErrUnsupported)
}

// Read is not supported on this system.
func Read(string, string, [16]byte) (*Remains, error) {
	return nil, fmt.Errorf("shm: %w", errors.ErrUnsupported)
}

// ReadFile is not supported on this system.
func ReadFile(string, [16]byte) (*Remains, error) {
	return nil, fmt.Errorf("shm: %w", errors.ErrUnsupported)
}

// MoveOut is not supported on this system.
func MoveOut(string, string, string) error { return fmt.Errorf("shm: %w", errors.ErrUnsupported) }

// Discard does nothing.
func Discard(string, string) {}

// Block returns nil.
func (*Memory) Block(uint32, uint32, int) []byte { return nil }

// Publish returns an error.
func (*Memory) Publish() error { return errors.ErrUnsupported }

// Close does nothing.
func (*Memory) Close() error { return nil }

// Remove does nothing.
func (*Memory) Remove() error { return nil }

// Stats returns zeros.
func (*Memory) Stats() (bytes, refused int) { return 0, 0 }
