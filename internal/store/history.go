package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

const (
	// historyDevices is how many devices one query follows. A row for each of them takes memory.
	historyDevices = 250
	// historyReaders is how many queries are under way at a time.
	historyReaders = 2
)

// Histories calls take for the events of some devices that are kept, each device's by Seq from the latest
// back, until take returns false for it. device is an index of ids, each of which is there once. Of an event,
// which take must not keep, only Offset, Type, Reason, Time, Source and Maintenance are set. Devices that are
// unknown have no events; those of a forgotten one are found. take is called by one goroutine at a time. It
// must not use the store, nor block. The cost is one look-up for each event, whatever else the log has.
func (s *Store) Histories(ctx context.Context, ids []string, take func(device int, e *liveness.Event) (more bool)) error {
	names := s.names.all()
	var taking sync.Mutex // held while take is called
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(historyReaders)
	for begin := 0; begin < len(ids); begin += historyDevices {
		g.Go(func() error {
			heads, err := s.headsOf(ctx, ids[begin:min(begin+historyDevices, len(ids))])
			if err != nil {
				return err
			}
			w := walker{store: s, names: names, devices: heads, taking: &taking, take: func(device int, e *liveness.Event) bool {
				return take(begin+device, e)
			}}
			for len(w.devices) > 0 && err == nil {
				err = w.step(ctx)
			}
			return err
		})
	}
	return g.Wait()
}

// headsOf returns which device's latest event is at which offset.
func (s *Store) headsOf(ctx context.Context, ids []string) (devices map[int64]int, err error) {
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	err = s.db.Read(ctx, "read the latest events of devices", func(ctx context.Context, q sqldb.Reader) error {
		devices = make(map[int64]int, len(ids))
		found := make(map[string]bool, len(ids))
		for _, query := range []string{
			"SELECT d.id, s.head FROM devices d JOIN device_states s ON s.num = d.num WHERE d.id IN (?)",
			"SELECT id, head FROM forgotten WHERE id IN (?)",
		} {
			err := sqldb.Each(ctx, q, func(rows *sql.Rows) error {
				var id string
				var head int64
				if err := rows.Scan(&id, &head); err != nil {
					return err
				}
				if i, ok := at[id]; ok && head > 0 && !found[id] {
					devices[head], found[id] = i, true
				}
				return nil
			}, query, ids)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return devices, err
}

// walker follows the events of some devices back.
type walker struct {
	store   *Store
	names   map[int64]string
	devices map[int64]int // by the offset of the event to go on with
	take    func(device int, e *liveness.Event) (more bool)
	taking  *sync.Mutex
	chains  []chain
}

// chain is the offset of an event, and what a query returns of it and of those before it; nil where there is none.
type chain struct {
	head  int64
	links [chainLength]link
}

// link is an event in a chain: the offset of the one before, its instant, and its type, reason, flags and
// source in one number. The fewer columns a query returns, the faster it is.
type link struct{ prev, at, what any }

// chainLength is how many events of a device one row has. A join for each is several times as fast as a
// recursive query, whose every row passes through a queue.
const chainLength = 12

// followChains returns the query for chains. Its argument are the offsets of the heads.
func followChains() string {
	var columns, joins strings.Builder
	for i := range chainLength {
		e := "e" + strconv.Itoa(i)
		fmt.Fprintf(&columns, ", %[1]s.prev, %[1]s.at, %[1]s.type + %[1]s.reason * 256 + %[1]s.flags * 65536 + %[1]s.source * 4294967296", e)
		if i > 0 {
			fmt.Fprintf(&joins, " LEFT JOIN events %s ON %s.pos = e%d.prev", e, e, i-1)
		}
	}
	return "SELECT e0.pos" + columns.String() + " FROM events e0" + joins.String() + " WHERE e0.pos IN (?)"
}

// step reads the next events of each device, and hands them on.
func (w *walker) step(ctx context.Context) error {
	heads := slices.Sorted(maps.Keys(w.devices))
	var c chain
	dest := []any{&c.head}
	for i := range c.links {
		dest = append(dest, &c.links[i].prev, &c.links[i].at, &c.links[i].what)
	}
	err := w.store.db.Read(ctx, "read the events of devices", func(ctx context.Context, q sqldb.Reader) error {
		w.chains = w.chains[:0]
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			err := rows.Scan(dest...)
			w.chains = append(w.chains, c)
			return err
		}, followChains(), heads)
	})
	if err != nil {
		return err
	}
	w.taking.Lock()
	defer w.taking.Unlock()
	next := make(map[int64]int)
	for i := range w.chains {
		c := &w.chains[i]
		device := w.devices[c.head]
		pos, err := w.hand(device, c)
		if err != nil {
			return err
		}
		if pos > 0 {
			next[pos] = device
		}
	}
	w.devices = next
	return nil
}

// hand hands on a chain. It returns the offset of the event to go on with, 0 if there is none.
func (w *walker) hand(device int, c *chain) (pos int64, err error) {
	pos = c.head
	for i := range c.links {
		l := &c.links[i]
		what, ok := l.what.(int64)
		if !ok { // it is no longer kept
			return 0, nil
		}
		at, _ := l.at.(int64)
		t, ok := w.store.decoder.types[what%256]
		if !ok {
			return 0, fmt.Errorf("event %d is of type %d, which is not known", pos, what%256)
		}
		more := w.take(device, &liveness.Event{
			Offset: uint64(pos), Type: t, Reason: w.store.decoder.reasons[what/256%256], Time: sqldb.Time(at),
			Source: w.names[what/4294967296], Maintenance: what/65536%65536&eventMaintenance != 0,
		})
		if pos, _ = l.prev.(int64); !more || pos == 0 {
			return 0, nil
		}
	}
	return pos, nil
}
