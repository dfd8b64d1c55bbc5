package store

import (
	"context"
	"maps"
	"sync"

	"github.com/holter-iot/holter/internal/sqldb"
)

// names are the names that many rows have, such as those of sources, by the numbers that stand for
// them. Number 0 is the empty name.
type names struct {
	mu   sync.RWMutex // guards the fields below
	ids  map[string]int64
	text map[int64]string
	max  int64
}

// nameRow is a row of names.
type nameRow struct {
	id   int64
	name string
}

func putNames(ctx context.Context, tx sqldb.Tx, rows []nameRow) error {
	t := &sqldb.Table{Name: "names", Ints: []string{"id"}, Texts: []string{"name"}}
	return tx.Insert(ctx, t, len(rows), func(args []any, i int) []any { return append(args, rows[i].id, rows[i].name) })
}

func (n *names) load(ctx context.Context, tx sqldb.Tx) error {
	rows, err := sqldb.All(ctx, tx, func(r *nameRow) []any { return []any{&r.id, &r.name} }, "SELECT id, name FROM names")
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids, n.text, n.max = make(map[string]int64), make(map[int64]string), 0
	n.addLocked(rows)
	return nil
}

func (n *names) addLocked(rows []nameRow) {
	for _, r := range rows {
		n.ids[r.name], n.text[r.id] = r.id, r.name
		n.max = max(n.max, r.id)
	}
}

// add adds rows that were written.
func (n *names) add(rows []nameRow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addLocked(rows)
}

// all returns all names by number. They are few.
func (n *names) all() map[int64]string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return maps.Clone(n.text)
}

// naming returns the numbers of names, and collects rows for new names. These rows are to be written,
// and then added.
type naming struct {
	names *names
	seen  map[string]int64
	fresh []nameRow
}

func (n *names) naming() *naming {
	return &naming{names: n, seen: map[string]int64{"": 0}}
}

func (g *naming) number(name string) int64 {
	id, ok := g.seen[name]
	if !ok {
		id = g.find(name)
		g.seen[name] = id
	}
	return id
}

func (g *naming) find(name string) int64 {
	g.names.mu.RLock()
	defer g.names.mu.RUnlock()
	if id, ok := g.names.ids[name]; ok {
		return id
	}
	id := g.names.max + 1 + int64(len(g.fresh))
	g.fresh = append(g.fresh, nameRow{id: id, name: name})
	return id
}
