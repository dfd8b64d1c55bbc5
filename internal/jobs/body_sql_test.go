package jobs_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/test/testdb"
)

// The queries of the documentation read a member of a body in SQL.
func TestBodyInSQL(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/delivery.md")
	if err != nil {
		t.Fatal(err)
	}
	queries := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| (\\w+) \\| `(SELECT .* FROM job_bodies)` \\|$").FindAllSubmatch(doc, -1) {
		queries[string(m[1])] = string(m[2])
	}
	titles := map[string]string{"sqlite": "SQLite", "postgres": "PostgreSQL", "mariadb": "MariaDB"}
	for _, db := range testdb.Databases() {
		onDatabases(t, []testdb.Database{db}, config{}, func(t *testing.T, s *rig) {
			t.Helper()
			q := newQueue(t, s)
			id := q.enqueue(jobs.Spec{Lane: lane, Body: jobs.Body{Name: "ship", Data: []byte(`{"order":"sieben – 7"}`)}})
			var got uint64
			var name, order string
			if err := s.Scan(t.Context(), queries[titles[db.Name]], &got, &name, &order); err != nil || got != id || name != "ship" || order != "sieben – 7" {
				t.Errorf("job %d %q has %q, %v", got, name, order, err)
			}
		})
	}
}
