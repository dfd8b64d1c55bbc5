package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/internal/sqldb"
)

// tokenAuth tells the API which tokens there are.
type tokenAuth struct {
	*auth.Tokens

	open  bool                 // no token is needed
	local bool                 // only this machine reaches the API, so no token is needed while none exists
	some  atomic.Pointer[bool] // whether tokens exist; nil until it is known
}

var errTokensUnknown = errors.New("the tokens have not been read yet")

func newTokenAuth(db *sqldb.DB, c config.Config) *tokenAuth {
	return &tokenAuth{Tokens: auth.NewTokens(db), open: c.Open, local: config.Loopback(c.HTTP)}
}

// Required implements httpapi.Auth.
func (a *tokenAuth) Required() (bool, error) {
	if a.open || !a.local {
		return !a.open, nil
	}
	some := a.some.Load()
	if some == nil {
		return false, errTokensUnknown
	}
	return *some, nil
}

// Create is that of auth.Tokens. Requests need a token at once if it is the first one.
func (a *tokenAuth) Create(ctx context.Context, name string, role auth.Role) (secret string, _ auth.Token, err error) {
	secret, t, err := a.Tokens.Create(ctx, name, role)
	if err == nil {
		a.look(ctx)
	}
	return secret, t, err
}

// Revoke is that of auth.Tokens. Requests at a local address need no token at once if it was the last
// one.
func (a *tokenAuth) Revoke(ctx context.Context, id string) error {
	err := a.Tokens.Revoke(ctx, id)
	if err == nil {
		a.look(ctx)
	}
	return err
}

// run checks every two seconds whether tokens exist, until ctx is done. While the database does not
// answer, the last result stays in effect.
func (a *tokenAuth) run(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		a.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *tokenAuth) look(ctx context.Context) {
	if some, err := a.Any(ctx); err == nil {
		a.some.Store(&some)
	}
}
