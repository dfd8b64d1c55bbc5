package main

import (
	"context"
	"errors"

	"github.com/holter-iot/holter/httpapi/auth"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/sqldb"
	"github.com/holter-iot/holter/store"
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
	db, err := openShared(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &sharedTokens{auth.NewTokens(db), db}, nil
}

func openShared(ctx context.Context, cfg config.Config) (*sqldb.DB, error) {
	db, err := sqldb.New(databaseConfig(cfg))
	if err == nil {
		err = db.OpenShared(ctx)
	}
	return db, err
}

// probeStore opens the database and reads from it. It returns how many rows of devices are set aside.
func probeStore(ctx context.Context, cfg config.Config) (aside int, err error) {
	db, err := openShared(ctx, cfg)
	if err != nil {
		return 0, err
	}
	aside, err = store.CountSetAside(ctx, db)
	return aside, errors.Join(err, db.Close())
}
