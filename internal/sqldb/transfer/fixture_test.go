package transfer_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Main(m)) }

// hostile are texts that a database may change when it stores or compares them.
func hostile() []string {
	return []string{"", "a", "A", "ä", "Ä", "a ", " a", "'; DROP TABLE devices; --", `back\slash`, "new\nline\t\r", "\u0001\u001f", "日本語 🚲", "%s ? $1 :x", "é", "e\u0301"}
}

// blobs are bytes that a database may change.
func blobs() [][]byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return [][]byte{{}, {0}, all, {0xff, 0xfe, 0}, bytes.Repeat([]byte{0, '\'', '\\'}, 100_000), []byte("text")}
}

// fleet makes a database with rows in every table that hold what is hard to copy. It returns the database, closed.
func fleet(tb testing.TB, url string) *sqldb.DB {
	tb.Helper()
	db := testsqldb.Open(tb, sqldb.Config{URL: url, Dir: tb.TempDir()})
	err := db.Write(tb.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
		fill(func(query string, args ...any) {
			tb.Helper()
			if _, err := tx.Exec(ctx, query, args...); err != nil {
				tb.Fatalf("%s: %v", query, err)
			}
		}, db.InFile())
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		tb.Fatal(err)
	}
	return db
}

// fill inserts the rows of a fleet.
func fill(run func(query string, args ...any), inFile bool) {
	numbers := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1 << 53, 1<<53 + 1}
	for i, text := range hostile() {
		run("INSERT INTO devices (num, id) VALUES (?, ?)", i, text)
		run("INSERT INTO names (id, name) VALUES (?, ?)", i+1, text)
		n := numbers[i%len(numbers)]
		run("INSERT INTO device_states (num, state, reason, source, heard, until_at, since, seq, epoch, flags, head, announced, own, changes)"+
			" VALUES (?, 1, 0, 0, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?)", i, n, n, n, n, n, text, text, blobs()[i%2])
		run("INSERT INTO events (pos, prev, at, type, reason, seq, epoch, source, grp, policy, last_seen, deadline, silence, timeout, flags, subject, message, deaf)"+
			" VALUES (?, 0, ?, 3, 1, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, ?, ?, ?)", i+1, n, i+1, text, text, sql.NullInt64{Int64: n, Valid: i%2 == 0})
		run("INSERT INTO sources (name, seq, listened, at, deaf, deaf_total) VALUES (?, 1, ?, 0, '[]', 0)", text, n)
		run("INSERT INTO tokens (id, name, role, hash, created) VALUES (?, ?, 'read', ?, ?)", strconv.Itoa(i), text, fmt.Sprint("hash", i), n)
		run("INSERT INTO jobs (id, lane, event, okey, due, held, error) VALUES (?, 1, 0, ?, ?, ?, ?)", i+1, n, sql.NullInt64{Int64: n, Valid: i%3 == 0},
			sql.NullInt64{}, sql.NullString{String: text, Valid: i%2 == 0})
		run("INSERT INTO runs (id, playbook, subject, event, state, diverted, started, ended, wake, error) VALUES (?, ?, ?, 0, 0, 0, 0, 0, 0, ?)", i+1, text, text, text)
		run("INSERT INTO run_steps (run, step, state, attempts, started, ended, wake, holds, output, error) VALUES (1, ?, 1, 0, 0, 0, 0, 0, ?, '')", text, text)
		run("INSERT INTO playbooks (name, definition, changed) VALUES (?, ?, ?)", text, text, n)
	}
	for i, data := range blobs() {
		run("INSERT INTO pages (page, slot, number, data) VALUES (?, 0, 1, ?)", i, data)
		run("INSERT INTO mqtt_records (kind, record_key, value) VALUES (?, ?, ?)", i, data[:min(len(data), 1000)], data)
		run("INSERT INTO gaps (page, hour, size, head, data) VALUES (?, 1, 1, 0, ?)", i, data)
		run("INSERT INTO habits (page, data) VALUES (?, ?)", i, data)
		run("INSERT INTO job_bodies (id, message, okey, url, content_type, data, created, deadline) VALUES (?, 'm', 'k', 'u', 't', ?, 1, 0)", i+1, data)
	}
	for i, rate := range []float64{0, 0.1, 1.0 / 3, math.MaxFloat64, math.SmallestNonzeroFloat64, 1e21} {
		run("INSERT INTO queues (num, name, paused, concurrency, rate, attempts, backoff, max_backoff, max_age, max_jobs) VALUES (?, ?, 0, 1, ?, 1, 1, 1, 1, 1)",
			i+2, fmt.Sprint("q", i), rate)
	}
	run("UPDATE job_numbers SET last = ?", int64(math.MaxInt64))
	run("INSERT INTO nodes (process, node, role, term, version, api, started, renewed) VALUES ('p', 'n', 'judge', 1, 'v', 'u', 1, 1)")
	if !inFile {
		run("INSERT INTO holter_outbox (name, body, run_at) VALUES ('n', '{\"a\": 1}', '2026-03-01 12:00:00.123456')")
		run("INSERT INTO holter_outbox (endpoint, error) VALUES ('e', 'why')")
	}
}

// execIn runs a statement in a file.
func execIn(tb testing.TB, path, query string) error {
	tb.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(tb.Context(), query)
	return errors.Join(err, db.Close())
}

// fleetWithout is fleet without rows that a file has no table for.
func fleetWithout(tb testing.TB, url string) *sqldb.DB {
	tb.Helper()
	db := fleet(tb, url)
	if db.InFile() {
		return db
	}
	again := testsqldb.Open(tb, sqldb.Config{URL: url, Dir: tb.TempDir()})
	err := again.WriteShared(tb.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM holter_outbox")
		return err
	})
	if err := errors.Join(err, again.Close()); err != nil {
		tb.Fatal(err)
	}
	return db
}
