package sqldb

import (
	"math"
	"reflect"
	"testing"
	"time"
)

func TestBind(t *testing.T) {
	yes, at, key := true, time.Unix(1, 5), uint64(7)
	type state int
	for name, test := range map[string]struct {
		query    string
		args     []any
		mysql    string
		postgres string
		bound    []any
		array    []any // of PostgreSQL, if it has others
	}{
		"none":  {"SELECT 1", nil, "SELECT 1", "SELECT 1", []any{}, nil},
		"plain": {"a = ? AND b = ?", []any{int64(1), "x?"}, "a = ? AND b = ?", "a = $1 AND b = $2", []any{int64(1), "x?"}, nil},
		"kinds": {
			"(?, ?, ?, ?, ?, ?, ?)",
			[]any{true, &yes, at, &key, state(3), uint64(math.MaxUint64), nil},
			"(?, ?, ?, ?, ?, ?, ?)", "($1, $2, $3, $4, $5, $6, $7)",
			[]any{int64(1), int64(1), int64(1_000_000_005), int64(7), int64(3), int64(math.MaxInt64), nil},
			nil,
		},
		"lists": {
			"a IN (?) AND b NOT IN (?) AND c = ?",
			[]any{Ints([]uint64{1, math.MaxUint64}), []string{"x"}, 2},
			"a IN (1,9223372036854775807) AND b NOT IN (?) AND c = ?",
			"a = ANY ($1) AND b <> ALL ($2) AND c = $3",
			[]any{"x", int64(2)},
			[]any{[]int64{1, math.MaxInt64}, []string{"x"}, int64(2)},
		},
		"empty":           {"a IN (?)", []any{[]int64{}}, "a IN (NULL)", "a = ANY ($1)", []any{}, []any{[]int64{}}},
		"arguments later": {"a = ? AND b = ?", nil, "a = ? AND b = ?", "a = $1 AND b = $2", []any{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if test.array == nil {
				test.array = test.bound
			}
			if query, bound := bind(&mysqlDB{}, test.query, test.args); query != test.mysql || !reflect.DeepEqual(bound, test.bound) {
				t.Errorf("for MySQL it is %q with %v, want %q with %v", query, bound, test.mysql, test.bound)
			}
			if query, bound := bind(&postgresDB{}, test.query, test.args); query != test.postgres || !reflect.DeepEqual(bound[1:], test.array) {
				t.Errorf("for PostgreSQL it is %q with %v, want %q with %v", query, bound, test.postgres, test.array)
			}
		})
	}
}
