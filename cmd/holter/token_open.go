package main

import (
	"context"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/store"
)

// openTokens opens the tokens of a configuration's database.
func openTokens(ctx context.Context, cfg config.Config) (tokenKeeper, error) {
	t, err := store.OpenTokens(ctx, storeConfig(cfg))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// probeStore opens the database and reads from it. It returns how many rows of devices are set aside.
func probeStore(ctx context.Context, cfg config.Config) (aside int, err error) {
	t, err := store.OpenTokens(ctx, storeConfig(cfg))
	if err != nil {
		return 0, err
	}
	aside, err = t.SetAside(ctx)
	if closed := t.Close(); err == nil {
		err = closed
	}
	return aside, err
}
