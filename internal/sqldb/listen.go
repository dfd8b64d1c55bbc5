package sqldb

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// ErrNoNotices is returned by [DB.Listen] for a database that sends no notifications: all but PostgreSQL.
var ErrNoNotices = errors.New("sqldb: the database sends no notifications")

// InFile reports whether the database is a file, and not on a server.
func (db *DB) InFile() bool {
	_, ok := db.backend.(*sqliteDB)
	return ok
}

// Listen receives the notifications of a channel of PostgreSQL on a connection of its own, until ctx is
// done or the connection is lost. It calls heard once when it has begun to listen, and then for each
// notification, on this goroutine. What is sent while nobody listens is lost, and so is everything behind
// a pooler of transactions. Errors: ErrNoNotices, ctx.Err, and those of the database.
func (db *DB) Listen(ctx context.Context, channel string, heard func()) error {
	server, ok := db.backend.(*postgresDB)
	if !ok {
		return ErrNoNotices
	}
	return db.wrap("listen for notifications", server.listen(ctx, channel, heard))
}

func (b *postgresDB) listen(ctx context.Context, channel string, heard func()) (err error) {
	cfg := b.connector()
	conn, err := pgx.ConnectConfig(ctx, &cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was written over it
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	for heard(); ; heard() {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
