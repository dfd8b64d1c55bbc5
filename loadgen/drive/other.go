//go:build !linux

package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
)

// Drive plays devices, on Linux only.
type Drive struct{}

// ErrRun is returned by Run when it is called again.
var ErrRun = errors.New("drive: Run may be called once")

// New returns an error: devices are played on Linux only.
func New(Config) (*Drive, error) {
	return nil, fmt.Errorf("drive: devices are played on Linux only: %w", errors.ErrUnsupported)
}

// Run returns an error.
func (*Drive) Run(context.Context) error { return errors.ErrUnsupported }

// Begin does nothing.
func (*Drive) Begin(time.Time) {}

// Order returns an error.
func (*Drive) Order(Order) error { return errors.ErrUnsupported }

// Journals returns nothing.
func (*Drive) Journals() []Journal { return nil }

// Truths returns nothing.
func (*Drive) Truths() []plan.Truth { return nil }

// Stats returns nothing.
func (*Drive) Stats() Stats { return Stats{} }
