package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
)

// A transaction is committed only with the fence, and only if it is ours.
func TestFence(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			db := open(t, kind.URL(t))
			insert := func(ctx context.Context, tx sqldb.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO names (id, name) VALUES (1, 'x')")
				return err
			}
			count := func() (n int) {
				t.Helper()
				if err := db.Scan(t.Context(), "SELECT COUNT(*) FROM names", &n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			if err := db.WriteLate(t.Context(), "test", insert); err == nil || count() != 0 {
				t.Errorf("without the fence: %v, %d rows", err, count())
			}
			err := db.WriteLate(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
				held, err := tx.FenceIf(ctx, "last_offset = ?", "last_offset = ?", 7, 3)
				if held || err != nil {
					t.Errorf("FenceIf = %v, %v", held, err)
				}
				return insert(ctx, tx)
			})
			if err == nil || count() != 0 {
				t.Errorf("under a condition that does not hold: %v, %d rows", err, count())
			}
			unknown := errkind.Errorf(io.EOF, "there is no x")
			if err := db.Write(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
				return errors.Join(insert(ctx, tx), unknown)
			}); !errors.Is(err, unknown) || errors.As(err, new(*sqldb.Error)) || count() != 0 {
				t.Errorf("with an error that has a kind: %v, %d rows", err, count())
			}
			if err := db.Write(t.Context(), "test", insert); err != nil || count() != 1 {
				t.Errorf("with the fence: %v, %d rows", err, count())
			}
			if err := db.Exec(t.Context(), "UPDATE meta SET fence = fence + 1"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := write(t, db); !errors.Is(err, sqldb.ErrFenced) || !errors.Is(db.Health(), sqldb.ErrFenced) || count() != 1 {
					t.Errorf("overtaken: %v, %v, %d rows", err, db.Health(), count())
				}
			}
		})
	}
}

// A server ends a transaction that stands still, as that of a process which was cut off.
func TestIdleLimit(t *testing.T) {
	query := map[string]string{"postgres": "SHOW idle_in_transaction_session_timeout", "mariadb": "SELECT CONCAT(@@idle_transaction_timeout, 's')"}
	for _, kind := range testdb.Databases() {
		ask := query[kind.Name]
		if ask == "" {
			continue
		}
		t.Run("db="+kind.Name, func(t *testing.T) {
			db := open(t, kind.URL(t))
			var limit string
			if err := db.Scan(t.Context(), ask, &limit); err != nil || limit != "5s" {
				t.Errorf("%q, %v, want 5s", limit, err)
			}
		})
	}
}

