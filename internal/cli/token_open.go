package cli

import (
	"context"

	"github.com/holter-iot/holter/httpapi/auth"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/sqldb"
)

// sharedTokens are the tokens in a database that a server may be at work on.
type sharedTokens struct {
	*auth.Tokens

	db *sqldb.DB
}

// Close closes the database.
func (t *sharedTokens) Close() error { return t.db.Close() }

// openTokens opens the tokens of a configuration's database.
func openTokens(ctx context.Context, cfg config.Config) (tokenKeeper, error) {
	db, err := sqldb.OpenShared(ctx, server.DatabaseConfig(cfg))
	if err != nil {
		return nil, err
	}
	return &sharedTokens{auth.NewTokens(db), db}, nil
}
