package sqldb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
)

// thing is a row with a field of each kind.
type thing struct {
	id     uint64
	flag   bool
	at     time.Time
	raw    json.RawMessage
	data   []byte
	rate   float64
	text   string
	absent *int64
}

const thingColumns = "id, flag, at, raw, data, rate, txt, absent"

func (r *thing) fields() []any {
	return []any{&r.id, &r.flag, sqldb.Instant(&r.at), sqldb.JSON(&r.raw), sqldb.Bytes(&r.data), &r.rate, &r.text, &r.absent}
}

// What is written to any database is read again.
func TestRows(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) { testRows(t, kind.URL(t)) })
		if kind.Name == "postgres" { // as behind a pooler
			t.Run("db=postgres/exec", func(t *testing.T) { testRows(t, kind.URL(t)+"&default_query_exec_mode=exec") })
		}
	}
}

func testRows(t *testing.T, url string) {
	t.Helper()
	db := open(t, url)
	bytes := "BLOB"
	if strings.HasPrefix(url, "postgres") {
		bytes = "BYTEA"
	}
	err := db.Exec(t.Context(), "CREATE TABLE things (id BIGINT PRIMARY KEY, flag INT NOT NULL, at BIGINT NOT NULL, raw TEXT NOT NULL, data "+bytes+
		", rate DOUBLE PRECISION NOT NULL, txt VARCHAR(40) NOT NULL, absent BIGINT)")
	if err != nil {
		t.Fatal(err)
	}
	rows := []thing{
		{1, true, base, json.RawMessage(`{"a":"?'\\"}`), []byte{0, '\'', 0xff}, 0.25, `it's \ ?`, nil},
		{2, false, time.Time{}, json.RawMessage{}, []byte{}, 0, "", new(int64)},
		{math.MaxInt64, false, time.Time{}, json.RawMessage("null"), nil, -1e300, "ü", nil},
	}
	err = db.Write(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
		for i := range rows {
			if n, err := tx.Exec(ctx, sqldb.InsertInto("things", thingColumns), rows[i].fields()...); err != nil || n != 1 {
				return fmt.Errorf("%d rows were inserted: %w", n, err)
			}
		}
		n, err := tx.Exec(ctx, "UPDATE things SET flag = ? WHERE id IN (?)", false, []int64{2, math.MaxInt64})
		if n != 2 {
			t.Errorf("%d rows were changed, want 2: those that are what they were count", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Read(t.Context(), "test", func(ctx context.Context, q sqldb.Reader) error {
		got, err := sqldb.All(ctx, q, (*thing).fields, "SELECT "+thingColumns+" FROM things ORDER BY id")
		if !reflect.DeepEqual(got, rows) {
			t.Errorf("read %v, want %v", got, rows)
		}
		testConditions(ctx, t, q)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func testConditions(ctx context.Context, t *testing.T, q sqldb.Reader) {
	t.Helper()
	for _, c := range []struct {
		condition string
		arg       any
		want      []uint64
	}{
		{"id IN (?)", sqldb.Ints([]uint64{1, 2, math.MaxUint64}), []uint64{1, 2, math.MaxInt64}},
		{"id NOT IN (?)", []int64{1}, []uint64{2, math.MaxInt64}},
		{"id IN (?)", []int64{}, nil},
		{"txt IN (?)", []string{"", "ü"}, []uint64{2, math.MaxInt64}},
		{"txt NOT IN (?)", []string{"ü", `it's \ ?`}, []uint64{2}},
		{"id >= ?", uint64(math.MaxUint64), []uint64{math.MaxInt64}},
		{"rate > ?", 0.1, []uint64{1}},
		{"flag = ?", true, []uint64{1}},
		{"at = ?", base, []uint64{1}},
		{"data = ?", []byte{0, '\'', 0xff}, []uint64{1}},
	} {
		got, err := sqldb.Values[uint64](ctx, q, "SELECT id FROM things WHERE "+c.condition+" ORDER BY id", c.arg)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s with %v selects %v, want %v; %v", c.condition, c.arg, got, c.want, err)
		}
	}
}

// PostgreSQL plans each statement for the tables as they are, and keeps no plan.
func TestPlans(t *testing.T) {
	for _, kind := range testdb.Databases() {
		if kind.Name != "postgres" {
			continue
		}
		db := open(t, kind.URL(t))
		for range 10 {
			n := 0
			if err := db.ReadRow(t.Context(), "test", []any{&n}, "SELECT COUNT(*) FROM pg_prepared_statements WHERE name <> ?", ""); err != nil || n > 0 {
				t.Errorf("%d statements are prepared: %v", n, err)
			}
		}
	}
}
