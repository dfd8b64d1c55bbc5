package cli

import (
	"context"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/store"
)

// openTokens opens the tokens of a configuration's database.
func openTokens(ctx context.Context, cfg config.Config) (tokenKeeper, error) {
	t, err := store.OpenTokens(ctx, server.StoreConfig(cfg))
	if err != nil {
		return nil, err
	}
	return t, nil
}