// A transaction whose turn does not come, since the one before it hangs, ends with its context, or once
// it has waited as long as a transaction may take.
func TestTurns(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			synctest.Test(t, func(t *testing.T) {
				db, err := sqldb.New(sqldb.Config{URL: url, Patience: 3 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				begun, end, done := make(chan bool), make(chan bool), make(chan bool)
				go func() {
					defer close(done)
					_ = db.Write(t.Context(), "hang", func(context.Context, sqldb.Tx) error {
						close(begun)
						<-end
						return nil
					})
				}()
				<-begun
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				waits := func(ctx context.Context, want error) {
					t.Helper()
					err := db.Write(ctx, "wait", func(context.Context, sqldb.Tx) error {
						t.Error("it has its turn")
						return nil
					})
					if !errors.Is(err, want) || !errors.As(err, new(*sqldb.Error)) {
						t.Errorf("Write = %v, want %v", err, want)
					}
				}
				waits(ended, context.Canceled)
				waits(t.Context(), context.DeadlineExceeded)
				close(end)
				<-done // a server may have ended it, since it took too long
				if err := write(t, db); err != nil {
					t.Errorf("the next one: %v", err)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Insert and Repeat write any text and any bytes, in as many rows as there are.
func TestInsert(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			db := open(t, kind.URL(t))
			table := &sqldb.Table{
				Name: "device_states",
				Ints: []string{"num", "state", "reason", "source", "heard", "until_at", "since", "seq", "epoch", "flags", "head"}, Texts: []string{"announced", "own"},
				Blobs: []string{"changes"}, Key: "num",
			}
			const rows = 2500
			put := func(text string) {
				t.Helper()
				err := db.Write(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
					return tx.Insert(ctx, table, rows, func(args []any, i int) []any {
						for range table.Ints {
							args = append(args, int64(i+1))
						}
						return append(args, text, "it's a \"☃\" \\ ?", []byte{0, 0xff, byte(i)})
					})
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			put("before")
			put("after") // over the rows that are there
			err := db.Write(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
				return tx.Repeat(ctx, "UPDATE device_states SET announced = ? WHERE num = ?", 10, func(args []any, i int) []any {
					return append(args, fmt.Sprintf("$1 of %d", i), i+1)
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			var announced, own string
			var changes []byte
			var n, after int
			if err := db.Scan(t.Context(), "SELECT COUNT(*), SUM(CASE WHEN announced = 'after' THEN 1 ELSE 0 END) FROM device_states", &n, &after); err != nil {
				t.Fatal(err)
			}
			if err := db.Scan(t.Context(), "SELECT announced, own, changes FROM device_states WHERE num = 3", &announced, &own, &changes); err != nil {
				t.Fatal(err)
			}
			if n != rows || after != rows-10 || announced != "$1 of 2" || own != "it's a \"☃\" \\ ?" || string(changes) != "\x00\xff\x02" {
				t.Errorf("%d rows, %d of them %q %q %q", n, after, announced, own, changes)
			}
		})
	}
}

// Delete deletes rows by several columns, and Insert overwrites rows that have them.
func TestDelete(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			db := open(t, kind.URL(t))
			table := &sqldb.Table{Name: "run_steps", Ints: []string{"run", "state", "attempts", "started", "ended", "wake", "holds"}, Texts: []string{"step", "output", "error"}, Key: "run, step"}
			key := &sqldb.Table{Name: table.Name, Ints: table.Ints[:1], Texts: table.Texts[:1]}
			const rows = 2500
			put := func(output string) {
				t.Helper()
				err := db.Write(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
					return tx.Insert(ctx, table, rows, func(args []any, i int) []any {
						return append(args, int64(i/10), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), fmt.Sprint("it's ", i%10), output, "")
					})
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			remove := func(n int, step string) {
				t.Helper()
				err := db.Write(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
					return tx.Delete(ctx, key, n, func(args []any, i int) []any { return append(args, int64(i/10), fmt.Sprint(step, i%10)) })
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			put("before")
			put("after")
			remove(rows, "not there ")
			remove(0, "it's ")
			remove(2405, "it's ")
			var n, lowest, after int
			if err := db.Scan(t.Context(), "SELECT COUNT(*), MIN(run * 10), SUM(CASE WHEN output = 'after' THEN 1 ELSE 0 END) FROM run_steps", &n, &lowest, &after); err != nil {
				t.Fatal(err)
			}
			if n != rows-2405 || lowest != 2400 || after != n {
				t.Errorf("%d rows from %d on, %d of them overwritten", n, lowest, after)
			}
			remove(rows, "it's ")
			if err := db.Scan(t.Context(), "SELECT COUNT(*) FROM run_steps", &n); err != nil || n != 0 {
				t.Errorf("%d rows are left, %v", n, err)
			}
		})
	}
}

// A value that is as large as the database says can be written, whatever its bytes are.
func TestLargestValue(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			db := newDB(t, kind.URL(t))
			if _, err := db.LargestValue(t.Context()); !errors.Is(err, sqldb.ErrNotOpen) {
				t.Errorf("before Open: %v", err)
			}
			if err := db.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			n, err := db.LargestValue(t.Context())
			if err != nil || n < 8_000_000 {
				t.Fatalf("LargestValue = %d, %v", n, err)
			}
			n = min(n, 20_000_000) // a gigabyte is too much for a test
			table := &sqldb.Table{
				Name: "job_bodies", Ints: []string{"id", "created", "deadline"}, Texts: []string{"message", "okey", "url", "content_type"}, Blobs: []string{"data"},
			}
			err = db.Write(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
				return tx.Insert(ctx, table, 1, func(args []any, _ int) []any {
					return append(args, int64(1), int64(0), int64(0), "", "", strings.Repeat("'", 2000), "", make([]byte, n)) // each byte is escaped
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"plain", 10, "plain"}, {"plain", 3, "pla"}, {"a\x00b", 10, "a\uFFFDb"}, {"a\xffb", 10, "a\uFFFDb"}, {"aé", 2, "a\uFFFD"},
	} {
		if got := sqldb.Text(c.text, c.most); got != c.want {
			t.Errorf("Text(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
	if got := sqldb.Text(strings.Repeat("\xffa", 1000), 100); len(got) > 103 {
		t.Errorf("a text of 100 bytes that are no UTF-8 has %d bytes", len(got))
	}
}

// Reads and writes of a database that is not open, or only shared, fail.
func TestNotOpen(t *testing.T) {
	url := testdb.SQLite(t)
	db := newDB(t, url)
	read := func(db *sqldb.DB) error {
		return db.Read(t.Context(), "test", func(context.Context, sqldb.Reader) error { return nil })
	}
	for name, err := range map[string]error{
		"Write": write(t, db), "Read": read(db), "Exec": db.Exec(t.Context(), "SELECT 1"), "Health": db.Health(), "Close": db.Close(),
	} {
		if !errors.Is(err, sqldb.ErrNotOpen) && name != "Close" || name == "Close" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	shared, err := sqldb.OpenShared(t.Context(), sqldb.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := write(t, shared); !errors.Is(err, sqldb.ErrNotOpen) {
		t.Errorf("Write of a shared database: %v", err)
	}
	if err := errors.Join(read(shared), shared.Close()); err != nil {
		t.Error(err)
	}
}

// Run ends with its context, and Health follows the database meanwhile.
func TestRun(t *testing.T) {
	db := open(t, testdb.SQLite(t))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := db.Health(); err != nil {
		t.Errorf("Health: %v", err)
	}
}
