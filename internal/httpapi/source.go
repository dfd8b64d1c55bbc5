package httpapi

import (
	"context"
	"fmt"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Events is the log of events. All methods are called concurrently.
type Events interface {
	// Bounds returns the offsets of the oldest event that is kept and of the latest, latest+1 and latest if there are none.
	Bounds() (oldest, latest uint64)
	// Read appends at most limit events after an offset to buffer; after 0 it begins with the oldest that is kept. Its error wraps
	// [eventlog.ErrMissed] if events right after the offset are gone, or the offset was not given yet.
	Read(ctx context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error)
	// Wait is like Read, but waits until there is an event or ctx is done.
	Wait(ctx context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error)
	// DeviceEvents returns at most limit of the kept events of a device whose Seq is greater than
	// after, in order. Events from before the device was deleted are among them.
	DeviceEvents(ctx context.Context, id string, after uint64, limit int) ([]liveness.Event, error)
}

// LogEvents adapts a log in memory to [Events]. The log must not be nil.
type LogEvents struct{ *eventlog.Log }

// Read implements [Events].
func (l LogEvents) Read(_ context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error) {
	return l.Log.Read(buffer, after, limit)
}

// DeviceEvents implements [Events]. It reads the whole log.
func (l LogEvents) DeviceEvents(ctx context.Context, id string, after uint64, limit int) ([]liveness.Event, error) {
	var found []liveness.Event
	err := l.each(ctx, func(e *liveness.Event) {
		if e.Subject == id && e.Seq > after && len(found) < limit {
			found = append(found, *e)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("events of device %q: %w", id, err)
	}
	return found, nil
}

// Histories implements [History]. It reads the whole log.
func (l LogEvents) Histories(ctx context.Context, ids []string, take func(device int, e *liveness.Event) (more bool)) error {
	devices := make(map[string]int, len(ids))
	for i, id := range ids {
		devices[id] = i
	}
	found := make([][]liveness.Event, len(ids))
	err := l.each(ctx, func(e *liveness.Event) {
		if i, ok := devices[e.Subject]; ok {
			found[i] = append(found[i], *e)
		}
	})
	if err != nil {
		return fmt.Errorf("events of devices: %w", err)
	}
	for i, events := range found {
		for j := len(events) - 1; j >= 0 && take(i, &events[j]); j-- {
			continue
		}
	}
	return nil
}

// each calls take for each event of a device that is kept, by offset.
func (l LogEvents) each(ctx context.Context, take func(e *liveness.Event)) error {
	var buffer []liveness.Event
	oldest, latest := l.Bounds()
	for at := oldest - 1; at < latest; at = buffer[len(buffer)-1].Offset {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if buffer, err = l.Log.Read(buffer[:0], at, maxPage); err != nil { // the log moved on meanwhile
			at, latest = l.skip()
			if buffer, err = l.Log.Read(buffer[:0], at, maxPage); err != nil {
				return err
			}
		}
		if len(buffer) == 0 {
			break
		}
		for i := range buffer {
			if buffer[i].Type.OfDevice() {
				take(&buffer[i])
			}
		}
	}
	return nil
}

// Breaks implements [History]: none is recorded.
func (LogEvents) Breaks(context.Context, time.Time, time.Time) ([]judgement.Break, error) {
	return nil, nil
}

// skip returns the offset before the oldest event, and that of the latest.
func (l LogEvents) skip() (at, latest uint64) {
	oldest, latest := l.Bounds()
	return oldest - 1, latest
}
