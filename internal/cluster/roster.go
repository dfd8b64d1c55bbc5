package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Role is what a server does.
type Role string

// The roles.
const (
	Judge   Role = "judge"   // it holds the lease of the database
	Standby Role = "standby" // it waits to take over
)

const (
	// renewEvery is how often a server renews its row, and lookEvery how often it reads all of them.
	renewEvery, lookEvery = 5 * time.Second, time.Second
	// aliveFor is for how long after that a server counts as alive.
	aliveFor = 4 * renewEvery
	// keptFor is for how long the row of one that is lost is kept.
	keptFor = time.Hour
)

// Member is a server of a fleet.
type Member struct {
	Process string // of this run of the server, unique
	Node    string // name of the server
	Role    Role
	Term    int64  // the latest term that it knows; that of a judge is its own
	Version string // of the program
	API     string // URL at which the others reach it
	Started time.Time
	Renewed time.Time // when it renewed its row; all three times by the database's clock
	Alive   bool      // it has done so lately, and no other judge came after it
}

// Roster is the list of the servers of a fleet, as the database has it, in which this server keeps its
// own row. Make one with [NewRoster]. All methods may be called concurrently.
type Roster struct {
	self Member

	mu      sync.Mutex // guards the fields below; held for a moment only
	members []Member   // as of the latest look; by node
}

// NewRoster returns the roster of a server that has a node, a version and an API. Nobody else is
// known yet.
func NewRoster(self Member) *Roster {
	self.Process = rand.Text()
	return &Roster{self: self}
}

// row is a member in the database.
type row struct {
	Process string
	Node    string
	Role    string
	Term    int64
	Version string
	API     string
	Started int64 // Unix time in ns
	Renewed int64
}

const columns = "process, node, role, term, version, api, started, renewed"

func (r *row) fields() []any {
	return []any{&r.Process, &r.Node, &r.Role, &r.Term, &r.Version, &r.API, &r.Started, &r.Renewed}
}

// Run keeps the row of this server, and looks for those of the others, until ctx is done. term is
// that of the judge; a standby passes 0. While the database fails, what was known stays.
func (r *Roster) Run(ctx context.Context, db *sqldb.DB, role Role, term int64) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for renewed := (time.Time{}); ; {
		// While the database fails, the next look makes up for it.
		if r.look(ctx, db) == nil && time.Since(renewed) >= renewEvery && r.renew(ctx, db, role, term) == nil {
			renewed = time.Now()
			_ = r.look(ctx, db)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// renew writes the row of this server, and removes those of servers that were lost long ago.
func (r *Roster) renew(ctx context.Context, db *sqldb.DB, role Role, term int64) error {
	now, err := db.Clock(ctx)
	if err != nil {
		return err
	}
	self := r.become(role, term, now)
	mine := row{
		Process: self.Process, Node: self.Node, Role: string(role), Term: self.Term, Version: self.Version, API: self.API,
		Started: sqldb.Nanos(self.Started), Renewed: sqldb.Nanos(now),
	}
	return db.WriteShared(ctx, "renew the row of this server", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, sqldb.InsertInto("nodes", columns)+tx.Upsert("process", strings.Split(columns, ", ")[1:]...), mine.fields()...)
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM nodes WHERE renewed < ?", now.Add(-keptFor))
		}
		return err
	})
}

// become notes what this server is now, and returns it.
func (r *Roster) become(role Role, term int64, now time.Time) Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.self.Started.IsZero() {
		r.self.Started = now
	}
	r.self.Role, r.self.Term, r.self.Renewed = role, max(r.self.Term, term), now
	return r.self
}

// look reads the rows of all servers.
func (r *Roster) look(ctx context.Context, db *sqldb.DB) error {
	now, err := db.Clock(ctx)
	if err != nil {
		return err
	}
	rows, err := sqldb.ReadAll(ctx, db, "read the rows of the servers", (*row).fields, "SELECT "+columns+" FROM nodes")
	if err == nil {
		r.takeRows(rows, now)
	}
	return err
}

// takeRows notes what was read.
func (r *Roster) takeRows(rows []row, now time.Time) {
	members := make([]Member, len(rows))
	for i, it := range rows {
		members[i] = Member{
			Process: it.Process, Node: it.Node, Role: Role(it.Role), Term: it.Term, Version: it.Version, API: it.API,
			Started: sqldb.Time(it.Started), Renewed: sqldb.Time(it.Renewed), Alive: now.Sub(sqldb.Time(it.Renewed)) < aliveFor,
		}
	}
	latest := int64(0)
	for _, m := range members {
		if m.Role == Judge {
			latest = max(latest, m.Term)
		}
	}
	for i := range members { // a judge that was followed by another has not noticed, or is lost
		m := &members[i]
		m.Alive = m.Alive && (m.Role != Judge || m.Term == latest)
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), b.Renewed.Compare(a.Renewed), cmp.Compare(a.Process, b.Process))
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = members
	for i := range members {
		r.self.Term = max(r.self.Term, members[i].Term)
	}
}

// Leave removes the row of this server, as it ends in order. Errors: those of the database.
func (r *Roster) Leave(ctx context.Context, db *sqldb.DB) error {
	return db.WriteShared(ctx, "remove the row of this server", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM nodes WHERE process = ?", r.self.Process)
		return err
	})
}

// Self returns this server.
func (r *Roster) Self() Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.self
}

// Members returns the servers of the fleet, by node, as of the latest look. Those that
// were lost stay for an hour.
func (r *Roster) Members() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.members)
}

// Judge returns the server that says that it is the judge, of several the one with the highest term;
// false if none does that is alive.
func (r *Roster) Judge() (judge Member, ok bool) {
	for _, m := range r.Members() {
		if m.Alive && m.Role == Judge && m.Term >= judge.Term {
			judge, ok = m, true
		}
	}
	return judge, ok
}

// others returns the other servers that were alive.
func (r *Roster) others() []Member {
	return slices.DeleteFunc(r.Members(), func(m Member) bool { return !m.Alive || m.Process == r.self.Process })
}
