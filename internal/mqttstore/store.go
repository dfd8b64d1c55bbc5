package mqttstore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/mqtt"
)

const (
	// pageRows is how many rows are read with one query: few enough that it ends in time.
	pageRows = 1000
	// partBytes is about how many bytes are written with one statement, so that no server takes it
	// for too large.
	partBytes = 2 << 20
	// rowBytes is what a row takes in a statement beside its key and value, at most.
	rowBytes = 64
)

// Store is an [mqtt.Store] in a database. Make one with [New].
type Store struct {
	db      *sqldb.DB
	largest int // value
}

// New returns a store in a database for a broker whose largest packet has so many bytes. It touches
// nothing: the database is to be open before Load and Commit are called.
func New(db *sqldb.DB, maxPacket int) *Store { return &Store{db: db, largest: maxPacket + 64} }

// Load calls each for all records, by kind and key, on the goroutine of the caller. It reads some
// at a time, and keeps none; a connection to the database is held while each is called. Errors:
// that of each as it is, those of [sqldb.DB.Read], and one if the database cannot keep messages
// that are as large as packets may be.
func (s *Store) Load(ctx context.Context, each func(mqtt.Change) error) error {
	room, err := s.db.LargestValue(ctx)
	if err != nil {
		return err
	}
	if int64(s.largest) > room {
		return fmt.Errorf("mqttstore: a record may have %d bytes, but %s takes %d: raise its max_allowed_packet to more than twice the record, or lower the largest MQTT packet",
			s.largest, s.db.Place(), room)
	}
	kinds, err := s.kinds(ctx)
	for _, kind := range kinds {
		if err == nil {
			err = s.loadKind(ctx, kind, each)
		}
	}
	return err
}

// kinds returns the kinds of which there are records.
func (s *Store) kinds(ctx context.Context) (kinds []mqtt.Kind, err error) {
	err = s.db.Read(ctx, "load MQTT sessions", func(ctx context.Context, q sqldb.Reader) error {
		kinds = nil
		for next := (sql.Null[mqtt.Kind]{}); ; kinds = append(kinds, next.V) {
			err := q.QueryRowContext(ctx, "SELECT MIN(kind) FROM mqtt_records WHERE kind > ?", next.V).Scan(&next)
			if err != nil || !next.Valid {
				return err
			}
		}
	})
	return kinds, err
}

// loadKind loads the records of a kind. A query that fails in the middle goes on behind the last
// record that each has seen.
func (s *Store) loadKind(ctx context.Context, kind mqtt.Kind, each func(mqtt.Change) error) error {
	next := []byte{} // the first key that each may not have seen
	for n := pageRows; n == pageRows; {
		n = 0
		var failed error // that each returned
		err := s.db.Read(ctx, "load MQTT sessions", func(ctx context.Context, q sqldb.Reader) error {
			if failed != nil {
				return failed
			}
			var key, value sql.RawBytes
			return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
				if err := rows.Scan(&key, &value); err != nil {
					return err
				}
				if value == nil { // as drivers have it that is empty
					value = sql.RawBytes{}
				}
				n++
				next = append(append(next[:0], key...), 0)
				failed = each(mqtt.Change{Kind: kind, Key: key, Value: value})
				return failed
			}, "SELECT record_key, value FROM mqtt_records WHERE kind = ? AND record_key >= ? ORDER BY record_key LIMIT ?", kind, next, pageRows-n)
		})
		if err = cmp.Or(failed, err); err != nil {
			return err
		}
	}
	return nil
}

// Commit makes all changes in one transaction. It passes the fence at the end: on a server, no other
// transaction waits while the rows are written. Errors: those of [sqldb.DB.Write].
func (s *Store) Commit(ctx context.Context, changes []mqtt.Change) error {
	puts, deletes := sorted(changes)
	rows := &sqldb.Table{Name: "mqtt_records", Ints: []string{"kind"}, Blobs: []string{"record_key", "value"}, Key: "kind, record_key"}
	keys := &sqldb.Table{Name: rows.Name, Ints: rows.Ints, Blobs: rows.Blobs[:1]}
	return s.db.WriteLate(ctx, "write MQTT sessions", func(ctx context.Context, tx sqldb.Tx) error {
		err := inParts(deletes, func(part []mqtt.Change) error {
			return tx.Delete(ctx, keys, len(part), func(args []any, i int) []any {
				return append(args, int64(part[i].Kind), part[i].Key)
			})
		})
		if err != nil {
			return err
		}
		err = inParts(puts, func(part []mqtt.Change) error {
			return tx.Insert(ctx, rows, len(part), func(args []any, i int) []any {
				return append(args, int64(part[i].Kind), part[i].Key, part[i].Value)
			})
		})
		if err != nil {
			return err
		}
		return tx.Fence(ctx, "fence = fence")
	})
}

// sorted returns the changes that put and those that delete, in the order of the rows, which spares
// the database work.
func sorted(changes []mqtt.Change) (puts, deletes []mqtt.Change) {
	for _, c := range changes {
		if c.Value == nil {
			deletes = append(deletes, c)
		} else {
			puts = append(puts, c)
		}
	}
	for _, list := range [][]mqtt.Change{puts, deletes} {
		slices.SortFunc(list, func(a, b mqtt.Change) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.Key, b.Key))
		})
	}
	return puts, deletes
}

// inParts calls do for parts of changes, each of at most partBytes or of one change.
func inParts(changes []mqtt.Change, do func(part []mqtt.Change) error) error {
	from, size := 0, 0
	for i, c := range changes {
		row := rowBytes + len(c.Key) + len(c.Value)
		if size += row; size > partBytes && i > from {
			if err := do(changes[from:i]); err != nil {
				return err
			}
			from, size = i, row
		}
	}
	return do(changes[from:])
}
