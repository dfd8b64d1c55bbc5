package sqldb

import (
	"context"
	"database/sql"
	"errors"
)

// Holder is who works on a database.
type Holder struct {
	// Free reports that nobody does, or that this process had it last ([Config].Terms): Open would succeed.
	// Open also takes a server's database over from a process with the name of this one that has ended
	// without a word, after some seconds.
	Free bool
	// Lost reports that the database has lost the holder, or a renewal of the lease, that was seen the time
	// before, see [Config].Terms.
	Lost bool
	// Node is the name of the holder, see [Config], also of one whose lease is over since it did not
	// renew it; "" if nobody holds it, and for a file.
	Node string
	Text string // describes the holder for people; "" if there is none
}

// Holder returns who works on the database. It changes nothing, and needs neither Open nor a schema. A
// server has 10 s to answer. Errors: those of the database.
func (db *DB) Holder(ctx context.Context) (Holder, error) {
	if file, ok := db.backend.(*sqliteDB); ok {
		h, err := fileHolder(file.lockPath())
		return h, db.wrap("ask for the holder", err)
	}
	j := judge{db.backend, db.backend.leasePool()}
	var row judgeRow
	var nowMicros int64
	err := j.on(ctx, min(db.config.Patience, mostPatience), func(ctx context.Context, conn *sql.Conn) (err error) {
		row, nowMicros, err = j.look(ctx, conn)
		return err
	})
	_ = j.pool.Close() // nothing was written over it
	switch {
	case errors.Is(err, errNoJudge):
		return Holder{Free: true}, nil
	case err != nil:
		return Holder{}, db.wrap("ask for the holder", err)
	}
	lost := db.config.Terms.see(row)
	if row.node == "" {
		return Holder{Free: true}, nil
	}
	free := row.free(nowMicros) || db.config.Terms.had(row.fence)
	return Holder{Free: free, Lost: lost, Node: row.node, Text: row.text(nowMicros)}, nil
}
