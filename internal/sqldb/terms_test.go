package sqldb_test

import (
	"errors"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
)

// lineage is a database that loses commits, as after a failover to a replica that was behind.
type lineage struct {
	*testing.T

	url  string
	file bool
}

func eachLineage(t *testing.T, test func(l lineage)) {
	t.Helper()
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) { test(lineage{t, kind.URL(t), kind.Name == "sqlite"}) })
	}
}

// process returns what one process knows of the terms, and a function with which it has the database for a
// moment.
func (l lineage) process(name string) (known *sqldb.Terms, turn func(resumed bool) (term int64)) {
	known = new(sqldb.Terms)
	return known, func(resumed bool) int64 {
		l.Helper()
		db, err := sqldb.New(sqldb.Config{URL: l.url, Node: name, Terms: known})
		must(l, err)
		must(l, db.Open(l.Context()))
		if db.Resumed() != resumed {
			l.Errorf("%s: Resumed() = %v in term %d, want %v", name, !resumed, db.Fence(), resumed)
		}
		must(l, db.Close())
		return db.Fence()
	}
}

// exec runs statements beside the processes.
func (l lineage) exec(queries ...string) {
	l.Helper()
	db, err := sqldb.OpenShared(l.Context(), sqldb.Config{URL: l.url})
	must(l, err)
	for _, query := range queries {
		must(l, db.Exec(l.Context(), query))
	}
	must(l, db.Close())
}

func (l lineage) tables() []string {
	if l.file {
		return []string{"meta"}
	}
	return []string{"meta", "judge"}
}

func (l lineage) replicate() {
	l.Helper()
	for _, table := range l.tables() {
		l.exec("DROP TABLE IF EXISTS old_"+table, "CREATE TABLE old_"+table+" AS SELECT * FROM "+table)
	}
}

func (l lineage) fail() {
	l.Helper()
	for _, table := range l.tables() {
		l.exec("DELETE FROM "+table, "INSERT INTO "+table+" SELECT * FROM old_"+table)
	}
}

// Terms grow for a process, whatever the database forgets of them, and it knows whether another one was
// there.
func TestTermsGrowAfterLoss(t *testing.T) {
	eachLineage(t, func(l lineage) {
		_, a := l.process("a")
		_, b := l.process("b")
		a(false)
		a(true)
		l.replicate()
		b(false)
		last := a(false)
		last = max(last, a(true))
		l.fail() // b was never there
		if term := a(false); term <= last {
			l.Errorf("term %d after %d", term, last)
		} else {
			last = term
		}
		l.replicate()
		for range 3 {
			last = a(true)
		}
		for range 2 {
			l.fail()
			term := a(true)
			if term <= last {
				l.Errorf("term %d after %d", term, last)
			}
			last = term
		}
	})
}

// A standby that has only seen a term gives it to nobody again, and notices that a renewal was lost.
func TestTermsOfOthersAreSeen(t *testing.T) {
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			l := lineage{t, kind.URL(t), false}
			known, b := l.process("b")
			look := func() sqldb.Holder {
				t.Helper()
				db, err := sqldb.New(sqldb.Config{URL: l.url, Terms: known})
				must(t, err)
				h, err := db.Holder(t.Context())
				must(t, err)
				return h
			}
			a := begin(t, l.url, "a")
			a.Freeze()
			l.replicate()
			for _, change := range []string{"renewed = renewed + 1", "term = 50"} {
				l.exec("UPDATE judge SET " + change)
				for range 2 {
					if h := look(); h.Free || h.Lost {
						t.Errorf("Holder = %+v", h)
					}
				}
				l.fail()
				if h := look(); h.Free || !h.Lost || h.Node != "a" {
					t.Errorf("%s: Holder = %+v after a loss", change, h)
				}
				if h := look(); h.Lost {
					t.Errorf("%s: Holder = %+v is told twice", change, h)
				}
			}
			must(t, a.Close())
			if h := look(); !h.Free || h.Lost {
				t.Errorf("Holder = %+v after the release", h)
			}
			if term := b(false); term <= 50 {
				t.Errorf("term %d after 50", term)
			}
		})
	}
}

// A lease that is kept waits for the process that had it, and for nobody else.
func TestKeepLease(t *testing.T) {
	for _, kind := range servers() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			l := lineage{t, kind.URL(t), false}
			known, a := l.process("a")
			db, err := sqldb.New(sqldb.Config{URL: l.url, Node: "a", Terms: known})
			must(t, err)
			db.KeepLease() // it has none
			must(t, db.Open(t.Context()))
			db.KeepLease()
			must(t, db.Close())
			b := node(t, l.url, "b")
			if err := b.Open(t.Context()); !errors.Is(err, sqldb.ErrLocked) {
				t.Errorf("Open of another one: %v, want ErrLocked", err)
			}
			again, err := sqldb.New(sqldb.Config{URL: l.url, Node: "a", Terms: known})
			must(t, err)
			if h, err := again.Holder(t.Context()); err != nil || !h.Free || h.Node != "a" {
				t.Errorf("Holder = %+v, %v", h, err)
			}
			if term := a(true); term != 2 {
				t.Errorf("term %d, want 2", term)
			}
			if !free(t, b) {
				t.Error("it is kept once more")
			}
		})
	}
}
