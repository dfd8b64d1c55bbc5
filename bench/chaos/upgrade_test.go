package chaos

import (
	"database/sql"
	"sync"
	"testing"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
)

func TestFirstVersion(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config Config
		want   string
	}{
		{"no version before", Config{Program: "new", Nodes: 2, Faults: AllFaults()}, "new"},
		{"one before", Config{Program: "new", Previous: "old", Nodes: 2, Faults: AllFaults()}, "old"},
		{"one before, and no upgrade is wanted", Config{Program: "new", Previous: "old", Nodes: 2, Faults: []FaultKind{Kill}}, "new"},
	} {
		r := &trial{config: tt.config}
		if r.newVersions(); r.versions.now != tt.want {
			t.Errorf("%s: a run begins with %q, want %q", tt.name, r.versions.now, tt.want)
		}
	}
}

// A cluster is put back after an upgrade, but not after one that changes the tables.
func TestChangeVersion(t *testing.T) {
	server := testdb.NewPostgres(t, false)
	url := server.Database(t)
	r := &trial{config: Config{Program: "new", Previous: "old"}, database: server, url: url, versions: versions{now: "old"}}
	change := func(want string, oneWay bool) {
		t.Helper()
		if err := r.changeVersion(t.Context()); err != nil || r.versions.now != want || r.versions.oneWay != oneWay {
			t.Errorf("the version is %+v, %v; want %s, one way: %v", r.versions, err, want, oneWay)
		}
	}
	judge, err := sqldb.New(sqldb.Config{URL: url, Node: "judge"})
	if err != nil {
		t.Fatal(err)
	}
	if err := judge.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = judge.Close() }()
	change("new", false)
	change("old", false)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "DELETE FROM schema_version WHERE version_id = (SELECT max(version_id) FROM schema_version)")
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	change("new", true)
	change("new", true)
	if len(r.notes) != 1 {
		t.Errorf("the notes are %q", r.notes)
	}
	r.versions.now, r.url = "old", "postgres://%"
	if err := r.changeVersion(t.Context()); err == nil {
		t.Error("a version is chosen without a database")
	}
}

// However many choose at once, each ear is taken by one of them, and one ear is left alone.
func TestTakeEars(t *testing.T) {
	g := &ears{all: []*ear{{}, {}, {}}}
	if e := g.take(g.all[1:2]); e != g.all[1] || g.take(g.all[1:2]) != nil {
		t.Errorf("took %p of one that was free", e)
	}
	g.all[1].busy.Store(false)
	var work sync.WaitGroup
	taken := make(chan *ear, 10)
	for range cap(taken) {
		work.Go(func() {
			if e := g.take(g.all); e != nil {
				taken <- e
			}
		})
	}
	work.Wait()
	close(taken)
	once := map[*ear]bool{}
	for e := range taken {
		if once[e] {
			t.Errorf("an ear is taken twice")
		}
		once[e] = true
	}
	if len(once) != 2 {
		t.Errorf("of three ears %d are taken", len(once))
	}
	if alone := (&ears{all: []*ear{{}}}); alone.take(alone.all) == nil {
		t.Error("a single ear is never taken")
	}
}
