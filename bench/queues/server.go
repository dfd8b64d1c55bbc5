package queues

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holter-iot/holter/internal/test/testdb"
)

// server is the PostgreSQL server of all measurements. It has each commit on the disk before it confirms it.
type server struct {
	*testdb.Server

	home    string // URL of a database that nobody uses
	version string
}

func startServer(ctx context.Context) (*server, error) {
	db, err := testdb.New("postgres") //nolint:contextcheck // it ends with the benchmark
	if err != nil {
		return nil, err
	}
	s := &server{Server: db}
	if s.home, err = db.NewDatabase(); err == nil { //nolint:contextcheck // it has a limit of its own
		err = s.ask(ctx, "SHOW server_version", &s.version)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	s.version = "PostgreSQL " + strings.Fields(s.version)[0]
	return s, nil
}

// database returns the URL of a new database. Whatever was written before is on the disk by then.
func (s *server) database(ctx context.Context) (string, error) {
	if err := s.ask(ctx, "CHECKPOINT"); err != nil {
		return "", err
	}
	return s.NewDatabase() //nolint:contextcheck // it has a limit of its own
}

// drop removes a database, so that the server has no work with it any more.
func (s *server) drop(ctx context.Context, of string) error {
	u, err := url.Parse(of)
	if err != nil {
		return err
	}
	return s.ask(ctx, "DROP DATABASE "+pgx.Identifier{strings.Trim(u.Path, "/")}.Sanitize()+" WITH (FORCE)")
}

// ask runs a statement, and reads the row that it returns.
func (s *server) ask(ctx context.Context, statement string, into ...any) error {
	conn, err := pgx.Connect(ctx, s.home)
	if err != nil {
		return err
	}
	return errors.Join(query(ctx, conn, statement, into...), conn.Close(ctx))
}

func query(ctx context.Context, conn *pgx.Conn, statement string, into ...any) (err error) {
	if len(into) == 0 {
		_, err = conn.Exec(ctx, statement)
	} else {
		err = conn.QueryRow(ctx, statement).Scan(into...)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
